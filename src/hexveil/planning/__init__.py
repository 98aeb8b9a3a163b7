"""Many cells at once: plans made from public facts."""
