"""Planning of quantiles, shares and histograms, beside means and variances."""
