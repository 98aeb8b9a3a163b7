"""Folders of schema version 4: their manifest as one of today, checked as any other.

A manifest of that version stated one value column, with a kind or a privacy model at its top. A
release of several had a folder of each, and joint statements and one cells.csv at the top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.publishing import receipt, signing
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.components import column_prefixes, join_tables, statements
from hexveil.publishing.manifest import SCHEMA_VERSION
from hexveil.publishing.part_kinds import own_columns
from hexveil.publishing.verification import file_comparison
from hexveil.publishing.verification.untrusted_files import CheckedFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    Json = dict[str, Any]

FORMER = 4
SHARED = (
    *("software", "grid", "title", "subtitle", "catalogue", "columns_together", "request"),
    "ledger",
)
_FILES = frozenset({"README.txt", "cells.csv", "manifest.json", "report.html"})
MAX_COLUMNS = 50
ALWAYS = {"error": "separate", "exempt": "smallest"}
"""Fields of a request that were stated, with the one meaning that is left."""


def is_former(manifest: Json) -> bool:
    """Return whether a manifest is of that version."""
    return manifest.get("schema_version") == FORMER


def has_columns(manifest: Json) -> bool:
    """Return whether it is that of several value columns."""
    return manifest.get("kind") == "columns"


def as_current(former: Json) -> Json:
    """Return the manifest of one value column as one of today; the schema refuses one with gaps."""
    stated = dict(former)
    private = stated.pop("model", None) == "presence"
    kind = stated.pop("kind", "presence" if private else "moments")
    shared = {key: stated.pop(key) for key in SHARED if key in stated}
    dataset, guarantee = (
        dict(part) if isinstance(part := stated.pop(key, None), dict) else {}
        for key in ("dataset", "guarantee")
    )
    stated.pop("schema_version")
    stated = _in_words_of_today(stated)
    stated |= {
        name: _in_words_of_today(part)
        for name in ("moments", "scores")
        if isinstance(part := stated.get(name), dict)
    }
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


def _in_words_of_today(stated: Json) -> Json:
    """Return statements without what all requests have today; other words are refused."""
    plan = stated.get("plan")
    request = plan.get("request") if isinstance(plan, dict) else None
    if not isinstance(plan, dict) or not isinstance(request, dict):
        return stated
    known = ALWAYS.items()
    request = {key: word for key, word in request.items() if (key, word) not in known}
    return stated | {"plan": plan | {"request": request}}


def check_columns(check: Any, names: set[str]) -> Iterator[str]:  # noqa: ANN401  that of verify
    """Yield the problems of a folder with a folder of each value column; fill in the check."""
    former = check.manifest
    entries = former["columns"]
    prefixes = column_prefixes([entry["column"] for entry in entries[:MAX_COLUMNS]])
    folders = [entry["folder"] for entry in entries]
    if [*prefixes.values()] != folders:
        yield "manifest.json names a value column twice, or its folder wrongly."
        return
    receipts = {name: f"{name}/{receipt.NAME}" for name in folders}
    required = _FILES | {*metadata_files.ALWAYS, *receipts.values()}
    known = required | {metadata_files.FORMER, receipt.NAME, signing.NAME, metadata_files.ITEM}
    there = {receipts.get(name, name) for name in names}
    files = CheckedFiles(check.folder, there, check.key, required=required, known=known)
    issues = [f"{name} is a link." for name in folders if (check.folder / name).is_symlink()]
    issues = [*files.find_irregular(), *issues]
    issues = issues or [*files.compare_receipt(former), *files.check_signature()]
    check.signature = files.signature
    parts = [] if issues else [type(check)(check.folder / name, check.key) for name in folders]
    for part in parts:
        issues += [f"{part.folder.name}: {issue}" for issue in part.find_problems()]
    yield from issues or _check_joined(check, former, parts)


def _check_joined(check: Any, former: Json, parts: list[Any]) -> Iterator[str]:  # noqa: ANN401
    """Yield the problems of the value columns together, as one release of today."""
    pairs = zip(parts, former["columns"], strict=True)
    check.manifest = as_current(former) | {
        "grid": parts[0].manifest["grid"],
        "components": [
            part.manifest["components"][0]
            | ({"weight": entry["weight"]} if "weight" in entry else {})
            for part, entry in pairs
        ],
    }
    if any(part.manifest["request"] != former["request"] for part in parts):
        yield "a value column is not of this release."
        return
    issues = [*check.check_manifest()]
    yield from issues
    if issues:
        return
    stated = statements(check.manifest)
    check.tables = dict(zip(stated, (part.table for part in parts), strict=True))
    joined = join_tables(
        dict(zip(stated, (part.released for part in parts), strict=True)), own_columns(stated)
    )
    check.table = joined
    yield from check.recompute()
    yield from file_comparison.compare_csv(check.folder, joined)
