"""`python -m hexveil` is the command `hexveil`."""

import sys

from hexveil.cli import main

if __name__ == "__main__":
    sys.exit(main())
