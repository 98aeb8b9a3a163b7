"""PRIVATE. A folder of sums per (cell, user), one entry per file of records or group of files.

An entry is two files: `<key>.entry`, its public head as JSON, and `<token>.pairs`, the table as
Parquet, which the head names and whose SHA-256 it holds. The table is there before its head is,
so a head stands for a whole entry. Neither name ends like a file of records, and neither says
anything about one. Heads that cannot be read, and tables that are not what their head says, count
as not there.

An entry holds for a file as its holder declared it: path, declared version and size. Another size
under one version is refused. A file that was merely touched is read again: copying changes the
time of a file, so a time is no reason to refuse, and it would be no reason to trust.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.base.scratch import is_private, prepare
from hexveil.records.sources.record_format import Versions
from hexveil.records.sources.source_files import Files, is_address, safe_path

FORMAT = 5
"""To be raised whenever equal queries make other tables, or a head has other fields."""
HEAD, TABLE = ".entry", ".pairs"
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_NOTE = (
    "PRIVATE. hexveil keeps sums of single users here, with their ids, so that records need not\n"
    "be read again. Nobody else may read this folder, and it is not to be shared or published.\n"
    "It can be deleted at any time while nothing runs; then all records are read again.\n"
)


@dataclass(frozen=True)
class TimeSpan:
    """First and last usable instant of a file, in microseconds, and as local seconds.

    None where no record has a usable time; `local` also without a local clock.
    """

    instants: tuple[int, int] | None = None
    local: tuple[int, int] | None = None


@dataclass(frozen=True)
class FileStamp:
    """Identity of a file: its path, declared version, size and time of change.

    Attributes
    ----------
    name, version : str
        Hashes of the full path, and of the declared version.
    size, changed : int
        Bytes, and time of the last change in nanoseconds.
    """

    name: str
    version: str
    size: int
    changed: int


@dataclass(frozen=True)
class CacheEntry:
    """Head of an entry: its files, its query, and its public counts.

    Attributes
    ----------
    query : str
        Hash of all that shapes the table, but for dates.
    window : str
        The dates for which it holds, "" if dates change nothing.
    maker : str
        Versions of the software that made it.
    files : tuple of FileStamp
    spans : tuple of TimeSpan, or None
        Of each file, where they were asked for.
    reasons : mapping of int to int
        Per reason (0: kept) how many records it covers.
    repeats : int
        How many records repeats are; they count as kept in `reasons`.
    table, digest : str
        Name and SHA-256 of the table; "" where there is none.
    """

    query: str
    window: str
    maker: str
    files: tuple[FileStamp, ...]
    spans: tuple[TimeSpan, ...] | None
    reasons: Mapping[int, int]
    repeats: int
    table: str = ""
    digest: str = ""

    @property
    def key(self) -> str:
        """Name of the head, unique to the files, their versions, the query and the dates."""
        # Without sizes and times: a file that was touched finds its old head, and replaces it.
        files = sorted((f.name, f.version) for f in self.files)
        return hash_terms([self.query, self.window, files])[:32]

    def replaces(self, head: CacheEntry) -> bool:
        """Return whether this entry makes another one, `head`, useless."""
        by_name = {f.name: f for f in self.files}
        common = [(by_name[f.name], f) for f in head.files if f.name in by_name]
        if not common:
            return False
        same_query = self.query == head.query and self.window == head.window
        return same_query or self.maker != head.maker or any(a != b for a, b in common)


@dataclass(frozen=True)
class Cache:
    """A cache folder, with the declared versions of files."""

    folder: Path
    versions: Versions


def resolve_cache(cache: object, version: object, source: object) -> Cache | None:
    """Return the cache of a resolved source; None without one.

    Raises
    ------
    InputError
        If the source or its version does not allow it.
    """
    if cache is None:
        if isinstance(version, Mapping):
            raise InputError("version by files is for a cache; declare one version for all.")
        return None
    if not isinstance(cache, (str, os.PathLike)) or not str(cache):
        raise InputError(f"cache must be the name of a folder, got {type(cache).__name__}.")
    if not isinstance(source, Files):
        raise InputError(
            "cache is for files on a disk that this machine sees, with Spark its executors too; "
            "tables, DataFrames and addresses are read each time, leave it out."
        )
    if is_address(str(cache)):
        raise InputError(f"cache: {str(cache)!r} is an address; name a folder of this machine.")
    if version is None:
        raise InputError(
            "cache needs a version: what is cached of a file holds as long as its holder declares "
            "the same version (version, or --set read.version)."
        )
    return Cache(Path(cache), Versions.parse(version))


class CacheFolder:
    """PRIVATE. An existing cache folder that is safe to use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __repr__(self) -> str:
        return "CacheFolder(private)"

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the cache of a folder, made if it is missing; refuse one that is not private."""
        target = Path(os.path.realpath(folder))
        prepare(target, option="cache", content="sums of single users", note=_NOTE)
        atomic_files.remove_stale(target)
        return cls(folder)

    def entries(self) -> list[CacheEntry]:
        """Return the heads that can be read, in the order of their names."""
        with _translate_errors("read"):
            paths = sorted(self._folder.glob(f"*{HEAD}"))
        heads = ((path, _read_head(path)) for path in paths)
        return [e for path, e in heads if e is not None and path.name == e.key + HEAD]

    def is_intact(self, entry: CacheEntry) -> bool:
        """Return whether the table of an entry matches its head."""
        # Read to its end: a table cut short by a full disk or a copy would lose users in silence.
        return not entry.table or digest_of(self._folder / entry.table) == entry.digest

    def table(self, entry: CacheEntry) -> str:
        """Return the path of the table of an entry."""
        return str(self._folder / entry.table)

    def put(self, entry: CacheEntry, write: Callable[[str], None] | None) -> CacheEntry:
        """Store an entry with the table that `write` writes to a path; return the entry.

        If another process was faster, its entry stands.
        """
        with _translate_errors("written"), contextlib.ExitStack() as cleanup:
            lock = atomic_files.exclusive_lock(self._folder)
            if write is None:
                cleanup.enter_context(lock)
                return self._settle(entry)
            # A new name each time: another process may be reading the table that this one replaces.
            table = self._folder / (secrets.token_hex(16) + TABLE)
            with atomic_files.file(table, mode=0o600) as temporary:
                write(str(temporary))
                digest = digest_of(temporary) or ""
                # Before the table has its name: no other process takes it for an orphan.
                cleanup.enter_context(lock)
            return self._settle(replace(entry, table=table.name, digest=digest))

    def _settle(self, entry: CacheEntry) -> CacheEntry:
        """Write the head of an entry unless another one stands. Only under the lock."""
        head = self._folder / (entry.key + HEAD)
        existing = _read_head(head)
        if (
            existing is not None
            and existing.files == entry.files
            # An entry with time spans serves more requests than one without.
            and (existing.spans is not None or entry.spans is None)
            and self.is_intact(existing)
        ):
            return existing
        # After the table is durable: a head always stands for a whole entry.
        atomic_files.write(head, _head_text(entry), mode=0o600)
        return entry

    def clean(self, used: Iterable[CacheEntry]) -> None:
        """Remove entries that used ones replace, and tables without an entry."""
        # Under the lock no other process is between a table and its head.
        with _translate_errors("written"), atomic_files.exclusive_lock(self._folder):
            by_name, tables = {one.key + HEAD: one for one in used}, set()
            for path in list(self._folder.glob(f"*{HEAD}")):
                head = _read_head(path)
                others = (one for name, one in by_name.items() if name != path.name)
                if head is None or any(one.replaces(head) for one in others):
                    path.unlink(missing_ok=True)
                else:
                    tables.add(head.table)
            for path in list(self._folder.glob(f"*{TABLE}")):
                if path.name not in tables:
                    path.unlink(missing_ok=True)
            atomic_files.remove_stale(self._folder)


def hash_terms(terms: Sequence[object]) -> str:
    """Return the SHA-256 of JSON data."""
    return hashlib.sha256(json.dumps(terms, sort_keys=True).encode()).hexdigest()


def digest_of(path: Path) -> str | None:
    """Return the SHA-256 of a file; None if it is missing, or another user owns or may read it."""
    try:
        with _opened(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _opened(path: Path) -> io.BufferedReader:
    """Open a private file as it is: between a look at a path and its opening it could change."""
    file = os.fdopen(os.open(path, _OPEN), "rb")
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or not is_private(status):
        file.close()
        raise PermissionError(path)
    return file


def stamp_file(path: str, version: str) -> FileStamp:
    """Return the current identity of a file."""
    try:
        status = os.stat(path)  # noqa: PTH116  as the engine opens it
        full = os.path.realpath(path)
    except OSError as error:
        why = atomic_files.reason(error)
        raise InputError(f"source: {safe_path(path)} cannot be looked up ({why}).") from None
    # Folders named key=value can be columns, also where a link leads around them.
    referenced = [folder_name for folder_name in Path(path).parts[:-1] if "=" in folder_name]
    return FileStamp(
        hash_terms([full, referenced]), hash_terms([version]), status.st_size, status.st_mtime_ns
    )


def refuse_changed_sizes(stamps: Mapping[str, FileStamp], entries: Sequence[CacheEntry]) -> None:
    """Raise InputError if a file has another size than it had under the same version."""
    known: dict[tuple[str, str], set[int]] = {}
    for stamp in (stamp for entry in entries for stamp in entry.files):
        known.setdefault((stamp.name, stamp.version), set()).add(stamp.size)
    for path, now in stamps.items():
        if known.get((now.name, now.version), {now.size}) != {now.size}:
            raise InputError(
                f"version: the file {Path(path).name!r} has another size than when it was "
                "read under this version, so it is not the same; declare a new version."
            )


def refuse_changed_while_read(
    before: Mapping[str, FileStamp], after: Mapping[str, FileStamp | None]
) -> None:
    """Raise InputError if a file that was read is no longer as it was before."""
    for path, now in after.items():
        if now != before.get(path):
            raise InputError(
                f"source: the file {Path(path).name!r} changed while it was read; run again "
                "once it is written."
            )


def _head_text(entry: CacheEntry) -> bytes:
    """Return a head as it is written: its fields, and their digest."""
    fields = asdict(entry) | {"reasons": {str(k): v for k, v in entry.reasons.items()}}
    content = json.loads(json.dumps(fields))
    return json.dumps({"head": content, "digest_of_head": hash_terms([content])}).encode()


def _read_head(path: Path) -> CacheEntry | None:
    """Return the head in a file; None if it cannot be read as one, for whatever reason."""
    try:
        with _opened(path) as file:
            sealed = json.loads(file.read())
        fields = sealed["head"]
        # Counts of a damaged head would be published, with nothing to show that they are wrong.
        if sealed["digest_of_head"] != hash_terms([fields]):
            return None
        spans = fields["spans"]
        typed = {
            "files": tuple(FileStamp(**file) for file in fields["files"]),
            "spans": None if spans is None else tuple(_span(**span) for span in spans),
            "reasons": {int(reason): int(count) for reason, count in fields["reasons"].items()},
            "repeats": int(fields["repeats"]),
            "table": Path(fields["table"]).name,
        }
        return CacheEntry(**fields | typed)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _span(instants: list[int] | None, local: list[int] | None) -> TimeSpan:
    return TimeSpan(*(None if ends is None else (ends[0], ends[1]) for ends in (instants, local)))


@contextlib.contextmanager
def _translate_errors(action: str) -> Iterator[None]:
    """Raise the system's refusal as a sentence."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        why = atomic_files.reason(error)
        raise StorageError(
            f"the cache folder cannot be {action} ({why}); free space or name another, and run "
            "again."
        ) from None
