"""Optimizers: caps, user factors and noise of every cell, chosen together or apart."""
