"""Verification of a release folder from the folder alone, for those who receive one.

In this order: limits of files (untrusted_files.py), the manifest by its schema, the receipt, the
holder's signature (signing.py); then the table and the losses of its kind (`_Kind`), recomputed as
far as the folder determines them; then every file that is made of table and manifest, written again
and compared (file_comparison.py).
Not checked, because a folder cannot show it: that the noise was drawn, and that the ledger has the
release (its holder can check the receipt's chain hash).
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.base.work_share import FOLDER_CHECK, tell_share
from hexveil.publishing import receipt, signing
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.catalogue.folder_files import TILES
from hexveil.publishing.distribution.distribution_manifest import KIND
from hexveil.publishing.distribution.distribution_schema import distribution_schema
from hexveil.publishing.manifest import SCHEMA_VERSION, schema
from hexveil.publishing.markup import clean
from hexveil.publishing.presence.presence_manifest import MODEL, presence_schema
from hexveil.publishing.verification import (
    distribution_checks,
    moment_checks,
    presence_checks,
)
from hexveil.publishing.verification.columns import column_checks, column_totals
from hexveil.publishing.verification.files import file_comparison, untrusted_files
from hexveil.publishing.verification.files.checked_files import NOT_SIGNED, CheckedFiles, read_json
from hexveil.publishing.verification.files.page_comparison import has_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hexveil.publishing.verification.columns.column_checks import ColumnsCheck

    Json = dict[str, Any]

# Exceptions of reading files that a stranger wrote.
_READ_ERRORS = (
    OSError, pa.ArrowException, ValueError, TypeError, LookupError, ArithmeticError,
    RecursionError, MemoryError,
)  # fmt: skip
TABLE_FILES = ("cells.parquet", "cells.csv", "cells.geojson")
REQUIRED_FILES = (
    "cells.parquet",
    "cells.csv",
    "manifest.json",
    "README.txt",
    "report.html",
    *metadata_files.ALWAYS,
)
KNOWN_FILES = {
    *REQUIRED_FILES,
    "cells.geojson",
    TILES,
    metadata_files.ITEM,
    receipt.NAME,
    signing.NAME,
}
MAX_FILES = 100
MAX_PROBLEMS = 30
MAX_PROBLEM_LENGTH = 300
"""Letters of a problem: names in it are a stranger's."""
MAX_MANIFEST_PARTS = 20_000
"""Lists, objects, names and numbers that a manifest has beside its cells, at most."""
TILES_UNREAD = f"the content of {TILES}: only its checksum was compared"
NOT_IN_FOLDER = (
    "whether noise was drawn as stated, and whether the holder's ledger has this release"
)


@dataclass(frozen=True)
class FolderVerdict:
    """Result of checking a folder.

    Attributes
    ----------
    problems : tuple of str
        Its problems, a sentence each.
    recomputed : tuple of str
        Figures computed anew from the folder's scales, biases, bounds and counts, which agree.
    unknown : tuple of str
        Figures that could not be.
    signature : str
        Meaning of its signature, or that it has none.
    """

    problems: tuple[str, ...]
    recomputed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    signature: str = NOT_SIGNED


def verify(folder: str | Path, *, key: str | Path | None = None) -> dict[str, Any]:
    """Return the manifest of a release folder that is as it was written.

    For those who receive one: no ledger and no records are needed. A folder cannot show that
    noise was drawn as stated, nor that its holder's ledger has the release.

    Parameters
    ----------
    folder : str or Path
        As `Release.write` or `hexveil release` wrote it.
    key : str or Path, optional
        File of the holder's public key: then the folder must be signed with it.

    Returns
    -------
    dict
        As in `manifest.json`: what was published and what is guaranteed.

    Raises
    ------
    InputError
        If there is no release in the folder, or if a file, a number, a statement or the signature
        is not as it was written; the message names each. Also if the key cannot be read.
    """
    path = Path(folder)
    if column_checks.has_columns(path):
        return read_columns(path, key=key).manifest
    manifest, _ = read_release(path, key=key)
    return manifest


def read_columns(folder: Path, *, key: str | Path | None = None) -> ColumnsCheck:
    """Return the value columns of a folder, as they were checked; see `verify`."""
    check, issues = _examine_columns(folder, key)
    if issues:
        raise InputError(f"{folder} is not as it was written: {' '.join(issues)}")
    return check


def _examine_columns(folder: Path, key: str | Path | None) -> tuple[ColumnsCheck, tuple[str, ...]]:
    """Return the check of a folder of several value columns, with its problems."""
    reader = None if key is None else signing.read_verification_key(key)
    check = column_checks.examine_columns(folder, reader, lambda path: _examine(path, key))
    return check, tuple(_shorten([*check.issues]))


