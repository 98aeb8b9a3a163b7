"""Verification of a folder of several value columns: each one's folder, and that they are a whole.

Checked beyond what is checked of each column: that no column is missing or added; that manifest,
receipt and signature of the whole are of these columns; that all were released by one request under
one booking; that the losses of the whole are those of the columns together, as far as these
determine them (under private presence exactly: any unit loses their sum); and that cells.csv,
README.txt and the descriptions for portals are what the columns give.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from hexveil.publishing import signing
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.columns.column_description import (
    render_whole_metadata,
    statements_of_whole,
)
from hexveil.publishing.columns.column_folder import FILES, file_names, render_columns_page
from hexveil.publishing.columns.column_manifest import KIND, columns_schema
from hexveil.publishing.columns.column_table import column_prefixes, join_columns
from hexveil.publishing.columns.column_texts import render_columns_readme
from hexveil.publishing.manifest import SCHEMA_VERSION
from hexveil.publishing.receipt import NAME as RECEIPT
from hexveil.publishing.verification.columns.column_totals import (
    added_losses,
    check_columns,
    check_losses,
    is_private,
    sum_of_parts,
    total_loss,
)
from hexveil.publishing.verification.files import file_comparison, untrusted_files
from hexveil.publishing.verification.files.checked_files import CheckedFiles, read_json
from hexveil.publishing.verification.files.page_comparison import compare_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    Json = dict[str, Any]

MAX_NAMES = 100
_READ_ERRORS = (
    OSError, pa.ArrowException, ValueError, TypeError, LookupError, ArithmeticError,
    RecursionError, MemoryError,
)  # fmt: skip


class CheckedColumn(Protocol):
    """The check of the folder of one value column."""

    manifest: Json
    table: pa.Table | None

    def describe_losses(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the figures that were recomputed, and those that could not be."""


