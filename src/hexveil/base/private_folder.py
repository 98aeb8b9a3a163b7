"""Folders that only their owner may use, created or checked before anything private enters."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from hexveil.base import atomic_files
from hexveil.base.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MARKER = "README.txt"
"""Note that marks a folder as ours: without it the folder belongs to something else."""


def prepare(folder: Path, *, option: str, content: str, note: str) -> None:
    """Create a private folder, or check an existing one, and leave a note in it.

    A symbolic link is not followed.

    Parameters
    ----------
    folder : Path
    option : str
        The option that named it, for messages.
    content : str
        Its planned content, for messages.
    note : str
        Text of its README.txt.

    Raises
    ------
    InputError
        If it cannot be created, is not a folder, belongs to another user, is readable by others,
        or contains other files.
    """
    label = f"{option}: {str(folder)!r}"
    try:
        with contextlib.suppress(FileExistsError):
            # The umask can only take rights away: nobody else can enter, not even before the check
            # below.
            folder.mkdir(mode=0o700)
        # Not stat: in a temporary folder for all, a link of this name could be somebody else's.
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise InputError(f"{label} is a file or a link; name a folder of its own.")
        if not is_private(status):
            raise InputError(
                f"{label} belongs to another user or can be read by others, and would hold "
                f"{content}; name a new folder, or take the rights of others away (chmod 700)."
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(f"{label} cannot be written; name another folder.")
        _mark(folder, label, note)
    except OSError as error:
        reason = atomic_files.reason(error)
        raise InputError(f"{label} cannot be used ({reason}); name another folder.") from None


def is_private(status: os.stat_result) -> bool:
    """Return whether a file or folder belongs to this user, and nobody else may use it."""
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _mark(folder: Path, label: str, note: str) -> None:
    """Leave the marker note; refuse a folder that contains other files."""
    if (folder / MARKER).is_file():
        return
    # Hidden names may be those of runs that were killed before they left the note.
    if any(not path.name.startswith(".") for path in folder.iterdir()):
        raise InputError(f"{label} holds other files; name a new folder.")
    atomic_files.write(folder / MARKER, note.encode(), mode=0o600)
