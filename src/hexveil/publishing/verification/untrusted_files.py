"""Reading of untrusted files, in memory and time limited by their sizes.

A release folder can come from anybody. Here a file is opened only if it is a regular one of a
plausible size, and the memory to read it is a small multiple of that size:

JSON
    A list or an object takes some hundred bytes of memory, and two bytes of text. So there is no
    more than one for every eight bytes; numbers are finite, keys are not repeated.
Parquet
    A page of a kilobyte can unpack to gigabytes, and an index into a dictionary can repeat a long
    text a million times. So another process reads all of it first (`bounded_reader`), in a memory
    that follows from its rows and texts, which Linux holds it to, and adds up how long texts are:
    together no longer than in the CSV that holds them too. Columns have the types that releases
    have.

Files of a folder from anybody: its manifest by the schema, its receipt, its signature.
"""

import hashlib
import itertools
import json
import math
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet

from hexveil.base.optional_packages import is_installed
from hexveil.publishing import receipt, signing
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.manifest import SCHEMA_VERSION
from hexveil.publishing.part_kinds import manifest_schema
from hexveil.publishing.verification import bounded_reader

MEGABYTE = 10**6
LIMITS = {
    "manifest.json": 128 * MEGABYTE,
    "receipt.json": MEGABYTE,
    "signature.json": MEGABYTE,
    "README.txt": MEGABYTE,
    "cells.csv": 256 * MEGABYTE,
    "cells.geojson": 50 * MEGABYTE,
    "cells.parquet": 256 * MEGABYTE,
    "report.html": 256 * MEGABYTE,
    "memory.npy": MEGABYTE,
    **dict.fromkeys((*metadata_files.NAMES, metadata_files.FORMER), MEGABYTE),
}
"""Largest size of each file in bytes; a release of 100,000 cells stays below them."""
REQUIRED_FILES = frozenset(
    {"cells.parquet", "cells.csv", "manifest.json", "README.txt", "report.html"}
    | {*metadata_files.ALWAYS}
)
KNOWN_FILES = REQUIRED_FILES | {
    "cells.geojson", metadata_files.ITEM, metadata_files.FORMER, receipt.NAME, signing.NAME,
    "memory.npy",
}  # fmt: skip
MAX_OUTLINE, MAX_ROW = 256, 1024
"""Largest size of a hexagon's outline as well-known binary, and of a row's numbers, in bytes."""
READER = 64
"""Megabytes that reading takes at least."""
_READ: set[tuple[bytes, int, int]] = set()
"""Contents, rows and texts that this process had read: starting another takes a while."""
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


TIME = pa.timestamp("s", tz="UTC")
TYPES = {"geometry": pa.binary(), "starts_at_utc": TIME}
"""Types of columns of every release that are no texts."""


class ImplausibleError(ValueError):
    """A file that is not regular, or that would take much more memory than its size."""


def open_file(path: Path) -> BinaryIO:
    """Return a file opened to be read, if it is a regular one within its limit.

    Raises
    ------
    ImplausibleError
        If it is a link, a pipe, a device or a folder, or too large.
    OSError
        If it cannot be opened.
    """
    try:
        # Not followed and not blocking: a link or a pipe must neither redirect nor hang the check.
        handle = os.open(path, _OPEN)
    except OSError:
        if path.is_symlink():
            raise ImplausibleError("is a link, and not a file") from None
        raise
    status, limit = os.fstat(handle), LIMITS[path.name]
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise ImplausibleError("is no regular file")
    if status.st_size > limit:
        os.close(handle)
        raise ImplausibleError(f"is larger than {limit // MEGABYTE} MB, and is not read")
    return os.fdopen(handle, "rb")


def read_content(path: Path) -> bytes:
    """Return the bytes of a file; see `open_file`."""
    with open_file(path) as file:
        return file.read(LIMITS[path.name])


def parse_json(data: bytes) -> Any:  # noqa: ANN401  JSON
    """Return parsed JSON.

    Raises
    ------
    ValueError
        If it is none, has a number that is not finite, a key twice, or so many lists and objects
        that they would take much more memory than the text.
    RecursionError
        If lists stand in lists without an end.
    """
    n_parts = sum(data.count(mark) for mark in (b",", b"[", b"{"))
    # Counted in bytes before parsing: afterwards the memory would be taken already.
    if n_parts > len(data) // 8 + 1000:
        raise ImplausibleError("has more lists and objects than a release has")
    text = data.decode("utf-8")
    value = json.loads(
        text,
        object_pairs_hook=_refuse_repeated_keys,
        parse_float=_parse_finite,
        parse_constant=_refuse_constant,
    )
    _check_encodable(text)
    return value


