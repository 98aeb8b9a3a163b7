"""Feasibility: whether a map beats a constant, and which grid a fleet supports."""
