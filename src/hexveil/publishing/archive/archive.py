"""Archive of the releases of many days: one immutable folder each, found by pointers.

    ROOT/dataset/2026-11-20/0123456789abcdef/   a release, never changed
    ROOT/dataset/2026-11-20/latest.json         the current release of the day
    ROOT/dataset/latest.json                    the newest day
    ROOT/dataset/ledger.json                    the last ledger event of any release here

Beside them stands a static catalogue (archive_catalogue.py), computed from these.

A folder counts once a pointer names it. On a disk it is renamed into its place as a whole; in an
object store (s3://, gs://, abfs://) files are uploaded first and the pointer last. A folder that a
crash leaves without a pointer is completed by the next run, with the ledger's numbers and the same
bytes; on a disk it also removes leftovers. The receipt reveals files that were deleted or changed.
"""

import json
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet

from hexveil.base import atomic_files, scratch
from hexveil.base.errors import HexveilError, StorageError, is_interruption
from hexveil.learning.remembering import MOST_DAYS
from hexveil.publishing import receipt, signing
from hexveil.publishing.archive.archive_catalogue import update_catalogue
from hexveil.publishing.archive.archive_listing import (
    DAY_NAME,
    LATEST,
    ArchiveFiles,
    CurrentRelease,
    LedgerPosition,
    open_file_system,
    to_json,
)
from hexveil.publishing.archive.folder_names import folder_name
from hexveil.publishing.folder import check_writable
from hexveil.publishing.memory import stored_day
from hexveil.publishing.memory.history import History
from hexveil.publishing.memory.stored_day import EarlierRelease
from hexveil.publishing.signing import SigningKey

_Parsed = TypeVar("_Parsed")
LEDGER = "ledger.json"
_LEDGER_NOTE = "note of a ledger's event"
_MANIFEST = "manifest.json"
HISTORY = ".history.json"
"""Ending of the note of the releases that one rests on, beside its folder."""
_NAMING = ("cell", "hexagon", "slot", "is_open")


