"""Looks at values: what they are clipped to; a kind of clipping each, with its stages and plans."""
