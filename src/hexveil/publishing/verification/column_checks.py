"""Verification of a folder of several value columns: each one's folder, and that they are a whole.

Checked beyond what is checked of each column: that no column is missing or added; that manifest,
receipt and signature of the whole are of these columns; that all were released by one request under
one booking; that the losses of the whole are those of the columns together, as far as these
determine them; and that cells.csv and README.txt are what the columns give.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.publishing import signing
from hexveil.publishing.columns.column_folder import FILES
from hexveil.publishing.columns.column_manifest import KIND, columns_schema, together_section
from hexveil.publishing.columns.column_table import column_prefixes, join_columns
from hexveil.publishing.columns.column_texts import render_columns_readme
from hexveil.publishing.manifest import SCHEMA_VERSION, epsilon_text
from hexveil.publishing.receipt import NAME as RECEIPT
from hexveil.publishing.verification.files import file_comparison, untrusted_files
from hexveil.publishing.verification.files.checked_files import CheckedFiles, read_json
from hexveil.report.promise import (
    assumptions,
    neighbours,
    one_of_columns,
    probability_factor,
    promise,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    Json = dict[str, Any]

MAX_NAMES = 100
TOLERANCE = 1e-9
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
    def tables(self) -> dict[str, pa.Table]:
        """Table of each column, as it was checked."""
        return {
            column: file_comparison.without_geometry(one.table)
            for column, one in self.columns.items()
            if one.table is not None
        }

    def describe_losses(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the figures that were recomputed, and those that could not be."""
        losses, added = self.manifest["losses"], added_losses(self.manifest)
        kind = "losses" if added is losses else "squares of mu"
        total = (
            f"sum of the {kind} of {losses['units']:,} units over all value columns: "
            f"{_total(self.columns.values()):.6g} by the columns, "
            f"{losses['units'] * added['mean']:.6g} as stated"
        )
        largest = (
            "the largest loss over all value columns: it lies between the largest of a column and "
            "the sum of these"
        )
        known, unknown = [total], [largest]
        for column, one in self.columns.items():
            recomputed, left = one.describe_losses()
            known += [f"{column}: {text}" for text in recomputed]
            unknown += [text for text in left if text not in unknown]
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
    folders = {one["column"]: one["folder"] for one in manifest["columns"]}
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


def check_together(manifest: Json) -> Iterator[str]:
    """Yield if a column's manifest has another sentence on its release than its figures say."""
    stated, texts = manifest.get("columns_together"), manifest["guarantee"]["assumptions"]
    if stated is not None:
        delta = Fraction(manifest["guarantee"].get("delta", 0))
        sentence = one_of_columns(stated["columns"], Fraction(stated["epsilon_spent"]), delta)
        if not texts or texts[-1] != sentence:
            yield "guarantee/assumptions does not end with the sentence on all value columns."


def _check_schema(manifest: Json) -> Iterator[str]:
    """Yield the places where the manifest of the whole breaks its schema."""
    if manifest.get("schema_version") != SCHEMA_VERSION:
        yield (
            f"manifest.json has another schema version than {SCHEMA_VERSION}, which this program "
            "reads; use the version of hexveil that it names."
        )
        return
    from jsonschema import Draft202012Validator  # noqa: PLC0415  only checking needs it

    errors = Draft202012Validator(columns_schema()).iter_errors(manifest)
    for error in itertools.islice(errors, 10):
        place = "/".join(map(str, error.absolute_path)) or "its top"
        yield f"manifest.json breaks its schema at {place} ({error.validator})."
        return
    names = [one["column"] for one in manifest["columns"]]
    folders = [one["folder"] for one in manifest["columns"]]
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
    known = required | {signing.NAME}
    return CheckedFiles(folder, present, key, required=required - {RECEIPT}, known=known)


def _check_whole(
    folder: Path, manifest: Json, columns: Mapping[str, CheckedColumn]
) -> Iterator[str]:
    """Yield where the columns are no whole, or not the one that is stated."""
    with contextlib.suppress(*_READ_ERRORS):
        issues = [*_check_columns(manifest, columns)]
        issues += _check_losses(manifest, columns)
        tables = {
            column: file_comparison.without_geometry(one.table) for column, one in columns.items()
        }
        issues += file_comparison.compare_csv(folder, join_columns(tables))
        if file_comparison.is_same_version(manifest):
            text = render_columns_readme(manifest, [one.manifest for one in columns.values()])
            if untrusted_files.read_content(folder / "README.txt") != text.encode():
                issues.append("README.txt is not what the manifests say.")
        yield from issues
        return
    yield "the value columns cannot be compared."


