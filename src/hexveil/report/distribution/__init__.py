"""The page of quantiles, shares and histograms."""
