"""Verification of a release of several value columns."""
