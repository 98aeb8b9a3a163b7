"""Averages and comparisons of published numbers: no records are read, and nothing is spent."""
