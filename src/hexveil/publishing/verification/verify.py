"""Verification of a release folder from the folder alone, for those who receive one.

In this order: limits of files (untrusted_files.py), the manifest by its schema, the receipt, the
holder's signature (signing.py); then the table, the numbers and the losses of its kind (`KINDS`),
recomputed as far as the folder determines them; then every file that is made of table and manifest,
written again and compared (file_comparison.py). A folder of several value columns has a folder of
each; these are checked in the same way, then the whole (column_checks.py).
Not checked, because a folder cannot show it: that the noise was drawn, and that the ledger has the
release (its holder can check the receipt's chain hash).
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.base.work_share import FOLDER_CHECK, tell_share
from hexveil.publishing import receipt, signing
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.catalogue.release_description import TILES
from hexveil.publishing.columns import column_folder, column_manifest
from hexveil.publishing.distribution import distribution_manifest
from hexveil.publishing.estimates.released_columns import ALL_COLUMNS
from hexveil.publishing.manifest import schema
from hexveil.publishing.markup import clean
from hexveil.publishing.memory import stored_day
from hexveil.publishing.presence import presence_manifest
from hexveil.publishing.presence.presence_table import OPEN
from hexveil.publishing.verification import (
    column_checks,
    distribution_checks,
    memory_checks,
    moment_checks,
    presence_checks,
)
from hexveil.publishing.verification.files import file_comparison, untrusted_files
from hexveil.publishing.verification.files.checked_files import (
    MAX_PROBLEMS,
    NOT_SIGNED,
    CheckedFiles,
    check_schema,
    read_json,
)
from hexveil.publishing.verification.table_checks import is_same_version, without_geometry

Json = dict[str, Any]

Described = tuple[tuple[str, ...], tuple[str, ...]]

# Exceptions of reading files that a stranger wrote.
_READ_ERRORS = (
    OSError, pa.ArrowException, ValueError, TypeError, LookupError, ArithmeticError,
    RecursionError, MemoryError,
)  # fmt: skip
TABLE_FILES = ("cells.parquet", "cells.csv", "cells.geojson")
REQUIRED_FILES = frozenset(
    {"cells.parquet", "cells.csv", "manifest.json", "README.txt", "report.html"}
    | {*metadata_files.ALWAYS}
)
KNOWN_FILES = REQUIRED_FILES | {
    "cells.geojson", TILES, metadata_files.ITEM, receipt.NAME, signing.NAME, stored_day.FILE,
}  # fmt: skip
MAX_FILES = 100
MAX_PROBLEM_LENGTH = 300
"""Letters of a problem: names in it are a stranger's."""
TILES_UNREAD = f"the content of {TILES}: only its checksum was compared"
NOT_IN_FOLDER = (
    "whether noise was drawn as stated, and whether the holder's ledger has this release"
)


class Kind(NamedTuple):
    """Checks of a kind of release of one value column, in their order."""

    statements: Callable[[Json], Iterable[str]]
    types: Callable[[Json], dict[str, pa.DataType]]
    check_table: Callable[[pa.Table, Json], Iterator[str]]
    check_numbers: Callable[[pa.Table, Json], Iterator[str]]
    describe: Callable[[Json, pa.Table], Described]


_COUNTED = {"users": pa.int64(), "records": pa.int64()} | {
    name: pa.float64()
    for name in ALL_COLUMNS
    if name.startswith(("mean_", "variance_", "sd_")) and not name.endswith("_quality")
}
KINDS = {
    "moments": Kind(
        lambda _: (),
        lambda _: _COUNTED,
        moment_checks.check_moment_table,
        moment_checks.check_moments,
        moment_checks.describe_moments,
    ),
    distribution_manifest.KIND: Kind(
        distribution_checks.check_statements,
        lambda manifest: (
            _COUNTED | dict.fromkeys(distribution_checks.number_columns(manifest), pa.float64())
        ),
        distribution_checks.check_distribution_table,
        distribution_checks.check_distribution,
        lambda manifest, _: (
            distribution_checks.describe_distribution(manifest),
            distribution_checks.UNKNOWN,
        ),
    ),
    presence_manifest.MODEL: Kind(
        presence_checks.check_declared_statements,
        lambda manifest: (
            {OPEN: pa.bool_()}
            | dict.fromkeys(presence_checks.number_columns(manifest), pa.float64())
        ),
        presence_checks.check_presence_table,
        presence_checks.check_presence,
        lambda manifest, _: presence_checks.describe_presence(manifest),
    ),
}


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
    return read_folder(Path(folder), key=key).manifest


def read_folder(folder: Path, *, key: str | Path | None = None) -> FolderCheck:
    """Return the check of a folder without problems: its manifest, and table or columns."""
    check, issues = _examine(folder, key)
    if issues:
        raise InputError(f"{folder} is not as it was written: {' '.join(issues)}")
    return check


