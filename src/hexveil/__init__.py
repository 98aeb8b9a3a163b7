"""hexveil."""
