"""Atomic files and folders: written under a temporary name, then renamed.

A writer locks its temporary name. The system releases the lock when the process ends, however it
ends, so a temporary name without a lock is stale: a killed process left it, and the next writer of
the same path removes it. On a disk without locks (some network disks) stale names stay, because
they cannot be distinguished from another writer's work.

Also interrupts held back while a step runs that must not stop halfway. Such a step either pays for
its result (a draw and its storage) or removes private files. A kill or a power cut still ends it;
both callers have an answer to that.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

if sys.platform != "win32":  # where releases are read, and none is written
    import fcntl

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.partial-[0-9a-f]{8}", re.DOTALL)
_DEFERRED = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals that are deferred; the first is restored last, for its handler raises."""
_ATTEMPTS = 100
"""Attempts to create a temporary name; another run can remove one only before it is locked."""
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def temporary_name(path: Path) -> Path:
    """Return an unused temporary name beside `path`."""
    return path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")


@contextlib.contextmanager
def folder(path: Path) -> Iterator[Path]:
    """Yield a new folder under a temporary name; it becomes `path` if the body succeeds.

    Its files are durable before the rename. If the body fails, the folder is removed. Stale
    folders of killed writers of `path` are removed first.

    Raises
    ------
    OSError
        If it cannot be created or renamed, or if `path` is a folder that is not empty.
    """
    with _locked_temporary(path, os.mkdir) as temporary:
        yield temporary
        # Content first, then the names: after a power cut the renamed folder must not hold empty
        # files.
        for file in (*temporary.iterdir(), temporary):
            fsync(file)
        # Fails where a folder with files has the name: another release is never swallowed.
        temporary.rename(path)
        fsync(path.parent)


@contextlib.contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a new private folder under a temporary name beside `path`; remove it at the end.

    Stale folders of killed processes are removed first.
    """
    with _locked_temporary(path, lambda name: name.mkdir(mode=0o700)) as temporary:
        yield temporary


@contextlib.contextmanager
def file(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """Yield a new empty file under a temporary name; it replaces `path` if the body succeeds.

    The body writes into it. Its permissions are `mode` less the umask, from the start.
    """

    def create(name: Path) -> None:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))

    with _locked_temporary(path, create) as temporary:
        yield temporary
        fsync(temporary)
        temporary.replace(path)
        fsync(path.parent)


def write(path: Path, content: bytes, *, mode: int = 0o666) -> Path:
    """Write a file with permissions `mode` less the umask, replacing any file there; return it.

    Raises
    ------
    OSError
        If it cannot be written; an earlier file of that name is then unchanged.
    """
    with file(path, mode=mode) as temporary:
        temporary.write_bytes(content)
    return path


def check_writable(path: Path) -> None:
    """Raise OSError if no folder can be created beside `path`; leave nothing behind."""
    with _locked_temporary(path, os.mkdir) as temporary:
        temporary.rmdir()


def remove_stale(place: Path, name: str | None = None) -> None:
    """Remove stale temporary entries of killed writers from a folder, of one name or of all.

    Entries that another process is writing are locked and stay; so do those that cannot be
    removed.
    """
    with contextlib.suppress(OSError):
        for entry in list(place.iterdir()):
            match = _TEMPORARY.fullmatch(entry.name)
            if match is not None and name in (None, match["name"]):
                _remove_if_stale(entry)


@contextlib.contextmanager
def exclusive_lock(place: Path, flags: int = os.O_RDONLY) -> Iterator[None]:
    """Hold the exclusive lock of a file or folder; on a disk without locks do not wait."""
    with _opened(place, flags) as handle:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _opened(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Yield the handle of a file or folder."""
    handle = os.open(path, flags)
    try:
        yield handle
    finally:
        os.close(handle)


