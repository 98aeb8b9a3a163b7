"""The private scratch folder: temporary files of active runs, too large for memory.

    SCRATCH/README.txt                purpose of this folder
    SCRATCH/.run.partial-1a2b3c4d/    files of one run, which holds its lock

A run removes its own subfolder however it ends, except after a kill or a power cut. The system
then releases the lock, and the next run removes the subfolder.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hexveil.base import atomic_files, private_folder
from hexveil.base.errors import InputError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "HEXVEIL_SCRATCH"
"""Environment variable that names the folder if no argument does."""

_NAME = "run"
_NOTE = (
    "PRIVATE. hexveil keeps temporary files of its runs here; they can hold records and ids.\n"
    "Nobody else may read this folder. Each run removes its own files when it ends, and those of\n"
    "runs that were killed. The folder can be deleted while no run is going on.\n"
)


def place(scratch: str | os.PathLike[str] | None = None) -> Path:
    """Return the scratch folder: the argument, HEXVEIL_SCRATCH, or one in the temporary folder.

    Raises
    ------
    InputError
        If it is not the name of a folder.
    StorageError
        If none is named and the machine has no writable temporary folder.
    """
    if scratch is not None and (not isinstance(scratch, (str, os.PathLike)) or not str(scratch)):
        raise InputError(f"scratch must be the name of a folder, got {type(scratch).__name__}.")
    configured = scratch or os.environ.get(VARIABLE)
    if configured:
        # The owner may have linked it to a larger disk; the check is of where the link leads.
        return Path(os.path.realpath(configured))
    user = f"-{os.geteuid()}" if hasattr(os, "geteuid") else ""
    try:
        return Path(tempfile.gettempdir()) / f"hexveil{user}"
    except FileNotFoundError:
        raise StorageError(
            "the machine has no temporary folder that can be written; name a folder for private "
            f"temporary files (scratch in [read], --set read.scratch or {VARIABLE})."
        ) from None


@contextlib.contextmanager
def folder(scratch: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """Yield a new private folder for one run; remove it at the end.

    Folders of killed runs are removed first.

    Raises
    ------
    InputError
        If the scratch folder is not private, or contains other files.
    StorageError
        If no folder can be created in it.
    """
    root = place(scratch)
    private_folder.prepare(
        root, option="scratch", content="temporary files with records", note=_NOTE
    )
    # A stack, so that an OSError of the caller's block is not taken for one of making the folder.
    with contextlib.ExitStack() as cleanup:
        try:
            run = cleanup.enter_context(atomic_files.temporary_folder(root / _NAME))
        except OSError as error:
            raise StorageError(
                f"scratch: no folder can be made in {str(root)!r} "
                f"({atomic_files.reason(error)}); free "
                "space, or name another folder (scratch in [read], --set read.scratch or "
                f"{VARIABLE})."
            ) from None
        yield run
