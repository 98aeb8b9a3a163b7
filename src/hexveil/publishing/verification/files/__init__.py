"""Files of a release that a stranger may have changed: reading and comparing them."""