def _check_columns(manifest: Json, columns: Mapping[str, CheckedColumn]) -> Iterator[str]:
    """Yield columns that are not of this release, or other than it states."""
    together = together_section([*columns], Fraction(manifest["guarantee"]["epsilon_spent"]))
    for stated in manifest["columns"]:
        name, own = stated["column"], columns[stated["column"]].manifest
        spent, guarantee = own["losses"]["max"] > 0, own["guarantee"]
        pairs = {
            "dataset": (own["dataset"]["name"], manifest["dataset"]["name"]),
            "value": (own["dataset"]["value"], name),
            "value_unit": (own["dataset"]["value_unit"], stated["value_unit"]),
            "request": (own["request"], manifest["request"]),
            "ledger": (own["ledger"], manifest["ledger"] if spent else None),
            "privacy_unit": (guarantee["privacy_unit"], manifest["guarantee"]["privacy_unit"]),
            "epsilon_spent": (guarantee["epsilon_spent"], stated["epsilon"]),
            "statistics": (own["plan"]["statistics"], manifest["statistics"]),
            "users": (own["losses"]["units"], stated["users"]),
            "cells": (len(own["cells"]), stated["cells"]),
            "delta": (guarantee.get("delta"), manifest["guarantee"].get("delta")),
            "columns_together": (own.get("columns_together"), together),
        }
        for field, (one, other) in pairs.items():
            if one != other:
                yield f"{stated['folder']}: {field} is not that of the release of all columns."


def _check_losses(manifest: Json, columns: Mapping[str, CheckedColumn]) -> Iterator[str]:
    """Yield losses of the whole that those of the columns exclude."""
    losses, guarantee = manifest["losses"], manifest["guarantee"]
    units = [one.manifest["losses"]["units"] for one in columns.values()]
    delta = Fraction(guarantee.get("delta", 0))
    added, name = added_losses(manifest), "squared_mu" if delta else "losses"
    largest = [added_losses(one.manifest)["max"] for one in columns.values()]
    room = 1.0 + TOLERANCE
    if not max(largest) <= added["max"] * room or not added["max"] <= sum(largest) * room:
        yield f"{name}/max is not between the largest of a column and the sum of these."
    if delta and not math.isclose(
        square_epsilon(Fraction(added["max"]), delta), losses["max"], rel_tol=TOLERANCE
    ):
        yield "the largest loss is not that of the largest square of mu at this delta."
    if not max(units) <= losses["units"] <= sum(units):
        yield "losses/units is not between the units of a column and the sum of these."
    if not math.isclose(
        losses["units"] * added["mean"], _total(columns.values()), rel_tol=1e-6, abs_tol=1e-12
    ):
        yield f"{name}/mean is not that of all columns."
    spent = Fraction(guarantee["epsilon_spent"])
    if guarantee["epsilon_spent"] != epsilon_text(Fraction(losses["max"])):
        yield "epsilon_spent is not the largest loss, rounded up."
    if spent > Fraction(guarantee["epsilon_requested"]) + Fraction(1, 10**11):
        yield "more was spent than asked for."
    unit, factor = guarantee["privacy_unit"], probability_factor(spent)
    stated_promise = promise(unit, spent, delta=delta)
    if guarantee["promise"] != stated_promise or guarantee["neighbours"] != neighbours(unit):
        yield "guarantee/promise or guarantee/neighbours is not that of this loss."
    stated = guarantee["probability_factor"]
    if (stated is None) == math.isfinite(factor) or (
        stated is not None and not math.isclose(stated, factor, rel_tol=TOLERANCE)
    ):
        yield "guarantee/probability_factor is not e to the power of epsilon_spent."
    leading = next(iter(columns.values())).manifest
    dropped = leading["selection"].get("drop_values", "none")
    if guarantee["assumptions"] != assumptions(unit, dropped, delta=delta):
        yield "guarantee/assumptions are not those of this model."


def _total(columns: Any) -> float:  # noqa: ANN401  checks of columns
    """Return the sum of what all units lose in all columns: ε, or squares of μ under a δ."""
    return math.fsum(
        one.manifest["losses"]["units"] * added_losses(one.manifest)["mean"] for one in columns
    )


def added_losses(manifest: Json) -> Json:
    """Return the figures of a manifest's losses that add up: squares of μ under a δ."""
    losses: Json = manifest["losses"]
    return losses["squared_mu"] if "delta" in manifest["guarantee"] else losses
