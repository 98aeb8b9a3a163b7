"""What published maps of earlier days say about the next one: post-processing, without records."""
