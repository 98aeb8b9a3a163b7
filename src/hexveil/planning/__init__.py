"""Plans of many cells, made from public metadata, and the grids that a fleet supports."""
