"""Descriptions of a release for data portals, in their standards; public facts only."""