def find_problems(folder: Path, *, key: str | Path | None = None) -> tuple[str, ...]:
    """Return the problems of a release folder, a sentence each; InputError if there is none."""
    return _examine(folder, key)[1]


def check_folder(folder: Path, *, key: str | Path | None = None) -> FolderVerdict:
    """Check a release folder; see `find_problems`."""
    check, issues = _examine(folder, key)
    # Figures of a folder with problems would be nobody's statement.
    described = ((), ()) if issues else check.describe_losses()
    return FolderVerdict(issues, *described, signature=clean(check.signature))


def _examine(folder: Path, key: str | Path | None) -> tuple[FolderCheck, tuple[str, ...]]:
    """Return the check of a folder, with its problems."""
    check = FolderCheck(folder, None if key is None else signing.read_verification_key(key))
    return check, tuple(_shorten(check.find_problems()))


def _shorten(issues: list[str]) -> Iterator[str]:
    """Yield problems, made fit for a terminal: names are a stranger's, and may be many."""
    for issue in issues[:MAX_PROBLEMS]:
        # One letter can be hidden by many; a name's end says little.
        text = clean(issue[: 4 * MAX_PROBLEM_LENGTH])
        yield text if len(text) <= MAX_PROBLEM_LENGTH else f"{text[:MAX_PROBLEM_LENGTH]}..."
    if len(issues) > MAX_PROBLEMS:
        yield f"And {len(issues) - MAX_PROBLEMS} more."


