"""The page of a map with private presence."""
