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
import math
import os
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from hexveil.accounting.gaussian_composition import added_epsilon, square_epsilon
from hexveil.publishing import signing
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.columns.column_description import (
    render_whole_metadata,
    statements_of_whole,
)
from hexveil.publishing.columns.column_folder import FILES, file_names
from hexveil.publishing.columns.column_manifest import KIND, columns_schema, together_section
from hexveil.publishing.columns.column_table import column_prefixes, join_columns
from hexveil.publishing.columns.column_texts import render_columns_readme
from hexveil.publishing.manifest import SCHEMA_VERSION, epsilon_text
from hexveil.publishing.presence.presence_manifest import MODEL as PRESENCE
from hexveil.publishing.receipt import NAME as RECEIPT
from hexveil.publishing.verification.files import file_comparison, untrusted_files
from hexveil.publishing.verification.files.checked_files import CheckedFiles, read_json
from hexveil.report.promise import (
    assumptions,
    neighbours,
    not_protected,
    one_of_columns,
    probability_factor,
    promise,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from hexveil.report.promise import Protect

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
            column: file_comparison.without_geometry(column_check.table)
            for column, column_check in self.columns.items()
            if column_check.table is not None
        }

    def describe_losses(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the figures that were recomputed, and those that could not be."""
        if _is_private(self.manifest):
            return self._describe_private_losses()
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
        return self._with_columns([total], [largest])

    def _describe_private_losses(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the same under private presence, where the loss of any unit is the exact sum."""
        guarantee = self.manifest["guarantee"]
        total = (
            f"loss of any {guarantee['privacy_unit']}, present or not, over all value columns: "
            f"{_sum_of_parts(self.columns, guarantee)} by the columns, "
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


def _is_private(manifest: Json) -> bool:
    """Return whether presence is private in a release."""
    return manifest.get("model") == PRESENCE


def _protected(manifest: Json) -> Protect:
    """Return the privacy model of a release."""
    return PRESENCE if _is_private(manifest) else "values"


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


def check_together(manifest: Json) -> Iterator[str]:
    """Yield if a column's manifest has another sentence on its release than its figures say."""
    stated, texts = manifest.get("columns_together"), manifest["guarantee"]["assumptions"]
    if stated is not None:
        spent, protect = Fraction(stated["epsilon_spent"]), _protected(manifest)
        delta = Fraction(manifest["guarantee"].get("delta", 0))
        sentence = one_of_columns(stated["columns"], spent, delta, protect=protect)
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
        issues = [*_check_columns(manifest, columns)]
        private = _is_private(manifest)
        issues += (_check_private_losses if private else _check_losses)(manifest, columns)
        tables = {
            column: file_comparison.as_released(column_check.table)
            for column, column_check in columns.items()
        }
        joined = join_columns(tables)
        issues += file_comparison.compare_csv(folder, joined)
        if file_comparison.is_same_version(manifest):
            text = render_columns_readme(
                manifest, [column_check.manifest for column_check in columns.values()]
            )
            if untrusted_files.read_content(folder / "README.txt") != text.encode():
                issues.append("README.txt is not what the manifests say.")
            issues += _compare_descriptions(folder, manifest, columns, joined)
        yield from issues
        return
    yield "the value columns cannot be compared."


def _compare_descriptions(
    folder: Path, manifest: Json, columns: Mapping[str, CheckedColumn], joined: pa.Table
) -> Iterator[str]:
    """Yield descriptions for portals that do not agree with the columns."""
    folders = [entry["folder"] for entry in manifest["columns"]]
    names = frozenset(path.name for path in folder.iterdir() if path.is_file())
    expected = render_whole_metadata(
        joined,
        statements_of_whole(manifest, [column_check.manifest for column_check in columns.values()]),
        names,
        {name: file_names(folder / name) for name in folders},
    )
    yield from file_comparison.compare_descriptions(folder, names, expected, "the columns say")


def _check_columns(manifest: Json, columns: Mapping[str, CheckedColumn]) -> Iterator[str]:
    """Yield columns that are not of this release, or other than it states."""
    together = together_section([*columns], Fraction(manifest["guarantee"]["epsilon_spent"]))
    for stated in manifest["columns"]:
        name, column_manifest = stated["column"], columns[stated["column"]].manifest
        guarantee = column_manifest["guarantee"]
        pairs = {
            "model": (column_manifest.get("model"), manifest.get("model")),
            "dataset": (column_manifest["dataset"]["name"], manifest["dataset"]["name"]),
            "value": (column_manifest["dataset"]["value"], name),
            "value_unit": (column_manifest["dataset"]["value_unit"], stated["value_unit"]),
            "request": (column_manifest["request"], manifest["request"]),
            "privacy_unit": (guarantee["privacy_unit"], manifest["guarantee"]["privacy_unit"]),
            "epsilon_spent": (guarantee["epsilon_spent"], stated["epsilon"]),
            "statistics": (column_manifest["plan"]["statistics"], manifest["statistics"]),
            "delta": (guarantee.get("delta"), manifest["guarantee"].get("delta")),
            "columns_together": (column_manifest.get("columns_together"), together),
        }
        if not _is_private(manifest) and not _is_private(column_manifest):
            pairs |= _counted_pairs(manifest, stated, column_manifest)
        elif _is_private(manifest) and _is_private(column_manifest):
            pairs |= _declared_pairs(manifest, stated, column_manifest)
        for field, (actual, expected) in pairs.items():
            if actual != expected:
                yield f"{stated['folder']}: {field} is not that of the release of all columns."


def _counted_pairs(
    manifest: Json, stated: Json, column_manifest: Json
) -> dict[str, tuple[Any, Any]]:
    """Return what must agree where occupancy is public: counts, and what was booked."""
    ledger = manifest["ledger"] if column_manifest["losses"]["max"] > 0 else None
    # Of means and variances alone: parts of distributions have an ε each.
    request = column_manifest["plan"].get("request", {})
    return {
        "targets": (request.get("targets") or [], stated.get("targets", [])),
        "ledger": (column_manifest["ledger"], ledger),
        "users": (column_manifest["losses"]["units"], stated["users"]),
        "cells": (len(column_manifest["cells"]), stated["cells"]),
    }


def _declared_pairs(
    manifest: Json, stated: Json, column_manifest: Json
) -> dict[str, tuple[Any, Any]]:
    """Return what must agree under private presence: declarations, and what was booked."""
    return {
        "ledger": (column_manifest["ledger"], manifest["ledger"]),
        "cells": (column_manifest["grid"]["cells"], stated["cells"]),
    }


def _check_private_losses(manifest: Json, columns: Mapping[str, CheckedColumn]) -> Iterator[str]:
    """Yield if the loss of any unit is not the sum of its losses in all columns."""
    guarantee = manifest["guarantee"]
    spent = Fraction(guarantee["epsilon_spent"])
    if guarantee["epsilon_spent"] != _sum_of_parts(columns, guarantee):
        yield "epsilon_spent is not the sum of the losses of the columns."
    yield from _check_words(manifest, columns, spent)


def _sum_of_parts(columns: Mapping[str, CheckedColumn], guarantee: Json) -> str:
    """Return the text of the loss of any unit that the losses of the columns make together."""
    manifests = (column_check.manifest for column_check in columns.values())
    stated = [Fraction(manifest["guarantee"]["epsilon_spent"]) for manifest in manifests]
    delta = Fraction(guarantee.get("delta", 0))
    return epsilon_text(added_epsilon(stated, delta) if delta else sum(stated, Fraction(0)))


def _check_losses(manifest: Json, columns: Mapping[str, CheckedColumn]) -> Iterator[str]:
    """Yield losses of the whole that those of the columns exclude."""
    losses, guarantee = manifest["losses"], manifest["guarantee"]
    units = [column_check.manifest["losses"]["units"] for column_check in columns.values()]
    delta = Fraction(guarantee.get("delta", 0))
    added, name = added_losses(manifest), "squared_mu" if delta else "losses"
    largest = [added_losses(column_check.manifest)["max"] for column_check in columns.values()]
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
    yield from _check_words(manifest, columns, spent)


def _check_words(
    manifest: Json, columns: Mapping[str, CheckedColumn], spent: Fraction
) -> Iterator[str]:
    """Yield statements of the whole that are not those of its model and loss."""
    guarantee, protect = manifest["guarantee"], _protected(manifest)
    if spent > Fraction(guarantee["epsilon_requested"]) + Fraction(1, 10**11):
        yield "more was spent than asked for."
    unit, factor = guarantee["privacy_unit"], probability_factor(spent)
    delta = Fraction(guarantee.get("delta", 0))
    words = promise(unit, spent, protect=protect, delta=delta), neighbours(unit, protect=protect)
    if (guarantee["promise"], guarantee["neighbours"]) != words:
        yield "guarantee/promise or guarantee/neighbours is not that of this loss."
    stated = guarantee["probability_factor"]
    if (stated is None) == math.isfinite(factor) or (
        stated is not None and not math.isclose(stated, factor, rel_tol=TOLERANCE)
    ):
        yield "guarantee/probability_factor is not e to the power of epsilon_spent."
    leading = next(iter(columns.values())).manifest
    dropped = leading["selection"].get("drop_values", "none")
    if guarantee["assumptions"] != assumptions(unit, dropped, protect=protect, delta=delta):
        yield "guarantee/assumptions are not those of this model."
    if guarantee["not_protected"] != not_protected(protect=protect):
        yield "guarantee/not_protected is not that of this model."


def _total(columns: Any) -> float:  # noqa: ANN401  checks of columns
    """Return the sum of what all units lose in all columns: ε, or squares of μ under a δ."""
    return math.fsum(
        column_check.manifest["losses"]["units"] * added_losses(column_check.manifest)["mean"]
        for column_check in columns
    )


def added_losses(manifest: Json) -> Json:
    """Return the figures of a manifest's losses that add up: squares of μ under a δ."""
    losses: Json = manifest["losses"]
    return losses["squared_mu"] if "delta" in manifest["guarantee"] else losses
