"""Where releases of many days stand: one immutable folder each, found by pointers.

    ROOT/dataset/2026-11-20/0123456789abcdef/   a release, never changed
    ROOT/dataset/2026-11-20/latest.json         which release of the day counts
    ROOT/dataset/latest.json                    the newest day
    ROOT/dataset/ledger.json                    the last event of the ledger that a release here has

A folder counts from the moment a pointer names it. On a disk it is renamed into its place whole; in
an object store (s3://, gs://, abfs://) its files are uploaded first and the pointer last, since
there is no renaming. Whatever a crash leaves without a pointer is completed by the next run, with
the same bytes: the numbers come from the ledger. On a disk it also removes what was left under
temporary names. A file of a release that was deleted or changed since is noticed by its receipt,
and the folder is written anew from the ledger's numbers.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.fs

from hexveil.base import atomic_files, scratch
from hexveil.base.errors import HexveilError, InputError, StorageError, is_interruption
from hexveil.publishing import receipt, signing
from hexveil.publishing.archive.current_release import Pointer, Stand, words
from hexveil.publishing.archive.folder_names import folder_name
from hexveil.publishing.folder import check_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hexveil.publishing.signing import Signer

_Said = TypeVar("_Said")
LATEST = "latest.json"
LEDGER = "ledger.json"
_NOTE = "note of a ledger's event"
_MANIFEST = "manifest.json"
_LONGEST = 255
"""Letters that a folder's name can have."""
_ELSE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Archive:
    """The releases of one data set.

    Attributes
    ----------
    where : str
        As it was named, for messages.
    files : pyarrow.fs.FileSystem
    root : str
        The data set's folder in it.
    scratch : str, optional
        Where files are made before they are uploaded: see `hexveil.base.scratch`.
    """

    where: str
    files: Any
    root: str
    scratch: str | None = None

    @property
    def local(self) -> bool:
        """Whether folders can be renamed."""
        return isinstance(self.files, pa.fs.LocalFileSystem)

    def pointer(self, day: str | None = None) -> Pointer | None:
        """Return the release of a day that counts, or of the newest day; None if there is none.

        Raises
        ------
        StorageError
            If a pointer is there and cannot be read.
        """
        path = self._path(LATEST) if day is None else self._path(day, LATEST)
        return self._said(path, "pointer of a data set", Pointer.read)

    def dataset(self) -> str | None:
        """Return whose releases are here, by the newest of them; None if there is none.

        Raises
        ------
        StorageError
            If a pointer or the release's manifest is there and cannot be read.
        """
        newest = self.pointer()
        if newest is None:
            return None
        path = self._path(newest.path, _MANIFEST)
        return self._said(path, "manifest of a release", lambda said: str(said["dataset"]["name"]))

    def stands(self, *releases: Pointer | None) -> dict[str, Stand]:
        """Return what of the ledger this place rests on: by name, where it is known.

        The last event that a release here has, and those of the releases named.

        Raises
        ------
        StorageError
            If one is there and cannot be read.
        """
        found = {f"{self.where} ({LEDGER})": self._said(self._path(LEDGER), _NOTE, Stand.read)}
        for one in releases:
            if one is not None:
                found[f"{self.where} ({one.path})"] = self.stand(one)
        return {name: stand for name, stand in found.items() if stand is not None}

    def stand(self, pointer: Pointer) -> Stand | None:
        """Return what a release rests on; None if it is not there, or cost nothing."""
        return self._said(
            self._path(pointer.path, receipt.NAME),
            "receipt of a release",
            lambda said: None if said["ledger"] is None else Stand.read(said["ledger"]),
        )

    def note(self, stand: Stand) -> None:
        """Keep the last event that a release here has: an older ledger is known by it."""
        with self._alone():
            before = self._said(self._path(LEDGER), _NOTE, Stand.read)
            if before is None or before.entry < stand.entry:
                self._write(self._path(LEDGER), words(stand))

    def _said(self, path: str, what: str, meaning: Callable[[Any], _Said]) -> _Said | None:
        """Return what a file of JSON means; None if it is not there."""
        with self._reached():
            if self.files.get_file_info(path).type != pa.fs.FileType.File:
                return None
            with self.files.open_input_stream(path) as stream:
                content = stream.read()
        with suppress(ValueError, KeyError, TypeError):  # whose error holds the text
            return meaning(json.loads(content))
        raise StorageError(f"{path} is no {what}; restore it.")

    def has(self, pointer: Pointer) -> bool:
        """Return whether a release's folder is there, whole."""
        with self._reached():
            path = self._path(pointer.path, receipt.NAME)
            return bool(self.files.get_file_info(path).type == pa.fs.FileType.File)

    def there(self, pointer: Pointer) -> bool:
        """Return whether a release's folder is there, whole or not."""
        with self._reached():
            return bool(
                self.files.get_file_info(self._path(pointer.path)).type == pa.fs.FileType.Directory
            )

    def damage(self, pointer: Pointer, signer: Signer | None = None) -> tuple[str, ...]:
        """Return which files of a release are missing or were changed since it was written.

        Parameters
        ----------
        pointer : Pointer
        signer : Signer, optional
            The key that its folder is to be signed with.
        """
        with self._reached():
            said = self._content(pointer, receipt.NAME)
            listed = receipt.listed(said)
            if said is None or listed is None:
                return (f"{receipt.NAME} {'is missing' if said is None else 'was changed'}",)
            contents = {name: self._content(pointer, name) for name in sorted(listed)}
            found = [
                f"{name} {'is missing' if content is None else 'was changed'}"
                for name, content in contents.items()
                if content is None or receipt.digest_of(io.BytesIO(content)) != listed[name]
            ]
            if signer is not None and not found:
                signed = signer.text(listed | {receipt.NAME: receipt.digest_of(io.BytesIO(said))})
                there = self._content(pointer, signing.NAME)
                if there != signed.encode():
                    how = "is missing" if there is None else "was changed, or is by another key"
                    found.append(f"{signing.NAME} {how}")
        return tuple(found)

    def restore(self, pointer: Pointer, write: Callable[[Path], object]) -> None:
        """Write a release anew in place of its folder, which is damaged.

        On a disk the new folder is there whole before the old one is renamed; a crash in between
        leaves none, and the next run writes it. `write` gets the name of a new local folder.
        """
        if not self.local:
            with self._reached():
                if self.has(pointer):
                    self.files.delete_file(self._path(pointer.path, receipt.NAME))
            self._send(pointer, write)
            return
        place = Path(self._path(pointer.path))
        new, old = atomic_files.temporary_name(place), atomic_files.temporary_name(place)
        write(new)
        with self._alone(), self._reached():
            place.rename(old)
            new.rename(place)
            atomic_files.fsync(place.parent)
        shutil.rmtree(old, ignore_errors=True)

    def _content(self, pointer: Pointer, name: str) -> bytes | None:
        """Return the bytes of a release's file; None if it is not there."""
        path = self._path(pointer.path, name)
        if self.files.get_file_info(path).type != pa.fs.FileType.File:
            return None
        with self.files.open_input_stream(path) as stream:
            return bytes(stream.read())

    def check(self, pointer: Pointer) -> None:
        """Refuse a place where a release cannot be written, before anything is spent.

        Raises
        ------
        InputError
            If its folder cannot be made, or is there and not whole. Of a store nothing is known
            beforehand.
        """
        if not self.local or self.has(pointer):
            return
        place = Path(self._path(pointer.path))
        if place.exists():
            raise InputError(
                f"{place} is there without its {receipt.NAME}, so it is not whole; move it away, "
                "and publish again."
            )
        check_writable(place)

    def put(self, pointer: Pointer, write: Callable[[Path], object]) -> None:
        """Write a release into its folder unless it is there; it counts once it is pointed to.

        `write` gets the name of a new local folder and makes the release there.
        """
        if self.local:
            self._put_here(pointer, Path(self._path(pointer.path)), write)
        elif not self.has(pointer):
            self._send(pointer, write)

    def _put_here(self, pointer: Pointer, place: Path, write: Callable[[Path], object]) -> None:
        # Of all days: one that was stopped may never be asked for again.
        for left in (Path(self.root), *Path(self.root).glob("*/")):
            atomic_files.remove_stale(left)
        if self.has(pointer):
            return
        with self._reached():
            place.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(place)
        except HexveilError:
            if not self.has(pointer):  # else another process was faster
                raise

    def _send(self, pointer: Pointer, write: Callable[[Path], object]) -> None:
        """Upload a release, file by file."""
        with scratch.folder(self.scratch) as own:
            made = own / "release"
            write(made)
            # The receipt goes last: a folder with one is whole.
            names = sorted(path.name for path in made.iterdir() if path.name != receipt.NAME)
            with self._reached():
                self.files.create_dir(self._path(pointer.path), recursive=True)
                for name in (*names, receipt.NAME):
                    self._upload(made / name, self._path(pointer.path, name))

    def _upload(self, file: Path, path: str) -> None:
        with file.open("rb") as source, self.files.open_output_stream(path) as sink:
            shutil.copyfileobj(source, sink)

    def point(self, pointer: Pointer) -> None:
        """Write the day's pointer, and the data set's if no later day stands there."""
        self._write(self._path(pointer.day, LATEST), words(pointer))
        self.advance(pointer)

    def advance(self, pointer: Pointer) -> None:
        """Write the data set's pointer if it does not name this release or a later day."""
        with self._alone():
            newest = self.pointer()
            if newest is None or (newest.day <= pointer.day and newest != pointer):
                self._write(self._path(LATEST), words(pointer))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other publishers of the data set out for a moment, where there are locks."""
        with ExitStack() as held:
            if self.local:
                with self._reached():
                    held.enter_context(atomic_files.exclusive_lock(Path(self.root)))
            yield

    def _write(self, path: str, text: str) -> None:
        with self._reached():
            if self.local:
                atomic_files.write(Path(path), text.encode())
                return
            with self.files.open_output_stream(path) as sink:
                sink.write(text.encode())

    def _path(self, *parts: str) -> str:
        return "/".join((self.root, *parts))

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if is_interruption(error):
                raise KeyboardInterrupt from None
            # Of a server's answer only the first line: later ones can be long.
            why = (error.strerror or str(error) or type(error).__name__).splitlines()[0]
            raise StorageError(
                f"{self.where} cannot be used ({why}); what was booked stays booked, and the same "
                "command again goes on at no further cost."
            ) from None


def archive(where: str, dataset: str, scratch: str | None = None) -> Archive:
    """Return the place of a data set's releases: a folder that no other data set has.

    An older version named folders by another rule, under which two names could be one. A folder
    of its making is kept by the data set whose releases it holds.

    Parameters
    ----------
    where : str
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
    files, root = _reached_by(where)
    older = _ELSE.sub("-", dataset).strip(".-") or "dataset"
    own = folder_name(dataset)
    for name in (older, own) if len(older) <= _LONGEST else (own,):
        place = Archive(where, files, f"{root}/{name}", scratch)
        holder = place.dataset()
        if holder == dataset:
            return place
    if holder is not None:
        raise StorageError(
            f"{where} ({name}) holds releases of another data set, and a folder has those of one; "
            "name another folder for out."
        )
    return place


def _reached_by(where: str) -> tuple[Any, str]:
    """Return the file system of a folder or an address, and its path there."""
    if "://" not in where:
        return pa.fs.LocalFileSystem(), Path(where).absolute().as_posix()
    try:
        files, root = pa.fs.FileSystem.from_uri(where)
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise InputError(
            f"{where} is no place that can be written to ({type(error).__name__}); name a folder, "
            "or an address as s3://bucket/maps."
        ) from None
    return files, root.rstrip("/")
