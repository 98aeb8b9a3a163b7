"""Post-processing: from noisy numbers to the released table."""