def _check_encodable(text: str) -> None:
    """Refuse escapes of half a letter, which no text has and no file can hold."""
    if "\\ud" in text.lower():
        json.dumps(json.loads(text), ensure_ascii=False).encode()


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key stands twice")
    return mapping


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is not finite")
    return number


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def read_table(path: Path, rows: int, texts: int, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the table of a Parquet file that has so many rows.

    Parameters
    ----------
    path : Path
    rows : int
    texts : int
        Bytes that all its texts together take at most.
    types : mapping of str to DataType
        Types of columns that are no texts, beside outlines and times.

    Raises
    ------
    ValueError, OSError, pyarrow.ArrowException
        If it is none, has other columns or another number of rows, or would unpack to more than a
        release of so many rows has.
    """
    with open_file(path) as file:
        _check_sizes(file, rows, texts)
        read = pa.parquet.ParquetFile(pa.PythonFile(file, mode="r"))
        _check_columns(read.schema_arrow, {**TYPES, **types})
        table = read.read(use_threads=False)
    table.validate(full=True)
    return table


def _check_sizes(file: BinaryIO, rows: int, texts: int) -> None:
    """Refuse a file that has other rows, or would unpack to more than so many rows and texts."""
    known = hashlib.file_digest(file, "sha256").digest(), rows, texts  # type: ignore[arg-type]
    if known in _READ:
        return
    file.seek(0)
    longest = texts + MAX_OUTLINE * rows
    memory = READER * MEGABYTE + 2 * (longest + MAX_ROW * rows)
    arguments = Path(pa.__file__).parents[1], memory, rows, longest
    command = [sys.executable, "-I", "-S", bounded_reader.__file__, *map(str, arguments)]
    read = subprocess.run(  # noqa: S603  this Python, and a script of this package
        command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    answer = bounded_reader.ANSWERS.get(read.stdout.decode().strip())
    if answer is None:
        raise ValueError("it is no file of Parquet, or damaged")
    if answer:
        raise ImplausibleError(answer.format(rows=rows))
    _READ.add(known)


def _check_columns(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> None:
    if len(set(schema.names)) < len(schema.names):
        raise ImplausibleError("has a column twice")
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        # Label columns can have any name, and are texts.
        expected = types.get(field.name, pa.string())
        # Parquet has no seconds.
        if kind.id != expected.id if expected == TIME else kind != expected:
            raise ImplausibleError(f"has a column {field.name!r} of type {kind}, not {expected}")


Json = dict[str, Any]

MAX_COLUMNS = 50
MAX_PROBLEMS = 30
MAX_MANIFEST_PARTS = 20_000
"""Lists, objects, names and numbers that a manifest has beside its cells, at most."""
NOT_SIGNED = (
    "none: the folder does not show who made it. Whoever changes its files can write a new "
    "receipt, too."
)


class CheckedFiles:
    """Files of a folder, each read once for its checksum.

    Parameters
    ----------
    folder : Path
    names : set of str
        Of the files that are there.
    key : VerificationKey or None
        The holder's public key.
    """

    def __init__(self, folder: Path, names: set[str], key: signing.VerificationKey | None) -> None:
        self.folder, self.names, self.key = folder, names, key
        self.signature = NOT_SIGNED
        self.digests: dict[str, str] = {}

    def find_irregular(self) -> Iterator[str]:
        """Yield the files that cannot be read or are too large."""
        for name in sorted(self.names & KNOWN_FILES):
            try:
                with open_file(self.folder / name) as file:
                    self.digests[name] = receipt.stream_digest(file)
            except ImplausibleError as error:
                yield f"{name} {error}."
            except OSError as error:
                yield f"{name} cannot be read ({type(error).__name__})."

    def compare_receipt(self, manifest: Json) -> Iterator[str]:
        """Yield the differences of the files from their receipt."""
        for name in sorted(self.names - KNOWN_FILES):
            yield f"{name} was added: a release has no such file."
        for name in sorted(REQUIRED_FILES - self.names):
            yield f"{name} is missing."
        if receipt.NAME not in self.names:
            yield f"{receipt.NAME} is missing, so changed files cannot be detected."
            return
        content, error = read_json(self.folder / receipt.NAME)
        error = error or receipt.find_problem(content)
        if error:
            yield error
            return
        stated = {key: manifest[key] for key in ("request", "ledger")}
        for field, value in (stated | {"dataset": manifest["dataset"]["name"]}).items():
            if content[field] != value:
                yield f"{receipt.NAME} and manifest.json name different values of {field}."
        yield from self._compared(content["files"])

    def _compared(self, checksums: dict[str, str]) -> Iterator[str]:
        for name in sorted({*checksums} - self.names - REQUIRED_FILES):
            yield f"{name} is missing."
        for name in sorted(self.digests.keys() - {receipt.NAME, signing.NAME}):
            if name not in checksums:
                yield f"{name} was added: it is not in {receipt.NAME}."
            elif self.digests[name] != checksums[name]:
                yield f"{name} was changed: its checksum is not the one in {receipt.NAME}."

    def check_signature(self) -> Iterator[str]:
        """Yield why the signature does not hold, or is missing where a key was given."""
        if signing.NAME not in self.names:
            if self.key is not None:
                yield (
                    f"{signing.NAME} is missing: the folder is unsigned, so it does not show that "
                    "it is by the holder of the key."
                )
            return
        if not is_installed("cryptography"):
            self.signature = 'not checked: pip install "hexveil[signing]".'
            return
        content, error = read_json(self.folder / signing.NAME)
        files = {name: self.digests[name] for name in self.digests if name != signing.NAME}
        error = error or signing.find_problem(content, files, self.key) or ""
        if error:
            self.signature = "does not hold."
            yield error
        elif self.key is not None:
            self.signature = f"by the holder of the key given ({self.key.fingerprint})."
        else:
            self.signature = (
                f"by the key {signing.stated_fingerprint(content)}, which anybody can have made: "
                "give the holder's public key (--key) to know who signed."
            )


def read_json(path: Path) -> tuple[Json, str]:
    """Return a file's JSON object, or the problem with it."""
    try:
        content = parse_json(read_content(path))
    except ImplausibleError as error:
        return {}, f"{path.name} {error}."
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"{path.name} cannot be read as JSON ({type(error).__name__})."
    return (
        (content, "") if isinstance(content, dict) else ({}, f"{path.name} is not a JSON object.")
    )


def check_schema(manifest: Json) -> Iterator[str]:
    """Yield the places where a manifest breaks its schema."""
    version = manifest.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        is_number = isinstance(version, int) and abs(version) < 10**9
        yield (
            f"manifest.json has schema version {version if is_number else 'unknown'}, and this "
            f"program reads {SCHEMA_VERSION}; use the version of hexveil that it names."
        )
        return
    # The schema checks one cell after the other, but everything else at once: its size is limited
    # first.
    components = manifest.get("components")
    listed = components if isinstance(components, list) else [components]
    beside_cells = [section for key, section in manifest.items() if key != "components"]
    for component in listed[: MAX_COLUMNS + 1]:
        sections = component if isinstance(component, dict) else {"": component}
        beside_cells += [section for key, section in sections.items() if key != "cells"]
    if _has_more_parts(beside_cells, MAX_MANIFEST_PARTS):
        yield "manifest.json contains more beside its cells than a release does."
        return
    from jsonschema import Draft202012Validator  # noqa: PLC0415  only checking needs it

    errors = Draft202012Validator(manifest_schema()).iter_errors(manifest)
    for error in itertools.islice(errors, MAX_PROBLEMS):
        place = "/".join(map(str, error.absolute_path)) or "its top"
        yield f"manifest.json breaks its schema at {place} ({error.validator})."


def _has_more_parts(value: Any, limit: int) -> bool:  # noqa: ANN401  JSON
    """Return whether JSON has more parts than that."""
    # A stack instead of recursion: a stranger's JSON can nest deeply.
    waiting, count = [value], 0
    while waiting and count <= limit:
        item = waiting.pop()
        count += 1
        if isinstance(item, dict):
            waiting.extend(itertools.islice(item.values(), limit + 1))
        elif isinstance(item, list):
            waiting.extend(itertools.islice(item, limit + 1))
    return count > limit
