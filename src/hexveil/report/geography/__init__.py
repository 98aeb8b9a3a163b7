"""Where hexagons are: projection, lines, names of places, and the holder's own layer."""
