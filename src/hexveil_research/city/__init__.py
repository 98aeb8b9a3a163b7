"""Comparison of the simulated city with real records."""
