"""Folders that only their owner may use: made or checked before anything private enters them."""

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
"""The note that says what a folder is: without it the folder is not ours."""


def prepare(folder: Path, *, option: str, content: str, note: str) -> None:
    """Make a private folder, or check the one that is there, and leave a note in it.

    A symbolic link is not followed.

    Parameters
    ----------
    folder : Path
    option : str
        How its user named it, for messages.
    content : str
        What the folder would hold, for messages.
    note : str
        Text of its README.txt.

    Raises
    ------
    InputError
        If it cannot be made, is not a folder, belongs to somebody else, is open to others, or
        holds other files.
    """
    shown = f"{option}: {str(folder)!r}"
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise InputError(f"{shown} is a file or a link; name a folder of its own.")
        if not is_private(found):
            raise InputError(
                f"{shown} belongs to another user or can be read by others, and would hold "
                f"{content}; name a new folder, or take the rights of others away (chmod 700)."
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(f"{shown} cannot be written; name another folder.")
        _mark(folder, shown, note)
    except OSError as error:
        why = atomic_files.reason(error)
        raise InputError(f"{shown} cannot be used ({why}); name another folder.") from None


def is_private(found: os.stat_result) -> bool:
    """Return whether a file or folder is this user's, and nobody else may use it."""
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _mark(folder: Path, shown: str, note: str) -> None:
    """Leave the note that says what this is; refuse a folder that holds something else."""
    if (folder / MARKER).is_file():
        return
    if any(not path.name.startswith(".") for path in folder.iterdir()):
        raise InputError(f"{shown} holds other files; name a new folder.")
    atomic_files.write(folder / MARKER, note.encode(), mode=0o600)
