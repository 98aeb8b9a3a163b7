"""Maps of distributions with private presence: pooled shape, bins of cells, tilted shapes."""
