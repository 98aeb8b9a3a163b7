"""Requests for maps with private presence, and their predicted error, from declarations alone."""
