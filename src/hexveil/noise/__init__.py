"""Noise: `secure` is the door of every release; `simulated` is for studies only."""
