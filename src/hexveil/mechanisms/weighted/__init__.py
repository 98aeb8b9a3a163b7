"""Weighted means and variances in a private clipping range."""
