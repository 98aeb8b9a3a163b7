"""Publishing of several value columns: one booking, one folder, a release of each inside it."""