def read_release(folder: Path, *, key: str | Path | None = None) -> tuple[Json, pa.Table]:
    """Return the manifest and the table of a folder, as they were checked; see `verify`."""
    if column_checks.has_columns(folder):
        raise InputError(
            f"{folder} holds several value columns; name the folder of one of them inside it."
        )
    check, issues = _examine(folder, key)
    if issues or check is None or check.table is None:
        raise InputError(f"{folder} is not as it was written: {' '.join(issues)}")
    return check.manifest, check.table


def find_problems(folder: Path, *, key: str | Path | None = None) -> tuple[str, ...]:
    """Return the problems of a release folder, a sentence each; none if all is well.

    Raises
    ------
    InputError
        If there is no such folder, or no release in it, or the key cannot be read.
    """
    return check_folder(folder, key=key).problems


def check_folder(folder: Path, *, key: str | Path | None = None) -> FolderVerdict:
    """Check a release folder; see `find_problems`."""
    if column_checks.has_columns(folder):
        columns, problems = _examine_columns(folder, key)
        known = ((), ()) if problems else columns.describe_losses()
        return FolderVerdict(problems, *known, signature=clean(columns.signature))
    check, issues = _examine(folder, key)
    if check is None:
        return FolderVerdict(issues)
    # Figures of a folder with problems would be nobody's statement.
    described = ((), ()) if issues else check.describe_losses()
    return FolderVerdict(issues, *described, signature=clean(check.files.signature))


def _examine(folder: Path, key: str | Path | None) -> tuple[_FolderCheck | None, tuple[str, ...]]:
    """Return the check of a folder, with its problems; None where there is too much to check."""
    reader = None if key is None else signing.read_verification_key(key)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; name a release folder.")
    with os.scandir(folder) as entries:
        # One more than the limit suffices to refuse: a folder can have millions of files.
        names = {entry.name for entry in itertools.islice(entries, MAX_FILES + 1)}
    # Not from the names: which of them come first depends on the file system.
    if not os.path.lexists(folder / "manifest.json"):
        raise InputError(
            f"{folder} has no manifest.json, so it is not a release; name another folder."
        )
    if len(names) > MAX_FILES:
        most = len(KNOWN_FILES)
        return None, (f"the folder has more than {MAX_FILES} files; a release has {most} at most.",)
    check = _FolderCheck(folder, names, reader)
    issues = tuple(_shorten(check.find_problems()))
    return check, issues


def _shorten(issues: list[str]) -> Iterator[str]:
    """Yield problems, made fit for a terminal: names are a stranger's, and may be many."""
    for issue in issues[:MAX_PROBLEMS]:
        # One letter can be hidden by many; a name's end says little.
        text = clean(issue[: 4 * MAX_PROBLEM_LENGTH])
        yield text if len(text) <= MAX_PROBLEM_LENGTH else f"{text[:MAX_PROBLEM_LENGTH]}..."
    if len(issues) > MAX_PROBLEMS:
        yield f"And {len(issues) - MAX_PROBLEMS} more."


