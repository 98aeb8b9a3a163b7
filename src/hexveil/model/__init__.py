"""Cells, occupancy and public metadata: the nouns that planning and publishing share."""
