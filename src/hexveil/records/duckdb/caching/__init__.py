"""Reading with a cache: the query of entries, groups of files, counts and pairs of entries."""
