"""Reading with a cache by Spark: rows of single files, new entries, sums of entries."""
