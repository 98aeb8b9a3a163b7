"""The DuckDB engine: this folder holds all of its queries."""
