"""The gallery of the papers' figures in the documentation."""
