"""Quantiles, shares and histograms: a distribution of records as one contribution."""
