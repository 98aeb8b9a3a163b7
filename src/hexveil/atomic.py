"""Files and folders that are there whole or not at all: a temporary name, then a rename."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def temporary_name(path: Path) -> Path:
    """Return a name beside `path` that nothing has."""
    return path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")


@contextlib.contextmanager
def folder(path: Path) -> Iterator[Path]:
    """Yield a new folder of temporary name, which becomes `path` if the body succeeds.

    Its files are on the disk before it gets its name. If the body fails, nothing stays.

    Raises
    ------
    OSError
        If it cannot be made or renamed; also if `path` is a folder with something in it.
    """
    temporary = temporary_name(path)
    temporary.mkdir()
    try:
        yield temporary
        for file in (*temporary.iterdir(), temporary):
            settle(file)
        temporary.rename(path)
        settle(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def file(path: Path) -> Iterator[Path]:
    """Yield a temporary name for a file, which takes the place of `path` if the body succeeds."""
    temporary = temporary_name(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write(path: Path, content: bytes, *, mode: int = 0o666) -> Path:
    """Write a file, of these rights less the umask, in place of any of that name; return it.

    Raises
    ------
    OSError
        If it cannot be written; then what was there before is still there.
    """
    with file(path) as temporary:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
    return path


def settle(path: Path) -> None:
    """Make a file or a folder's entries durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def reason(error: OSError) -> str:
    """Return why the system refused, without a path; the name of the error where it does not say.

    Examples
    --------
    >>> reason(OSError(28, "No space left on device")), reason(OSError())
    ('No space left on device', 'OSError')
    """
    return error.strerror or type(error).__name__