def _remove_if_stale(entry: Path) -> None:
    """Remove a temporary entry unless a process holds its lock or another user owns it."""
    with contextlib.suppress(OSError), _opened(entry, _OPEN_FLAGS) as handle:
        is_own = os.fstat(handle).st_uid == os.geteuid()
        # Renamed or replaced since it was listed: then the lock is on another entry.
        if is_own and _try_lock(handle) and _is_same(entry, handle):
            _remove(entry)


@contextlib.contextmanager
def _locked_temporary(path: Path, create: Callable[[Path], object]) -> Iterator[Path]:
    """Yield a new temporary entry beside `path`, created and locked; remove it afterwards.

    Stale ones of killed writers of `path` are removed first.
    """
    remove_stale(path.parent, path.name)
    for _ in range(_ATTEMPTS):
        temporary = temporary_name(path)
        with contextlib.ExitStack() as cleanup:
            # Registered before it exists: an interruption can come right after its creation. The
            # finalizer also covers one before the caller's block is entered, which no `finally`
            # would see: it runs when the stack is forgotten, at the latest as the process exits.
            discard = weakref.finalize(cleanup, _discard, temporary, os.getpid())
            cleanup.callback(_finish, discard)
            try:
                create(temporary)
            except FileExistsError:
                discard.detach()  # another process owns it
                raise
            handle = _lock_new_entry(temporary)
            if handle is None:
                continue
            cleanup.callback(os.close, handle)
            yield temporary
            return
    raise FileExistsError(errno.EEXIST, "temporary names were taken away again and again")


def _finish(discard: Callable[[], object]) -> None:
    """Remove a temporary entry whole, even if an interrupt arrives meanwhile."""
    # A finalizer runs once: one that is interrupted would leave the rest of the files for good.
    with defer_interrupts():
        discard()


def _discard(temporary: Path, creator: int) -> None:
    """Remove a temporary entry that this process created, if it exists."""
    # A forked child inherits the finalizer, but its parent still writes there.
    if os.getpid() == creator:
        _remove(temporary)


def _remove(entry: Path) -> None:
    """Remove a file or folder as far as possible."""
    if entry.is_dir():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            entry.unlink()


def _lock_new_entry(temporary: Path) -> int | None:
    """Return the handle that locks a new entry; None if another process removed it first."""
    handle = None
    with contextlib.suppress(FileNotFoundError):
        handle = os.open(temporary, _OPEN_FLAGS)
        if _try_lock(handle) is not False and _is_same(temporary, handle):
            return handle
    if handle is not None:
        os.close(handle)
    return None


def _try_lock(handle: int) -> bool | None:
    """Return whether this process got the lock; None where the disk has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_same(path: Path, handle: int) -> bool:
    """Return whether a path still names the entry that was opened by it."""
    return os.path.samestat(path.lstat(), os.fstat(handle))


def fsync(path: Path) -> None:
    """Make the content of a file, or the entries of a folder, durable."""
    with _opened(path) as handle:
        os.fsync(handle)


def reason(error: OSError) -> str:
    """Return the system's reason for an error, without a path; else the error's class name.

    Examples
    --------
    >>> reason(OSError(28, "No space left on device")), reason(OSError())
    ('No space left on device', 'OSError')
    """
    return error.strerror or type(error).__name__


@contextlib.contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer interrupts until the body is done; deliver each once then."""
    waiting: list[int] = []

    def restore(number: int, handler: object) -> None:
        signal.signal(number, handler)  # type: ignore[arg-type]
        if number in waiting:
            signal.raise_signal(number)

    # Python runs signal handlers in the main thread alone.
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in _DEFERRED if is_main and hasattr(signal, name)]
    with contextlib.ExitStack() as restored:
        for number in numbers:
            # A handler from outside of Python could not be restored.
            if (handler := signal.getsignal(number)) is not None:
                # Noted first: an interrupt between these two lines restores it all the same.
                restored.callback(restore, number, handler)
                signal.signal(number, lambda n, _: waiting.append(n))
        yield