class FolderCheck:
    """One check of a folder: each file is read once, the table only if it is unchanged.

    It has the manifest, the meaning of the signature, and the table as it was checked, or the
    checks of several value columns.
    """

    def __init__(self, folder: Path, key: signing.VerificationKey | None) -> None:
        self.folder, self._key = folder, key
        self.manifest: Json = {}
        self.table: pa.Table | None = None
        self.columns: dict[str, FolderCheck] = {}
        self.signature = NOT_SIGNED

    def find_problems(self) -> list[str]:
        """Return the problems, in words that may contain a stranger's names."""
        if not self.folder.is_dir():
            raise InputError(f"there is no folder {self.folder}; name a release folder.")
        # Not from the names: which of them come first depends on the file system.
        if not os.path.lexists(self.folder / "manifest.json"):
            raise InputError(
                f"{self.folder} has no manifest.json, so it is not a release; name another folder."
            )
        with os.scandir(self.folder) as entries:
            # One more than the limit suffices to refuse: a folder can have millions of files.
            names = {entry.name for entry in itertools.islice(entries, MAX_FILES + 1)}
        if len(names) > MAX_FILES:
            limit = len(KNOWN_FILES)
            return [f"the folder has more than {MAX_FILES} files; a release has {limit} at most."]
        self.manifest, error = read_json(self.folder / "manifest.json")
        tell_share(FOLDER_CHECK, 0.1)
        issues = [error] if error else [*self._check_manifest()]
        if issues:
            return issues
        tell_share(FOLDER_CHECK, 0.4)
        files, issues = self._files(names)
        if issues:
            return issues
        issues = [*files.compare_receipt(self.manifest), *files.check_signature()]
        self.signature = files.signature
        # A changed table is not read: what it would say is nobody's statement.
        if any(issue.startswith((*TABLE_FILES, receipt.NAME)) for issue in issues):
            return issues
        if self._has_columns:
            return issues or self._check_columns()
        return issues + self._check_contents()

    def describe_losses(self) -> Described:
        """Return the figures that were recomputed, and those that could not be."""
        if not self._has_columns:
            stated, unknown = self._kind.describe(self.manifest, self.table)
            return stated, (*unknown, *self._describe_unread(), NOT_IN_FOLDER)
        recomputed, missing = column_checks.describe_whole(self.manifest, self._manifests)
        for column, check in self.columns.items():
            figures, unchecked = check.describe_losses()
            recomputed += [f"{column}: {text}" for text in figures]
            missing += [text for text in unchecked if text not in missing]
        return tuple(recomputed), tuple(missing)

    def _describe_unread(self) -> Iterator[str]:
        """Yield the parts of files that were not compared, in words."""
        if (self.folder / TILES).exists():
            yield TILES_UNREAD
        if (self.folder / stored_day.FILE).exists():
            yield memory_checks.UNKNOWN
        if not is_same_version(self.manifest):
            yield "the words of README.txt, page and descriptions: another version wrote them"
        elif file_comparison.has_layer(self.folder):
            yield "the lines and names of the holder's own layer on the page"

    @property
    def _has_columns(self) -> bool:
        return bool(self.manifest.get("kind") == column_manifest.KIND)

    @property
    def _kind_name(self) -> str:
        """The kind of release: the privacy model decides first."""
        model, kind = (self.manifest.get(key) for key in ("model", "kind"))
        is_private = model == presence_manifest.MODEL
        if self._has_columns:
            return "presence columns" if is_private else "columns"
        if is_private:
            return presence_manifest.MODEL
        return kind if kind == distribution_manifest.KIND else "moments"

    @property
    def _kind(self) -> Kind:
        return KINDS[self._kind_name]

    @property
    def _folders(self) -> dict[str, str]:
        """Folder of each value column."""
        return {entry["column"]: entry["folder"] for entry in self.manifest.get("columns", ())}

    @property
    def _manifests(self) -> dict[str, Json]:
        return {column: check.manifest for column, check in self.columns.items()}

    def _check_manifest(self) -> Iterator[str]:
        """Yield the places where the manifest breaks its schema, then impossible statements."""
        issues = [*check_schema(self.manifest, schema(self._kind_name))]
        yield from issues
        # What the schema does not promise to be there is not looked at.
        if issues:
            return
        if self._has_columns:
            yield from column_checks.check_names(self.manifest)
        elif self.manifest.get("cells") == []:
            yield "manifest.json has no cells."
        else:
            yield from self._kind.statements(self.manifest)

    def _files(self, names: set[str]) -> tuple[CheckedFiles, list[str]]:
        """Return the files of the folder, and those that are no regular ones."""
        required, known_files, folders = REQUIRED_FILES, KNOWN_FILES, [*self._folders.values()]
        if self._has_columns:
            # In place of a column's folder stands its receipt, which has its files.
            receipts = {name: f"{name}/{receipt.NAME}" for name in folders}
            names = {receipts.get(name, name) for name in names}
            required = frozenset({*column_folder.FILES, *receipts.values()}) - {receipt.NAME}
            known_files = required | {receipt.NAME, signing.NAME, metadata_files.ITEM}
        files = CheckedFiles(self.folder, names, self._key, required=required, known=known_files)
        links = [f"{name} is a link." for name in folders if (self.folder / name).is_symlink()]
        return files, [*files.find_irregular(), *links]

    def _check_columns(self) -> list[str]:
        """Return the problems of the value columns, then of the whole."""
        issues: list[str] = []
        for column, name in self._folders.items():
            self.columns[column] = FolderCheck(self.folder / name, self._key)
            issues += [f"{name}: {issue}" for issue in self.columns[column].find_problems()]
            if self.columns[column].columns:
                issues.append(f"{name}: holds several value columns itself.")
        if issues:
            return issues
        tables = {column: without_geometry(check.table) for column, check in self.columns.items()}
        differences = column_checks.check_whole(self.folder, self.manifest, self._manifests, tables)
        return _until_error(differences, "the value columns cannot be compared.")

    def _check_contents(self) -> list[str]:
        """Return the differences of tables and statements from each other."""
        tell_share(FOLDER_CHECK, 0.45)
        try:
            table = self._read_table()
        except untrusted_files.ImplausibleError as error:
            return [f"cells.parquet {error}."]
        except _READ_ERRORS:
            return ["cells.parquet cannot be read."]
        differences = self._differences(table)
        return _until_error(differences, "the tables and manifest.json cannot be compared.")

    def _differences(self, table: pa.Table) -> Iterator[str]:
        """Yield the differences: of the table first, then of the files made of it."""
        issues = [*self._kind.check_table(table, self.manifest)]
        yield from issues
        if issues:
            return
        yield from self._kind.check_numbers(table, self.manifest)
        memory = self.folder / stored_day.FILE
        content = untrusted_files.read_content(memory) if os.path.lexists(memory) else None
        yield from memory_checks.check_memory(content, table, self.manifest)
        spelled = (file_comparison.compare_csv, file_comparison.compare_geojson)
        for share, compared in zip((0.5, 0.6), spelled, strict=True):
            tell_share(FOLDER_CHECK, share)
            try:
                yield from compared(self.folder, table)
            except _READ_ERRORS:
                yield f"cells.{compared.__name__.removeprefix('compare_')} cannot be read."
        tell_share(FOLDER_CHECK, 0.9)
        yield from file_comparison.compare_texts(self.folder, table, self.manifest)
        self.table = table

    def _read_table(self) -> pa.Table:
        texts, grid = (self.folder / "cells.csv").stat().st_size, self.manifest["grid"]
        types = self._kind.types(self.manifest)
        if not grid.get("columns"):
            types = types | {"lat": pa.float64(), "lon": pa.float64()}
        rows = grid["cells"] if "cells" in grid else len(self.manifest["cells"])
        return untrusted_files.read_table(self.folder / "cells.parquet", rows, texts, types)


def _until_error(problems: Iterable[str], sentence: str) -> list[str]:
    """Return problems as far as a stranger's numbers let them be found, or none and all is well."""
    issues: list[str] = []
    # Hostile numbers may be of any size.
    with contextlib.suppress(*_READ_ERRORS), np.errstate(all="ignore"):
        for problem in problems:
            issues.append(problem)  # noqa: PERF402  those before an error are kept
        return issues
    return [*issues, sentence]
