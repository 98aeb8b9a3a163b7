"""Records (private side): column mapping, rules, sums."""
