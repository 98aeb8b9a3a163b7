"""Current releases of an archive, by their pointers: the days that its catalogue lists.

A day is listed if its pointer names a complete folder of that day. The descriptions are those in
the folder itself (`stac-item.json`, `dcat.jsonld`): a catalogue needs neither tables nor manifests.

Two small files state the current release of a day, and the ledger position of releases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs

from hexveil.base import atomic_files
from hexveil.base.errors import InputError
from hexveil.publishing import receipt
from hexveil.publishing.catalogue.metadata_files import DCAT, ITEM

Json = dict[str, Any]


LATEST = "latest.json"
DAY_NAME = re.compile(r"\d{4}-\d{2}-\d{2}")
DATASET_NAME = re.compile(r"[^.].*")
MAX_CONTENT = 4_000_000
"""Bytes of a file that is read here, at most; these files are small."""


@dataclass(frozen=True)
class ListedDay:
    """A day with a current release.

    Attributes
    ----------
    release : CurrentRelease
    item : dict
        Its STAC Item, as in its folder.
    dataset : dict
        Its DCAT dataset, as in its folder.
    """

    release: CurrentRelease
    item: Json
    dataset: Json


@dataclass(frozen=True)
class ArchiveFiles:
    """Files below the folder of a data set, on a disk or in an object store.

    Attributes
    ----------
    files : pyarrow.fs.FileSystem
    root : str
    """

    files: Any
    root: str

    def path(self, inside: str) -> Path:
        """Return the path of a file or folder on a disk."""
        return Path(self.root, inside)

    def exists(self) -> bool:
        """Return whether the folder exists."""
        return bool(self.files.get_file_info(self.root).type == pa.fs.FileType.Directory)

    def folders(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the names of folders that match, in order."""
        selector = pa.fs.FileSelector(self.root, allow_not_found=True)
        return sorted(
            entry.base_name
            for entry in self.files.get_file_info(selector)
            if entry.type == pa.fs.FileType.Directory and pattern.fullmatch(entry.base_name)
        )

    def below(self, folder: str) -> ArchiveFiles:
        """Return the files of a folder in it."""
        return ArchiveFiles(self.files, self.full(folder))

    def has(self, *parts: str) -> bool:
        """Return whether a file is there."""
        return bool(self.files.get_file_info(self.full(*parts)).type == pa.fs.FileType.File)

    def read(self, *parts: str, limit: float = MAX_CONTENT) -> bytes | None:
        """Return the content of a file; None if it is not there, or larger than a limit."""
        path = self.full(*parts)
        result = self.files.get_file_info(path)
        if result.type != pa.fs.FileType.File or result.size > limit:
            return None
        with self.files.open_input_stream(path) as stream:
            return bytes(stream.read())

    def read_json(self, *parts: str) -> Json | None:
        """Return the JSON object in a file; None if there is none."""
        content = self.read(*parts)
        with suppress(ValueError, RecursionError):
            value = json.loads(content or b"")
            return value if isinstance(value, dict) else None
        return None

    def full(self, *parts: str) -> str:
        """Return a path in the file system; a store's own root has no name."""
        return "/".join(piece for piece in (self.root, *parts) if piece)

    @property
    def local(self) -> bool:
        """Whether these are files of a disk."""
        return isinstance(self.files, pa.fs.LocalFileSystem)

    def write(self, path: str, content: bytes) -> None:
        """Write a file whole, unless it has this content already."""
        if self.read(path) == content:
            return
        place = self.full(path)
        if self.local:
            atomic_files.write(Path(place), content)
            return
        with self.files.open_output_stream(place) as sink:
            sink.write(content)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock out other writers of the folder, where there are locks."""
        with ExitStack() as stack:
            if self.local:
                stack.enter_context(atomic_files.exclusive_lock(Path(self.root)))
            yield


def listed_days(archive: ArchiveFiles) -> list[ListedDay]:
    """Return the days with a current release, oldest first."""
    return [
        listed
        for day in archive.folders(DAY_NAME)
        if (listed := listed_day(archive, day)) is not None
    ]


def listed_day(archive: ArchiveFiles, day: str) -> ListedDay | None:
    """Return a day; None if its pointer does not name a complete folder with descriptions."""
    content = archive.read_json(day, LATEST)
    if content is None:
        return None
    with suppress(ValueError, KeyError, TypeError):
        release = CurrentRelease.parse(content)
        # A pointer by others must not lead elsewhere.
        if release != CurrentRelease.of_day(day, release.request):
            return None
        item, dataset = _descriptions(archive, release)
        if item["properties"]["hexveil:request"] == dataset["dct:identifier"] == release.request:
            return ListedDay(release, item, dataset)
    return None


def _descriptions(archive: ArchiveFiles, release: CurrentRelease) -> tuple[Json, Json]:
    """Return the STAC Item and the DCAT dataset of a release, if they are as they were written."""
    checksums = receipt.parse_checksums(archive.read(release.path, receipt.NAME)) or {}
    contents = []
    for name in (ITEM, DCAT):
        content = archive.read(release.path, name) or b""
        if sha256(content).hexdigest() != checksums.get(name):
            raise ValueError(name)
        contents.append(json.loads(content))
    return contents[0], contents[1]


def newest_days(root: ArchiveFiles) -> dict[str, ListedDay]:
    """Return the newest day of each data set that has a current release, by its folder."""
    newest = {}
    for folder in root.folders(DATASET_NAME):
        archive = root.below(folder)
        # Only the last day is read: a data set can have thousands.
        days = (listed_day(archive, day) for day in archive.folders(DAY_NAME)[::-1])
        if (day := next(filter(None, days), None)) is not None:
            newest[folder] = day
    return newest


def base_url(day: ListedDay, folder: str) -> str | None:
    """Return the address of the archive, from that of a release in it; None if none is stated."""
    address = day.dataset["@context"].get("@base")
    inside = f"{folder}/{day.release.path}/"
    if not isinstance(address, str) or not address.endswith(f"/{inside}"):
        return None
    return address.removesuffix(inside)


SHORT = 16
"""Letters of a request that name its folder."""


@dataclass(frozen=True)
class CurrentRelease:
    """The current release of a day.

    Attributes
    ----------
    day : str
        ISO date.
    request : str
        Fingerprint of its public request.
    path : str
        Its folder, relative to that of the data set.
    """

    day: str
    request: str
    path: str

    @classmethod
    def of_day(cls, day: str, request: str) -> CurrentRelease:
        """Return the pointer to a day's release."""
        return cls(day, request, f"{day}/{request[:SHORT]}")

    @classmethod
    def parse(cls, content: Any) -> CurrentRelease:  # noqa: ANN401  JSON
        """Parse the content of a file; raise ValueError, KeyError or TypeError if it is another."""
        return cls(str(content["day"]), str(content["request"]), str(content["path"]))


@dataclass(frozen=True)
class LedgerPosition:
    """The ledger event that stored a release's numbers.

    Attributes
    ----------
    entry, chain : int and str
        Number and hash of the event.
    """

    entry: int
    chain: str

    @classmethod
    def parse(cls, content: Any) -> LedgerPosition:  # noqa: ANN401  JSON
        """Parse the content of a file; raise ValueError, KeyError or TypeError if it is another."""
        return cls(int(content["entry"]), str(content["chain"]))


def to_json(content: CurrentRelease | LedgerPosition) -> str:
    """Return the text of a file with this content."""
    return json.dumps(vars(content), indent=2) + "\n"


def open_file_system(address: str) -> tuple[Any, str]:
    """Return the file system of a folder or an address, and its path there."""
    if "://" not in address:
        return pa.fs.LocalFileSystem(), Path(address).absolute().as_posix()
    try:
        files, root = pa.fs.FileSystem.from_uri(address)
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise InputError(
            f"{address} cannot be opened as a place for maps ({type(error).__name__}); name a "
            "folder, or an address such as s3://bucket/maps."
        ) from None
    return files, root.rstrip("/")
