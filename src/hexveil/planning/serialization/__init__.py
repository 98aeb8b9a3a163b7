"""Plans as folders and as bytes, and back."""
