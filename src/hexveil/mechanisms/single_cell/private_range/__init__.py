"""A sum clipped to a range that private choices found: LEVY, both QUANTILEs, AKMV."""