@dataclass(frozen=True)
class Archive(ArchiveFiles):
    """The releases of one data set.

    Attributes
    ----------
    files : pyarrow.fs.FileSystem
    root : str
        Folder of the data set in the file system.
    address : str
        The archive as the user named it, for messages.
    scratch : str, optional
        Where files are made before they are uploaded: see `hexveil.base.scratch`.
    """

    address: str
    scratch: str | None = None

    @property
    def folder(self) -> str:
        """Name of the data set's folder."""
        return self.root.rpartition("/")[2]

    def current(self, day: str | None = None) -> CurrentRelease | None:
        """Return the current release of a day, or of the newest day; None if there is none.

        Raises
        ------
        StorageError
            If a pointer is there and cannot be read.
        """
        path = LATEST if day is None else f"{day}/{LATEST}"
        return self._read_json(path, "pointer of a data set", CurrentRelease.parse)

    def dataset(self) -> str | None:
        """Return the data set of the releases here, by the newest one; None if there is none.

        Raises
        ------
        StorageError
            If a pointer or the release's manifest is there and cannot be read.
        """
        # The folder's name can be a digest: the manifest of its newest release names the data set.
        newest = self.current()
        if newest is None:
            return None
        path, kind = f"{newest.path}/{_MANIFEST}", "manifest of a release"
        return self._read_json(path, kind, lambda content: str(content["dataset"]["name"]))

    def ledger_positions(self, *releases: CurrentRelease | None) -> dict[str, LedgerPosition]:
        """Return the known ledger positions of this archive by name.

        These are the last event of any release here, and those of the releases given.

        Raises
        ------
        StorageError
            If one is there and cannot be read.
        """
        noted = self._read_json(LEDGER, _LEDGER_NOTE, LedgerPosition.parse)
        positions = {f"{self.address} ({LEDGER})": noted}
        for release in releases:
            if release is not None:
                positions[f"{self.address} ({release.path})"] = self.ledger_position(release)
        return {name: place for name, place in positions.items() if place is not None}

    def ledger_position(self, release: CurrentRelease) -> LedgerPosition | None:
        """Return the ledger position of a release; None if it is missing, or cost nothing."""
        return self._read_json(
            f"{release.path}/{receipt.NAME}",
            "receipt of a release",
            lambda content: (
                None if content["ledger"] is None else LedgerPosition.parse(content["ledger"])
            ),
        )

    def remember(self, ledger_position: LedgerPosition) -> None:
        """Store the last ledger event of any release here, which reveals an older ledger."""
        with self._translate_errors(), self.locked():
            previous = self._read_json(LEDGER, _LEDGER_NOTE, LedgerPosition.parse)
            # Never backwards: an older ledger must stay detectable.
            if previous is None or previous.entry < ledger_position.entry:
                self._write(LEDGER, to_json(ledger_position))

    def _read_json(self, path: str, kind: str, parse: Callable[[Any], _Parsed]) -> _Parsed | None:
        """Return the parsed content of a JSON file; None if there is no such file."""
        with self._translate_errors():
            content = self.read(path, limit=math.inf)
        if content is None:
            return None
        with suppress(ValueError, KeyError, TypeError):  # an error that holds the text is not shown
            return parse(json.loads(content))
        raise StorageError(f"{self.full(path)} is no {kind}; restore it.")

    def is_complete(self, release: CurrentRelease) -> bool:
        """Return whether a release's folder is complete."""
        with self._translate_errors():
            return self.has(release.path, receipt.NAME)

    def has_folder(self, release: CurrentRelease) -> bool:
        """Return whether a release's folder exists, complete or not."""
        with self._translate_errors():
            return self.below(release.path).exists()

    def find_damage(
        self, release: CurrentRelease, signer: SigningKey | None = None
    ) -> tuple[str, ...]:
        """Return the files of a release that are missing or were changed since it was written.

        Parameters
        ----------
        release : CurrentRelease
        signer : SigningKey, optional
            The key that must have signed the folder.
        """
        with self._translate_errors():
            own = self.read(release.path, receipt.NAME, limit=math.inf)
            checksums = receipt.parse_checksums(own)
            if checksums is None:
                return (f"{receipt.NAME} {'is missing' if own is None else 'was changed'}",)
            found = {
                name: self._digest(release, name) for name in (*sorted(checksums), signing.NAME)
            }
        expected = dict(checksums)
        if signer is not None:
            all_files = checksums | {receipt.NAME: sha256(own or b"").hexdigest()}
            expected[signing.NAME] = sha256(signer.signature_text(all_files).encode()).hexdigest()
        return tuple(
            f"{name} {'is missing' if found[name] is None else 'was changed'}"
            for name, checksum in expected.items()
            if found[name] != checksum
        )

    def _digest(self, release: CurrentRelease, name: str) -> str | None:
        content = self.read(release.path, name, limit=math.inf)
        return None if content is None else sha256(content).hexdigest()

    def check(self, release: CurrentRelease) -> None:
        """Refuse a place where a release cannot be written, before anything is spent.

        Raises
        ------
        InputError
            If its folder cannot be created. An object store cannot be checked beforehand.
        """
        place = Path(self.full(release.path))
        # A folder without its receipt is one that is not complete, and is written anew.
        if self.local and not place.exists():
            check_writable(place)

    def write_release(self, release: CurrentRelease, write: Callable[[Path], object]) -> None:
        """Write a release into its folder unless that is complete; `set_current` makes it official.

        `write` gets the name of a new local folder and writes the release there.
        """
        if self.local:
            # Leftovers of all days are removed: a stopped day may never be requested again.
            for folder in (Path(self.root), *Path(self.root).glob("*/")):
                atomic_files.remove_stale(folder)
        if self.is_complete(release):
            return
        try:
            self.restore(release, write)
        except HexveilError:
            if not self.is_complete(release):  # else another process was faster
                raise

    def restore(self, release: CurrentRelease, write: Callable[[Path], object]) -> None:
        """Write a release in place of its folder, which is damaged or is not there.

        On a disk the new folder is complete before the old one is renamed; a crash in between
        leaves none, and the next run writes it. `write` gets the name of a new local folder.
        """
        if not self.local:
            with self._translate_errors():
                if self.is_complete(release):
                    self.files.delete_file(self.full(release.path, receipt.NAME))
            self._upload_release(release, write)
            return
        place = Path(self.full(release.path))
        with self._translate_errors():
            place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            write(place)
            return
        new, old = atomic_files.temporary_name(place), atomic_files.temporary_name(place)
        # Written before the lock: drawing files takes long, and other days may be published
        # meanwhile.
        write(new)
        with self._translate_errors(), self.locked():
            place.rename(old)
            new.rename(place)
            atomic_files.fsync(place.parent)
        shutil.rmtree(old, ignore_errors=True)

    def _upload_release(self, release: CurrentRelease, write: Callable[[Path], object]) -> None:
        """Upload a release, file by file."""
        with scratch.folder(self.scratch) as temporary:
            folder = temporary / "release"
            write(folder)
            # The receipt is uploaded last: a folder with one is complete.
            names = sorted(path.name for path in folder.iterdir() if path.name != receipt.NAME)
            with self._translate_errors():
                self.files.create_dir(self.full(release.path), recursive=True)
                for name in (*names, receipt.NAME):
                    self._upload(folder / name, self.full(release.path, name))

    def _upload(self, file: Path, path: str) -> None:
        with file.open("rb") as source, self.files.open_output_stream(path) as sink:
            shutil.copyfileobj(source, sink)

    def history(self, day: str) -> History:
        """Return the earlier releases that the ranges and the estimates of a day rest on.

        When it is first made these are the current releases of the days before it. Later they are
        those that were noted then, so that the request and its numbers are the same whenever it is
        made again.

        Raises
        ------
        StorageError
            If one that was noted is not as it was.
        """
        release, noted = self.current(day), None
        if release is not None:
            note = f"{release.path}{HISTORY}"
            noted = self._read_json(note, "note of earlier releases", stored_day.parse_note)
        if release is None or noted is None:
            with self._translate_errors():
                days = [entry for entry in self.folders(DAY_NAME) if entry < day]
            pointers = [self.current(entry) for entry in days[-MOST_DAYS:]]
            read = [self._earlier(pointer.path) for pointer in pointers if pointer is not None]
            return History(date.fromisoformat(day), tuple(release for release in read if release))
        releases = []
        for entry in noted:
            path = CurrentRelease.of_day(entry["day"], entry["request"]).path
            earlier = self._earlier(path)
            if earlier is None or earlier.identity() != entry:
                raise StorageError(
                    f"{self.full(path)} is not as it was when {release.path} was made from "
                    "it; publish its day again, which restores it."
                )
            releases.append(earlier)
        return History(date.fromisoformat(day), tuple(releases))

    def note_history(self, release: CurrentRelease) -> None:
        """Note the earlier releases that a complete release rests on, beside its folder."""
        memory = self._read_json(f"{release.path}/{_MANIFEST}", _MANIFEST, stored_day.memory_of)
        if memory is not None:
            note = json.dumps(memory["releases"], indent=2) + "\n"
            self._write(f"{release.path}{HISTORY}", note)

    def _earlier(self, path: str) -> EarlierRelease | None:
        """Return the release in a folder; None if it has no memory, or is damaged."""
        with self._translate_errors():
            manifest, memory, table = (
                self.read(path, name, limit=math.inf)
                for name in (_MANIFEST, stored_day.FILE, "cells.parquet")
            )
        if manifest is None or memory is None or table is None:
            return None
        with suppress(ValueError, KeyError, TypeError, pa.ArrowException):
            file = pa.parquet.ParquetFile(pa.BufferReader(table))
            names = [name for name in _NAMING if name in file.schema_arrow.names]
            return stored_day.read_earlier(json.loads(manifest), file.read(names), memory)
        return None

    def set_current(self, release: CurrentRelease) -> None:
        """Write the day's pointer, and the data set's unless that names a later day."""
        self._write(f"{release.day}/{LATEST}", to_json(release))
        self.advance_newest(release)

    def advance_newest(self, release: CurrentRelease) -> None:
        """Write the data set's pointer if it does not name this release or a later day."""
        with self._translate_errors(), self.locked():
            newest = self.current()
            # Days can be published in any order: late ones must not become the newest.
            if newest is None or (newest.day <= release.day and newest != release):
                self._write(LATEST, to_json(release))

    def update_catalogue(self) -> int:
        """Write the static catalogue of the archive anew; return the number of listed days."""
        with self._translate_errors():
            above, slash, _ = self.root.rpartition("/")
            return update_catalogue(ArchiveFiles(self.files, above or slash), self.folder)

    def _write(self, path: str, text: str) -> None:
        with self._translate_errors():
            self.write(path, text.encode())

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if is_interruption(error):
                raise KeyboardInterrupt from None
            # A server's answer can be long: its first line suffices.
            why = (error.strerror or str(error) or type(error).__name__).splitlines()[0]
            raise StorageError(
                f"{self.address} cannot be used ({why}). Bookings stay booked; run the same "
                "command again, which goes on at no further cost."
            ) from None


def open_archive(address: str, dataset: str, scratch: str | None = None) -> Archive:
    """Return the archive of a data set: a folder that no other data set has.

    Parameters
    ----------
    address : str
        A folder, or an address that pyarrow knows, as "s3://bucket/maps".
    dataset : str
    scratch : str, optional
        Where files are made before they are uploaded.

    Raises
    ------
    InputError
        If the address is none.
    StorageError
        If the folder holds releases of another data set, or cannot be looked up.
    """
    files, root = open_file_system(address)
    name = folder_name(dataset)
    place = Archive(files, f"{root}/{name}", address, scratch)
    if place.dataset() not in (None, dataset):
        raise StorageError(
            f"{address} ({name}) holds releases of another data set; name another folder for out, "
            "because each data set needs its own."
        )
    return place
