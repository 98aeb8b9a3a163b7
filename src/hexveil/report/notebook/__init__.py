"""Pictures of a release for notebooks: axes of matplotlib, and the page of a notebook."""
