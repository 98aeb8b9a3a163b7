"""Publishing of quantiles, shares and histograms: booked, drawn once, decoded, written."""
