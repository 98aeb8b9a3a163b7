"""Kinds of statistics: table, component of the manifest and checks of each; part_kinds.py."""
