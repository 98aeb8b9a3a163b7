"""Studies and demonstrations on public data."""
