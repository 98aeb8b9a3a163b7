"""Several value columns of one reading."""
