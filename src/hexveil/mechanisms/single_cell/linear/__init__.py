"""One noised linear sum with public weights: BASELINE, OPTIMALCLIPPING, ARRAY-AVERAGING."""
