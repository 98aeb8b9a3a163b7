"""CLIP-USER: suppression of heavy users, and caps after it."""
