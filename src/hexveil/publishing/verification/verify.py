"""Verification of a release folder from the folder alone, for those who receive one.

In this order: limits of files (untrusted_files.py), the manifest by its schema, the receipt, the
holder's signature (signing.py); then the table, and of each component what its kind recomputes
(part_kinds.py); then what they state together, and every file that is made of table and manifest,
written again and compared (file_comparison.py). Folders of schema version 4 are
read as of this one.
Not checked, because a folder cannot show it: that the noise was drawn, and that the ledger has the
release (its holder can check the receipt's chain hash).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.publishing import components, receipt, signing
from hexveil.publishing.kinds.distribution_checks import check_remembered
from hexveil.publishing.kinds.presence_checks import check_bins
from hexveil.publishing.manifest import FORMER, as_current
from hexveil.publishing.markup import clean
from hexveil.publishing.memory import stored_day
from hexveil.publishing.part_kinds import kind_of, own_columns, split_by_column
from hexveil.publishing.published_numbers import Release
from hexveil.publishing.verification import file_comparison, untrusted_files

Json = dict[str, Any]

TABLE_FILES = ("cells.parquet", "cells.csv", "cells.geojson")
MAX_FILES = 100
MAX_PROBLEM_LENGTH = 300
"""Letters of a problem: names in it are a stranger's."""
RECOMPUTED = (
    "the privacy losses that follow from noise scales, ranges, counts and weights",
    "the intervals, grades and errors that follow from noisy numbers",
)
UNKNOWN = (
    "the loss of a single vehicle, because the folder does not say which vehicle reported where",
    "what follows from the vehicles' own weights",
    "whether noise was drawn as stated, and whether the holder's ledger has this release",
)
"""What a folder lets anybody recompute, and what it does not."""


@dataclass(frozen=True)
class FolderVerdict:
    """Result of checking a folder.

    Attributes
    ----------
    problems : tuple of str
        Its problems, a sentence each.
    recomputed : tuple of str
        What was computed anew from the folder, and agrees.
    unknown : tuple of str
        What could not be.
    signature : str
        Meaning of its signature, or that it has none.
    """

    problems: tuple[str, ...]
    recomputed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    signature: str = untrusted_files.NOT_SIGNED


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


def load(folder: str | Path, *, key: str | Path | None = None) -> Release:
    """Return the release in a folder, if the folder is as it was written.

    No ledger and no records are needed, and nothing is spent. The folder may come from anybody:
    it is checked as by `hv.verify`, and its table is the one that was checked. Without `key` it
    does not show who made it.

    Parameters
    ----------
    folder : str or Path
        As `Release.write` or `hexveil release` wrote it.
    key : str or Path, optional
        File of the holder's public key: then the folder must be signed with it.

    Returns
    -------
    Release
        With `replayed` true: its numbers are those of an earlier release.

    Raises
    ------
    InputError
        If there is no release in the folder, or if a file, a number, a statement or the signature
        is not as it was written; the message names each. Also if the key cannot be read.
    """
    check = read_folder(Path(folder), key=key)
    manifest = check.manifest
    memory = None
    if (stated := stored_day.memory_of(manifest)) is not None:
        content = (check.folder / stored_day.FILE).read_bytes()
        memory = stored_day.from_bytes(content, check.released.num_rows, stated)
    return Release(
        check.released, manifest, components.epsilon_spent(manifest), replayed=True, memory=memory
    )


def read_folder(folder: Path, *, key: str | Path | None = None) -> FolderCheck:
    """Return the check of a folder without problems: its manifest and table."""
    check = FolderCheck(folder, key)
    if check.problems:
        raise InputError(f"{folder} is not as it was written: {' '.join(check.problems)}")
    return check


def find_problems(folder: Path, *, key: str | Path | None = None) -> tuple[str, ...]:
    """Return the problems of a release folder, a sentence each; InputError if there is none."""
    return FolderCheck(folder, key).problems


def check_folder(folder: Path, *, key: str | Path | None = None) -> FolderVerdict:
    """Check a release folder; see `find_problems`."""
    check = FolderCheck(folder, key)
    # Figures of a folder with problems would be nobody's statement.
    if check.problems:
        return FolderVerdict(check.problems, signature=clean(check.signature))
    unknown = (*UNKNOWN, *check.describe_unread())
    return FolderVerdict((), RECOMPUTED, unknown, clean(check.signature))


def _shorten(issues: list[str]) -> Iterator[str]:
    """Yield problems, made fit for a terminal: names are a stranger's, and may be many."""
    for issue in issues[: untrusted_files.MAX_PROBLEMS]:
        # One letter can be hidden by many; a name's end says little.
        text = clean(issue[: 4 * MAX_PROBLEM_LENGTH])
        yield text if len(text) <= MAX_PROBLEM_LENGTH else f"{text[:MAX_PROBLEM_LENGTH]}..."
    if len(issues) > untrusted_files.MAX_PROBLEMS:
        yield f"And {len(issues) - untrusted_files.MAX_PROBLEMS} more."


