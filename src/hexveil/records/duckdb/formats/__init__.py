"""Declared formats in SQL: numbers, times, nested records."""
