"""Mechanisms of one cell: a file per algorithm of the papers, and the parts that they share."""
