"""Verification of a release folder, from the folder alone: a recipient's checks."""
