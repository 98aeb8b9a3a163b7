"""Folders of schema version 4: their manifest as one of today, checked as any other.

A manifest of that version stated one value column, with a kind or a privacy model at its top. A
release of several had a folder of each, and joint statements and one cells.csv at the top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.publishing import receipt, signing
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.components import statements
from hexveil.publishing.manifest import SCHEMA_VERSION
from hexveil.publishing.part_kinds import own_columns
from hexveil.publishing.value_columns import column_prefixes, join_tables
from hexveil.publishing.verification import file_comparison
from hexveil.publishing.verification.checked_files import CheckedFiles

if TYPE_CHECKING:
    from hexveil.publishing.verification.verify import FolderCheck

    Json = dict[str, Any]

FORMER = 4
SHARED = (
    *("software", "grid", "title", "subtitle", "catalogue", "columns_together", "request"),
    "ledger",
)
_FILES = frozenset({"README.txt", "cells.csv", "manifest.json", "report.html"})
MAX_COLUMNS = 50


def is_former(manifest: Json) -> bool:
    """Return whether a manifest is of that version."""
    return manifest.get("schema_version") == FORMER


def has_columns(manifest: Json) -> bool:
    """Return whether it is that of several value columns."""
    return manifest.get("kind") == "columns"


def as_current(former: Json) -> Json:
    """Return the manifest of one value column as one of today; what it lacks the schema refuses."""
    stated = dict(former)
    private = stated.pop("model", None) == "presence"
    kind = stated.pop("kind", "presence" if private else "moments")
    shared = {key: stated.pop(key) for key in SHARED if key in stated}
    dataset, guarantee = (
        dict(part) if isinstance(part := stated.pop(key, None), dict) else {}
        for key in ("dataset", "guarantee")
    )
    stated.pop("schema_version")
    component = {
        "kind": kind,
        "dataset": {key: value for key, value in dataset.items() if key != "name"},
        **{
            key: guarantee[key]
            for key in ("epsilon_requested", "epsilon_spent")
            if key in guarantee
        },
        **({"l0_epsilon": guarantee.pop("l0_epsilon")} if "l0_epsilon" in guarantee else {}),
        **stated,
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "dataset": {key: value for key, value in dataset.items() if key == "name"},
        "guarantee": {"protect": "presence" if private else "values"} | guarantee,
        **({"losses": stated["losses"]} if "losses" in stated else {}),
        "components": [component],
        **shared,
    }


def check_columns(check: FolderCheck, names: set[str]) -> list[str]:
    """Return the problems of a folder with a folder of each value column; fill in the check."""
    former = check.manifest
    entries = former.get("columns")
    if not isinstance(entries, list) or not {"dataset", "request", "ledger"} <= former.keys():
        return ["manifest.json is not that of several value columns."]
    listed = [(one.get("column"), one.get("folder")) for one in entries if isinstance(one, dict)]
    columns, folders = [str(name) for name, _ in listed], [name for _, name in listed]
    if len(columns) > MAX_COLUMNS or [*column_prefixes(columns).values()] != folders:
        return ["manifest.json names a value column twice, or its folder wrongly."]
    receipts = {name: f"{name}/{receipt.NAME}" for name in folders}
    required = _FILES | {*metadata_files.ALWAYS, *receipts.values()}
    files = CheckedFiles(
        check.folder,
        {receipts.get(name, name) for name in names},
        check.key,
        required=required,
        known=required | {receipt.NAME, signing.NAME, metadata_files.ITEM},
    )
    issues = [f"{name} is a link." for name in folders if (check.folder / name).is_symlink()]
    if issues := [*files.find_irregular(), *issues]:
        return issues
    issues = [*files.compare_receipt(former), *files.check_signature()]
    check.signature = files.signature
    parts = {name: type(check)(check.folder / name, check.key) for name in folders}
    for name, part in parts.items():
        issues += [f"{name}: {issue}" for issue in part.find_problems()]
    if issues:
        return issues
    return [*_check_joined(check, former, list(parts.values()))]


def _check_joined(check: FolderCheck, former: Json, parts: list[FolderCheck]) -> list[str]:
    """Return the problems of the value columns together, as one release of today."""
    own = {column: part for part in parts for column in statements(part.manifest)}
    check.manifest = as_current(former | {"kind": "columns"}) | {
        "grid": parts[0].manifest["grid"],
        "components": [
            part.manifest["components"][0] | _weight(entry)
            for part, entry in zip(parts, former["columns"], strict=True)
        ],
    }
    if any(part.manifest["request"] != former["request"] for part in parts):
        return ["a value column is not of this release."]
    if issues := [*check.check_manifest()]:
        return issues
    tables = {column: part.released for column, part in own.items()}
    joined = join_tables(tables, own_columns(statements(check.manifest)))
    check.table, check.tables = joined, {column: part.table for column, part in own.items()}
    return [*check.recompute(), *file_comparison.compare_csv(check.folder, joined)]


def _weight(entry: Json) -> Json:
    """Return the importance of a column."""
    return {"weight": entry["weight"]} if "weight" in entry else {}
