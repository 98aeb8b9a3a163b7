"""Private clipping ranges: shares of epsilon, user weights, predictions."""
