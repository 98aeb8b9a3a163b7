"""Plain values that every package may import: errors, rational numbers, files, H3, CSV."""
