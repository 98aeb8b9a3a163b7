"""Smoothing: estimates of released maps, in which cells borrow strength. Post-processing only."""
