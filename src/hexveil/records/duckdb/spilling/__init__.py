"""Pairs that memory does not hold: kept in blocks on disk."""
