"""Comparisons and roll-ups of maps with private presence."""
