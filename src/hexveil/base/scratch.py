"""The private scratch folder: temporary files of active runs, too large for memory.

    SCRATCH/README.txt                purpose of this folder
    SCRATCH/.run.partial-1a2b3c4d/    files of one run, which holds its lock

A run removes its own subfolder however it ends, except after a kill or a power cut. The system
then releases the lock, and the next run removes the subfolder.

Folders that only their owner may use, created or checked before anything private enters.
"""

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError

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
    """
    if scratch is not None and (not isinstance(scratch, (str, os.PathLike)) or not str(scratch)):
        raise InputError(f"scratch must be the name of a folder, got {type(scratch).__name__}.")
    configured = scratch or os.environ.get(VARIABLE)
    if configured:
        # The owner may have linked it to a larger disk; the check is of where the link leads.
        return Path(os.path.realpath(configured))
    return Path(tempfile.gettempdir()) / f"hexveil-{os.geteuid()}"


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
    prepare(root, option="scratch", content="temporary files with records", note=_NOTE)
    # A stack, so that an OSError of the caller's block is not taken for one of making the folder.
    with contextlib.ExitStack() as cleanup:
        try:
            run = cleanup.enter_context(atomic_files.temporary_folder(root / _NAME))
        except OSError as error:
            raise StorageError(
                f"scratch: no folder can be made in {str(root)!r} ({atomic_files.reason(error)}); "
                "free space, or name another folder (scratch in [read], --set read.scratch or "
                f"{VARIABLE})."
            ) from None
        yield run


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
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if (folder / MARKER).is_file():
            return
        # Hidden names may be those of runs that were killed before they left the note.
        if any(not path.name.startswith(".") for path in folder.iterdir()):
            raise InputError(f"{label} holds other files; name a new folder.")
        atomic_files.write(folder / MARKER, note.encode(), mode=0o600)
    except OSError as error:
        reason = atomic_files.reason(error)
        raise InputError(f"{label} cannot be used ({reason}); name another folder.") from None


def is_private(status: os.stat_result) -> bool:
    """Return whether a file or folder belongs to this user, and nobody else may use it."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077
