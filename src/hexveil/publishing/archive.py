"""Where releases of many days stand: one immutable folder each, found by pointers.

    ROOT/dataset/2026-11-20/0123456789abcdef/   a release, never changed
    ROOT/dataset/2026-11-20/latest.json         which release of the day counts
    ROOT/dataset/latest.json                    the newest day

A folder counts from the moment a pointer names it. On a disk it is renamed into its place whole; in
an object store (s3://, gs://, abfs://) its files are uploaded first and the pointer last, since
there is no renaming. Whatever a crash leaves without a pointer is completed by the next run, with
the same bytes: the numbers come from the ledger.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs

from hexveil import atomic
from hexveil.errors import InputError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LATEST = "latest.json"
SHORT = 16
"""Letters of a request that name its folder."""
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Pointer:
    """Which release of a day counts.

    Attributes
    ----------
    day : str
        ISO date.
    request : str
        Fingerprint of its public request.
    path : str
        Its folder, from the data set's.
    """

    day: str
    request: str
    path: str

    @classmethod
    def to(cls, day: str, request: str) -> Pointer:
        """Return the pointer to a day's release."""
        return cls(day, request, f"{day}/{request[:SHORT]}")


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
    """

    where: str
    files: Any
    root: str

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
        with self._reached():
            if self.files.get_file_info(path).type != pa.fs.FileType.File:
                return None
            with self.files.open_input_stream(path) as stream:
                text = stream.read().decode()
        try:
            said = json.loads(text)
            return Pointer(str(said["day"]), str(said["request"]), str(said["path"]))
        except (ValueError, KeyError, TypeError):
            raise StorageError(f"{path} is no pointer of a data set; restore it.") from None

    def has(self, pointer: Pointer) -> bool:
        """Return whether a release's folder is there, whole."""
        with self._reached():
            path = self._path(pointer.path, "receipt.json")
            return bool(self.files.get_file_info(path).type == pa.fs.FileType.File)

    def put(self, pointer: Pointer, write: Callable[[Path], object]) -> None:
        """Write a release into its folder unless it is there; it counts once it is pointed to.

        `write` gets the name of a new local folder and makes the release there.
        """
        if self.has(pointer):
            return
        if self.local:
            place = Path(self._path(pointer.path))
            with self._reached():
                place.parent.mkdir(parents=True, exist_ok=True)
            write(place)
            return
        with tempfile.TemporaryDirectory(prefix="hexveil-") as scratch:
            made = Path(scratch) / "release"
            write(made)
            # The receipt goes last: a folder with one is whole.
            names = sorted(path.name for path in made.iterdir() if path.name != "receipt.json")
            with self._reached():
                self.files.create_dir(self._path(pointer.path), recursive=True)
                for name in (*names, "receipt.json"):
                    self._upload(made / name, self._path(pointer.path, name))

    def _upload(self, file: Path, path: str) -> None:
        with file.open("rb") as source, self.files.open_output_stream(path) as sink:
            shutil.copyfileobj(source, sink)

    def point(self, pointer: Pointer) -> None:
        """Write the day's pointer, and the data set's if no later day stands there."""
        text = json.dumps(vars(pointer), indent=2) + "\n"
        self._write(self._path(pointer.day, LATEST), text)
        newest = self.pointer()
        if newest is None or newest.day <= pointer.day:
            self._write(self._path(LATEST), text)

    def _write(self, path: str, text: str) -> None:
        with self._reached():
            if self.local:
                atomic.write(Path(path), text.encode())
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
            # Of a server's answer only the first line: later ones can be long.
            why = (error.strerror or str(error) or type(error).__name__).splitlines()[0]
            raise StorageError(
                f"{self.where} cannot be used ({why}); what was booked stays booked, and the same "
                "command again goes on at no further cost."
            ) from None


def archive(where: str, dataset: str) -> Archive:
    """Return the place of a data set's releases.

    Parameters
    ----------
    where : str
        A folder, or an address that pyarrow knows, as "s3://bucket/maps".
    dataset : str

    Raises
    ------
    InputError
        If the address is none.
    """
    name = _NAME.sub("-", dataset).strip(".-") or "dataset"
    if "://" not in where:
        return Archive(
            where, pa.fs.LocalFileSystem(), f"{Path(where).absolute().as_posix()}/{name}"
        )
    try:
        files, root = pa.fs.FileSystem.from_uri(where)
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise InputError(
            f"{where} is no place that can be written to ({type(error).__name__}); name a folder, "
            "or an address as s3://bucket/maps."
        ) from None
    return Archive(where, files, f"{root.rstrip('/')}/{name}")
