"""Mechanisms of one cell that are studied and not released: Foresight."""
