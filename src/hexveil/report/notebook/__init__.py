"""Pictures of a release for notebooks: inline SVG, and axes of matplotlib."""