class _FolderCheck:
    """One check of a folder: each file is read once, the table only if it is unchanged."""

    def __init__(self, folder: Path, names: set[str], key: signing.VerificationKey | None) -> None:
        self.folder, self.names = folder, names
        required, known_files = frozenset(REQUIRED_FILES), frozenset(KNOWN_FILES)
        self.files = CheckedFiles(folder, names, key, required=required, known=known_files)
        self.manifest: Json = {}
        self.table: pa.Table | None = None

    def find_problems(self) -> list[str]:
        """Return the problems, in words that may contain a stranger's names."""
        issues = [*self.files.find_irregular()]
        if issues:
            return issues
        self.manifest, error = read_json(self.folder / "manifest.json")
        if error:
            return [error]
        tell_share(FOLDER_CHECK, 0.1)
        issues = [*_check_manifest(self.manifest)]
        if issues:
            return issues
        tell_share(FOLDER_CHECK, 0.4)
        issues = [*self.files.compare_receipt(self.manifest), *self.files.check_signature()]
        # A changed table is not read: what it would say is nobody's statement.
        if any(issue.startswith((*TABLE_FILES, receipt.NAME)) for issue in issues):
            return issues
        return issues + self._contents()

    def describe_losses(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the figures that were recomputed, and those that could not be."""
        stated, unknown = _kind_of(self.manifest).describe(self.manifest, self.table)
        return stated, (*unknown, *self._describe_unread(), NOT_IN_FOLDER)

    def _describe_unread(self) -> Iterator[str]:
        """Yield the parts of files that were not compared, in words."""
        if TILES in self.names:
            yield TILES_UNREAD
        if not file_comparison.is_same_version(self.manifest):
            yield "the words of README.txt, page and descriptions: another version wrote them"
        elif has_layer(self.folder):
            yield "the lines and names of the holder's own layer on the page"

    def _contents(self) -> list[str]:
        """Return the differences of tables and statements from each other."""
        tell_share(FOLDER_CHECK, 0.45)
        issues: list[str] = []
        try:
            table = self._read_table()
        except untrusted_files.ImplausibleError as error:
            return [f"cells.parquet {error}."]
        except _READ_ERRORS:
            return ["cells.parquet cannot be read."]
        # Hostile numbers may be of any size.
        with contextlib.suppress(*_READ_ERRORS), np.errstate(all="ignore"):
            for problem in self._differences(table):
                issues.append(problem)  # noqa: PERF402  those before an error are kept
            return issues
        return [*issues, "the tables and manifest.json cannot be compared."]

    def _differences(self, table: pa.Table) -> Iterator[str]:
        """Yield the differences: of the table first, then of the files made of it."""
        kind, manifest = _kind_of(self.manifest), self.manifest
        issues = [*kind.check_table(table, manifest)]
        yield from issues
        if issues:
            return
        yield from kind.check_numbers(table, manifest)
        yield from self._spellings(table)
        tell_share(FOLDER_CHECK, 0.9)
        yield from file_comparison.compare_readme(self.folder, table, manifest)
        yield from file_comparison.compare_metadata(self.folder, table, manifest)
        self.table = table

    def _read_table(self) -> pa.Table:
        texts = (self.folder / "cells.csv").stat().st_size
        path = self.folder / "cells.parquet"
        centres = () if self.manifest["grid"].get("columns") else ("lat", "lon")
        numbers = frozenset((*distribution_checks.number_columns(self.manifest), *centres))
        if self.manifest.get("model") == MODEL:
            rows = self.manifest["grid"]["cells"]
            return untrusted_files.read_table(path, rows, texts, MODEL, numbers)
        return untrusted_files.read_table(path, len(self.manifest["cells"]), texts, "", numbers)

    def _spellings(self, table: pa.Table) -> Iterator[str]:
        """Yield where CSV and GeoJSON differ from the table."""
        for done, compared in (
            (0.5, file_comparison.compare_csv),
            (0.6, file_comparison.compare_geojson),
        ):
            tell_share(FOLDER_CHECK, done)
            try:
                yield from compared(self.folder, table)
            except _READ_ERRORS:
                yield f"cells.{compared.__name__} cannot be read."


class _Kind(NamedTuple):
    """Checks of a kind of release: its schema first, then its table, then its numbers."""

    schema: Callable[[], Json]
    check_table: Callable[[pa.Table, Json], Iterator[str]]
    check_numbers: Callable[[pa.Table, Json], Iterator[str]]
    describe: Callable[[Json, pa.Table], tuple[tuple[str, ...], tuple[str, ...]]]


def _kind_of(manifest: Json) -> _Kind:
    """Return the checks of a release, by the kind in its manifest."""
    if manifest.get("model") == MODEL:
        return _Kind(
            presence_schema,
            presence_checks.check_presence_table,
            presence_checks.check_presence,
            lambda manifest, _: presence_checks.describe_presence(manifest),
        )
    if manifest.get("kind") == KIND:
        return _Kind(
            distribution_schema,
            distribution_checks.check_distribution_table,
            distribution_checks.check_distribution,
            lambda manifest, _: (
                distribution_checks.describe_distribution(manifest),
                distribution_checks.UNKNOWN,
            ),
        )
    return _Kind(
        schema,
        moment_checks.check_moment_table,
        moment_checks.check_moments,
        moment_checks.describe_moments,
    )


def _check_manifest(manifest: Json) -> Iterator[str]:
    """Yield the places where the manifest breaks its schema."""
    version = manifest.get("schema_version")
    if not _is_version(version, SCHEMA_VERSION):
        version_text = version if isinstance(version, int) and abs(version) < 10**9 else "unknown"
        yield (
            f"manifest.json has schema version {version_text}, and this program reads "
            f"{SCHEMA_VERSION}; use the version of hexveil that it names."
        )
        return
    # The schema checks one cell after the other, but everything else at once: its size is limited
    # first.
    beside_cells = [section for key, section in manifest.items() if key != "cells"]
    if _has_more_parts(beside_cells, MAX_MANIFEST_PARTS):
        yield "manifest.json contains more beside its cells than a release does."
        return
    from jsonschema import Draft202012Validator  # noqa: PLC0415  only checking needs it

    rules = _kind_of(manifest).schema()
    errors = [*itertools.islice(Draft202012Validator(rules).iter_errors(manifest), MAX_PROBLEMS)]
    for error in errors:
        place = "/".join(map(str, error.absolute_path)) or "its top"
        yield f"manifest.json breaks its schema at {place} ({error.validator})."
    # What the schema does not promise to be there is not looked at.
    if errors:
        return
    if manifest.get("model") != MODEL and not manifest.get("cells"):
        yield "manifest.json has no cells."
        return
    yield from column_totals.check_together(manifest)
    if manifest.get("kind") == KIND:
        # After the schema alone: what it composes must be there, and nothing else.
        yield from distribution_checks.check_statements(manifest)


def _is_version(version: object, supported: int) -> bool:
    return isinstance(version, int) and not isinstance(version, bool) and version == supported


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
