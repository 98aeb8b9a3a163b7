"""Commands under private presence."""
