"""Hexagons of places by a lookup table of pixels."""
