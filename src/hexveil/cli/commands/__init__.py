"""The commands of `hexveil`, a file each."""