@dataclass(frozen=True, eq=False)
class ColumnsCheck:
    """The check of a folder of several value columns.

    Attributes
    ----------
    manifest : dict
        Of the whole.
    columns : mapping of str to CheckedColumn
    issues : tuple of str
        Its problems, in words that may contain a stranger's names.
    signature : str
    """

    manifest: Json
    columns: Mapping[str, CheckedColumn]
    issues: tuple[str, ...]
    signature: str

    @property
    def manifests(self) -> dict[str, Json]:
        """Manifest of each column."""
        return {column: column_check.manifest for column, column_check in self.columns.items()}

    @property
    def tables(self) -> dict[str, pa.Table]:
        """Table of each column, as it was checked."""
        return {
            column: file_comparison.without_geometry(column_check.table)
            for column, column_check in self.columns.items()
            if column_check.table is not None
        }

    def describe_losses(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the figures that were recomputed, and those that could not be."""
        if is_private(self.manifest):
            return self._describe_private_losses()
        losses, added = self.manifest["losses"], added_losses(self.manifest)
        kind = "losses" if added is losses else "squares of mu"
        total = (
            f"sum of the {kind} of {losses['units']:,} units over all value columns: "
            f"{total_loss(self.manifests):.6g} by the columns, "
            f"{losses['units'] * added['mean']:.6g} as stated"
        )
        largest = (
            "the largest loss over all value columns: it lies between the largest of a column and "
            "the sum of these"
        )
        return self._with_columns([total], [largest])

    def _describe_private_losses(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the same under private presence, where the loss of any unit is the exact sum."""
        guarantee = self.manifest["guarantee"]
        total = (
            f"loss of any {guarantee['privacy_unit']}, present or not, over all value columns: "
            f"{sum_of_parts(self.manifests, guarantee)} by the columns, "
            f"{guarantee['epsilon_spent']} as stated"
        )
        return self._with_columns([total], [])

    def _with_columns(
        self, known: list[str], unknown: list[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return figures of the whole, followed by those of each column."""
        for column, column_check in self.columns.items():
            recomputed, unchecked = column_check.describe_losses()
            known += [f"{column}: {text}" for text in recomputed]
            unknown += [text for text in unchecked if text not in unknown]
        return tuple(known), tuple(unknown)


def has_columns(folder: Path) -> bool:
    """Return whether a folder states that it holds several value columns."""
    content, error = read_json(folder / "manifest.json")
    return not error and content.get("kind") == KIND


def examine_columns(
    folder: Path,
    key: signing.VerificationKey | None,
    examine: Callable[[Path], tuple[CheckedColumn | None, tuple[str, ...]]],
) -> ColumnsCheck:
    """Return the check of a folder that states that it holds several value columns.

    Parameters
    ----------
    folder : Path
    key : VerificationKey or None
        The holder's public key.
    examine : callable
        Checks the folder of one column: the check, and its problems.
    """
    manifest, error = read_json(folder / "manifest.json")
    issues = [error] if error else [*_check_schema(manifest)]
    if issues:
        return ColumnsCheck(manifest, {}, tuple(issues), "")
    folders = {entry["column"]: entry["folder"] for entry in manifest["columns"]}
    files = _checked_files(folder, key, [*folders.values()])
    issues = [
        *files.find_irregular(),
        *(f"{name} is a link." for name in folders.values() if (folder / name).is_symlink()),
    ]
    if not issues:
        issues = [*files.compare_receipt(manifest), *files.check_signature()]
    columns: dict[str, CheckedColumn] = {}
    if not issues:
        for column, name in folders.items():
            check, problems = examine(folder / name)
            issues += [f"{name}: {problem}" for problem in problems]
            if check is not None:
                columns[column] = check
    if not issues:
        issues = [*_check_whole(folder, manifest, columns)]
    return ColumnsCheck(manifest, columns, tuple(issues), files.signature)


def _check_schema(manifest: Json) -> Iterator[str]:
    """Yield the places where the manifest of the whole breaks its schema."""
    if manifest.get("schema_version") != SCHEMA_VERSION:
        yield (
            f"manifest.json has another schema version than {SCHEMA_VERSION}, which this program "
            "reads; use the version of hexveil that it names."
        )
        return
    from jsonschema import Draft202012Validator  # noqa: PLC0415  only checking needs it

    schema = columns_schema(manifest.get("model"))
    errors = Draft202012Validator(schema).iter_errors(manifest)
    for error in itertools.islice(errors, 10):
        place = "/".join(map(str, error.absolute_path)) or "its top"
        yield f"manifest.json breaks its schema at {place} ({error.validator})."
        return
    names = [entry["column"] for entry in manifest["columns"]]
    folders = [entry["folder"] for entry in manifest["columns"]]
    if len(set(names)) < len(names) or [*column_prefixes(names).values()] != folders:
        yield "manifest.json names a value column twice, or its folder wrongly."


def _checked_files(
    folder: Path, key: signing.VerificationKey | None, folders: list[str]
) -> CheckedFiles:
    """Return the files of the whole, with the receipt of each column's folder."""
    with os.scandir(folder) as entries:
        names = {entry.name for entry in itertools.islice(entries, MAX_NAMES + 1)}
    receipts = {name: f"{name}/{RECEIPT}" for name in folders}
    present = {receipts.get(name, name) for name in names}
    required = frozenset({*FILES, *receipts.values()})
    known = required | {signing.NAME, metadata_files.ITEM}
    return CheckedFiles(folder, present, key, required=required - {RECEIPT}, known=known)


def _check_whole(
    folder: Path, manifest: Json, columns: Mapping[str, CheckedColumn]
) -> Iterator[str]:
    """Yield where the columns are no whole, or not the one that is stated."""
    with contextlib.suppress(*_READ_ERRORS):
        manifests = {name: column_check.manifest for name, column_check in columns.items()}
        issues = [*check_columns(manifest, manifests), *check_losses(manifest, manifests)]
        tables = {
            column: file_comparison.as_released(column_check.table)
            for column, column_check in columns.items()
        }
        joined = join_columns(tables)
        issues += file_comparison.compare_csv(folder, joined)
        if file_comparison.is_same_version(manifest):
            text = render_columns_readme(joined, manifest, [*manifests.values()])
            if untrusted_files.read_content(folder / "README.txt") != text.encode():
                issues.append("README.txt is not what the manifests say.")
            issues += _compare_descriptions(folder, manifest, columns, joined)
        yield from issues
        return
    yield "the value columns cannot be compared."


def _compare_descriptions(
    folder: Path, manifest: Json, columns: Mapping[str, CheckedColumn], joined: pa.Table
) -> Iterator[str]:
    """Yield if page and descriptions for portals do not agree with the columns."""
    folders = [entry["folder"] for entry in manifest["columns"]]
    names = frozenset(path.name for path in folder.iterdir()) & untrusted_files.LIMITS.keys()
    statements = statements_of_whole(manifest, [check.manifest for check in columns.values()])
    files = {name: file_names(folder / name) for name in folders}
    expected = render_whole_metadata(joined, statements, names, files)
    yield from file_comparison.compare_descriptions(folder, names, expected, "the columns say")
    descriptions = {
        name: (file_comparison.as_released(check.table), check.manifest)
        for name, check in zip(folders, columns.values(), strict=True)
        if check.table is not None
    }
    page = partial(render_columns_page, joined, statements, descriptions, expected, names)
    yield from compare_page(folder, page)
