"""Mechanisms of one cell on pairs that stay elsewhere: planned and measured block by block."""
