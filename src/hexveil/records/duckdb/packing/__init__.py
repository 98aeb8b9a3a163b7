"""Records packed into whole numbers, sorted, and summed per (cell, unit)."""
