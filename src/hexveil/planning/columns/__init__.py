"""Plans of several value columns in one release, and how ε is divided."""
