"""`python -m hexveil` is the command `hexveil`."""

from hexveil.cli import command

if __name__ == "__main__":
    command()
