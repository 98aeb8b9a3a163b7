"""Demonstrations: one module per subject, with its records, run file and texts."""
