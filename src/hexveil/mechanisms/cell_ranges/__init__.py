"""Weighted means with a clipping range per cell, chosen from noisy numbers of the cells."""