class FolderCheck:
    """One check of a folder: each file is read once, the table only if it is unchanged.

    Attributes
    ----------
    manifest : dict
    table : pyarrow.Table
        As it was checked, with outlines.
    signature : str
        Its meaning, in words.
    """

    def __init__(self, folder: Path, key: str | Path | None) -> None:
        self.folder = folder
        self.key = None if key is None else signing.read_verification_key(key)
        self.manifest: Json = {}
        self.table: pa.Table = pa.table({})
        self.signature = untrusted_files.NOT_SIGNED
        self.stated: dict[str, Json] = {}
        self.whole: Json = {}
        self.tables: dict[str, pa.Table] = {}

    @property
    def released(self) -> pa.Table:
        """The table as it was released."""
        return file_comparison.as_released(self.table)

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """Its problems, in words that fit a terminal."""
        return tuple(_shorten(self._find_problems()))

    def _find_problems(self) -> list[str]:  # noqa: PLR0911  a step each
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
            limit = len(untrusted_files.KNOWN_FILES)
            return [f"the folder has more than {MAX_FILES} files; a release has {limit} at most."]
        self.manifest, error = untrusted_files.read_json(self.folder / "manifest.json")
        if error:
            return [error]
        if self.manifest.get("schema_version") == FORMER:
            if self.manifest.get("kind") == "columns":
                return ["an earlier version wrote a folder for each value column; check these."]
            self.manifest = as_current(self.manifest)
        if issues := self._check_manifest():
            return issues
        files = untrusted_files.CheckedFiles(self.folder, names, self.key)
        if issues := [*files.find_irregular()]:
            return issues
        issues = [*files.compare_receipt(self.manifest), *files.check_signature()]
        self.signature = files.signature
        # A changed table is not read: what it would say is nobody's statement.
        if any(issue.startswith((*TABLE_FILES, receipt.NAME)) for issue in issues):
            return issues
        return issues + self._check_contents()

    def _check_manifest(self) -> list[str]:
        """Return the places where the manifest breaks its schema, else impossible statements."""
        # What the schema does not promise to be there is not looked at.
        issues = [*untrusted_files.check_schema(self.manifest)]
        issues = issues or [*file_comparison.check_together(self.manifest)]
        if not issues:
            self.stated = components.statements(self.manifest)
            self.whole = components.statements_of_whole(self.manifest)
        for own in self.stated.values():
            issues += file_comparison.until_error(
                kind_of(own).check_statements(own), "manifest.json has a plan that no release has."
            )
        return issues

    def describe_unread(self) -> Iterator[str]:
        """Yield the parts of files that were not compared, in words."""
        if (memory := stored_day.memory_of(self.manifest)) is not None:
            yield stored_day.describe_unchecked(memory)
        if not file_comparison.is_same_version(self.manifest):
            yield "the words of README.txt, promise, page, descriptions: another version wrote them"
        elif file_comparison.has_layer(self.folder):
            yield "the lines and names of the holder's own layer on the page"

    def _check_contents(self) -> list[str]:
        """Return the differences of tables and statements from each other."""
        try:
            table = self._read_table()
        except untrusted_files.ImplausibleError as error:
            return [f"cells.parquet {error}."]
        except file_comparison.READ_ERRORS:
            return ["cells.parquet cannot be read."]
        return file_comparison.until_error(
            self._differences(table), "the tables and manifest.json cannot be compared."
        )

    def _differences(self, table: pa.Table) -> Iterator[str]:
        """Yield the differences: of the table first, then of the files made of it."""
        issues = [*self._check_table(table)]
        yield from issues
        if issues:
            return
        for column, own in self.stated.items():
            for problem in kind_of(own).recompute(self.tables[column], own):
                yield f"{column}: {problem}" if len(self.stated) > 1 else problem
        yield from file_comparison.check_whole(self.manifest, self.stated)
        memory = self.folder / stored_day.FILE
        content = untrusted_files.read_content(memory) if os.path.lexists(memory) else None
        issues = [*stored_day.check_memory(content, table, self.whole)]
        if content is not None and stored_day.has_scores(self.whole) and not issues:
            check = check_bins if "bins" in self.whole["memory"] else check_remembered
            issues = [*check(content, table, self.whole)]
        yield from issues
        for compared in (file_comparison.compare_csv, file_comparison.compare_geojson):
            try:
                yield from compared(self.folder, table)
            except file_comparison.READ_ERRORS:
                yield f"cells.{compared.__name__.removeprefix('compare_')} cannot be read."
        yield from file_comparison.compare_texts(self.folder, table, self.manifest)

    def _check_table(self, table: pa.Table) -> Iterator[str]:
        """Yield columns and cells that are not as stated; keep the table of each column."""
        issues = [*file_comparison.check_columns(table, self.manifest["grid"], [*self._types()])]
        if issues:
            yield from issues
            return
        self.table = table
        try:
            self.tables = split_by_column(table, self.stated)
        except KeyError:
            yield "cells.parquet does not have the cells of manifest.json."
            return
        for column, own in self.stated.items():
            issues += kind_of(own).check_cells(self.tables[column], own)
        if not issues and len(self.stated) > 1:
            bare, *parts = map(file_comparison.without_geometry, (table, *self.tables.values()))
            tables = dict(zip(self.tables, parts, strict=True))
            joined = components.join_tables(tables, own_columns(self.stated))
            if joined.select(bare.column_names) != bare:
                issues.append("cells.parquet has a number of a cell that a value column has not.")
        yield from issues or file_comparison.check_places(table, self.whole)

    def _types(self) -> dict[str, pa.DataType]:
        """Return the types of the columns that the components state."""
        prefixes = components.column_prefixes([*self.stated])
        several = len(self.stated) > 1
        return {
            f"{prefixes[column]}_{name}" if several else name: kind
            for column, own in self.stated.items()
            for name, kind in kind_of(own).columns(own).items()
        }

    def _read_table(self) -> pa.Table:
        texts, grid = (self.folder / "cells.csv").stat().st_size, self.manifest["grid"]
        types, parts = self._types(), self.manifest["components"]
        if not grid.get("columns"):
            types |= {"lat": pa.float64(), "lon": pa.float64()}
        named = [cell["cell"] for own in parts for cell in own.get("cells", ())]
        rows = grid.get("cells") or len(set(named) if len(parts) > 1 else named)
        return untrusted_files.read_table(self.folder / "cells.parquet", rows, texts, types)
