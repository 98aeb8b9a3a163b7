"""Files and folders that are there whole or not at all: a temporary name, then a rename.

Whoever writes under a temporary name holds a lock on it, which the system takes away when the
process ends, however it ends. So a temporary name without a lock was left by a process that was
killed, and whoever writes in its place next removes it. Where a disk has no locks (some network
disks), leftovers stay: nothing tells them from another writer's work.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

if sys.platform != "win32":
    import fcntl

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.partial-[0-9a-f]{8}", re.DOTALL)
_TRIES = 100
"""Names that are tried; a sweep can take one only in the moment before it is locked."""
_LOOK = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def temporary_name(path: Path) -> Path:
    """Return a name beside `path` that nothing has."""
    return path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")


@contextlib.contextmanager
def folder(path: Path) -> Iterator[Path]:
    """Yield a new folder of temporary name, which becomes `path` if the body succeeds.

    Its files are on the disk before it gets its name. If the body fails, nothing stays. What
    killed writers of `path` left goes first.

    Raises
    ------
    OSError
        If it cannot be made or renamed; also if `path` is a folder with something in it.
    """
    sweep(path.parent, path.name)
    with _held(path, os.mkdir) as temporary:
        yield temporary
        for file in (*temporary.iterdir(), temporary):
            settle(file)
        temporary.rename(path)
        settle(path.parent)


@contextlib.contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a new private folder of temporary name beside `path`, which is removed at the end.

    What killed processes left under such names goes first.
    """
    sweep(path.parent, path.name)
    with _held(path, lambda name: name.mkdir(mode=0o700)) as temporary:
        yield temporary


@contextlib.contextmanager
def file(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """Yield a new empty file of temporary name, which takes the place of `path` if all succeeds.

    The body writes into it. Its rights are `mode` less the umask, from the start.
    """

    def make(name: Path) -> None:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))

    sweep(path.parent, path.name)
    with _held(path, make) as temporary:
        yield temporary
        settle(temporary)
        temporary.replace(path)
        settle(path.parent)


def write(path: Path, content: bytes, *, mode: int = 0o666) -> Path:
    """Write a file, of these rights less the umask, in place of any of that name; return it.

    Raises
    ------
    OSError
        If it cannot be written; then what was there before is still there.
    """
    with file(path, mode=mode) as temporary:
        temporary.write_bytes(content)
    return path


def probe(path: Path) -> None:
    """Raise OSError if no folder can be made beside `path`; nothing stays."""
    sweep(path.parent, path.name)
    with _held(path, os.mkdir) as temporary:
        temporary.rmdir()


def sweep(place: Path, name: str | None = None) -> None:
    """Remove what killed writers left in a folder: of one name, or of any.

    What another process is writing is locked and stays, and so does all that cannot be removed.
    """
    with contextlib.suppress(OSError):
        for entry in list(place.iterdir()):
            known = _TEMPORARY.fullmatch(entry.name)
            if known is not None and name in (None, known["name"]):
                _remove_left(entry)


@contextlib.contextmanager
def alone(place: Path) -> Iterator[None]:
    """Wait until nobody else is in such a block about a folder; without locks do not wait."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(place, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _remove_left(entry: Path) -> None:
    """Remove a temporary name unless somebody holds it, or it is another user's."""
    with contextlib.suppress(OSError):
        handle = os.open(entry, _LOOK)
        try:
            if not _own(handle) or _lock(handle) is not True or not _same(entry, handle):
                return
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        finally:
            os.close(handle)


@contextlib.contextmanager
def _held(path: Path, make: Callable[[Path], object]) -> Iterator[Path]:
    """Yield a new temporary name of `path`, made and locked; nothing of that name stays."""
    for _ in range(_TRIES):
        temporary = temporary_name(path)
        with contextlib.ExitStack() as held:
            # Before it is made: an interruption can come right after.
            held.callback(_discard, temporary)
            try:
                make(temporary)
            except FileExistsError:
                held.pop_all()  # it is somebody else's
                raise
            handle = _claimed(temporary)
            if handle is None:
                continue
            held.callback(os.close, handle)
            yield temporary
            return
    raise FileExistsError(errno.EEXIST, "temporary names were taken away again and again")


def _discard(temporary: Path) -> None:
    """Remove a temporary name of our own, if it is there."""
    if temporary.is_dir():
        shutil.rmtree(temporary, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        temporary.unlink()


def _claimed(temporary: Path) -> int | None:
    """Return the handle that locks a new name; None if a sweep was faster."""
    try:
        handle = os.open(temporary, _LOOK)
    except FileNotFoundError:
        return None
    if _lock(handle) is False or not _same(temporary, handle):
        os.close(handle)
        return None
    return handle


def _lock(handle: int) -> bool | None:
    """Return whether the lock is ours now; None where there are no locks."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _own(handle: int) -> bool:
    """Return whether what was opened is this user's."""
    return not hasattr(os, "geteuid") or os.fstat(handle).st_uid == os.geteuid()


def _same(path: Path, handle: int) -> bool:
    """Return whether a name still is of what was opened by it."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(handle))
    except FileNotFoundError:
        return False


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
