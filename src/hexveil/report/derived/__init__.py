"""Pages of averages and comparisons of published numbers."""
