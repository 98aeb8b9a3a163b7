"""Commands on records whose presence is private."""
