"""Estimates of a release that rest on the earlier releases of its archive."""
