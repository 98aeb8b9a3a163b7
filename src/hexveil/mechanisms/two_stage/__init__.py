"""Two-stage means: residuals clipped around centres that the first stage released."""
