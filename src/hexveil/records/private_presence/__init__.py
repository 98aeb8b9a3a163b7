"""Readings with private presence: declarations, and pairs that public code never sees."""
