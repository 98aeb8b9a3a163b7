"""Public geography that the package carries: lines around a map, and words for its hexagons."""
