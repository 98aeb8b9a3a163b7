"""Checks of a folder of several value columns as a whole, after each one's folder was checked.

The columns have to be of one request under one booking. Where occupancy is public the largest loss
of the whole lies between the largest of a column and the sum of these, and the sum over all units
is that of the columns; under private presence any unit loses exactly the sum of the columns' ε.
Under a δ squares of μ add up in place of ε. cells.csv, README.txt, the page and the descriptions
for portals are what the columns give.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

from hexveil.accounting.promise import of_amount, summed
from hexveil.publishing.columns.column_folder import derive_whole
from hexveil.publishing.columns.column_manifest import together_section
from hexveil.publishing.columns.column_table import column_prefixes, join_columns
from hexveil.publishing.manifest import epsilon_text
from hexveil.publishing.verification.files import file_comparison
from hexveil.publishing.verification.guarantee_checks import (
    TOLERANCE,
    added_losses,
    check_guarantee,
    check_spent,
    delta_of,
    is_private,
)
from hexveil.publishing.verification.table_checks import is_same_version

Json = dict[str, Any]


def check_names(manifest: Json) -> Iterator[str]:
    """Yield if a value column stands twice, or in another folder than its own."""
    names, folders = ([entry[key] for entry in manifest["columns"]] for key in ("column", "folder"))
    if len(set(names)) < len(names) or [*column_prefixes(names).values()] != folders:
        yield "manifest.json names a value column twice, or its folder wrongly."


def check_whole(
    folder: Path, manifest: Json, columns: Mapping[str, Json], tables: Mapping[str, pa.Table]
) -> Iterator[str]:
    """Yield where the columns are no whole, or not the one that is stated.

    Parameters
    ----------
    folder : Path
    manifest : dict
    columns, tables : mapping of str
        Manifest and table of each value column, as they were checked.
    """
    yield from _check_columns(manifest, columns)
    check_losses = _check_private_losses if is_private(manifest) else _check_public_losses
    yield from check_losses(manifest, columns)
    yield from check_guarantee(manifest, next(iter(columns.values())))
    released = {name: file_comparison.as_released(table) for name, table in tables.items()}
    joined = join_columns(released)
    yield from file_comparison.compare_csv(folder, joined)
    if not is_same_version(manifest):
        return
    folders = (entry["folder"] for entry in manifest["columns"])
    own = dict(zip(folders, zip(released.values(), columns.values(), strict=True), strict=True))
    names = file_comparison.known_names(folder)
    texts = derive_whole(folder, joined, manifest, own, names)
    yield from file_comparison.compare_derived(folder, names, texts, "the columns say")


def _check_columns(manifest: Json, columns: Mapping[str, Json]) -> Iterator[str]:
    """Yield columns that are not of this release, or other than it states."""
    together = together_section([*columns], Fraction(manifest["guarantee"]["epsilon_spent"]))
    for stated in manifest["columns"]:
        column_manifest = columns[stated["column"]]
        guarantee = column_manifest["guarantee"]
        pairs = {
            "model": (column_manifest.get("model"), manifest.get("model")),
            "dataset": (column_manifest["dataset"]["name"], manifest["dataset"]["name"]),
            "value": (column_manifest["dataset"]["value"], stated["column"]),
            "value_unit": (column_manifest["dataset"]["value_unit"], stated["value_unit"]),
            "request": (column_manifest["request"], manifest["request"]),
            "privacy_unit": (guarantee["privacy_unit"], manifest["guarantee"]["privacy_unit"]),
            "epsilon_spent": (guarantee["epsilon_spent"], stated["epsilon"]),
            "statistics": (column_manifest["plan"]["statistics"], manifest["statistics"]),
            "delta": (guarantee.get("delta"), manifest["guarantee"].get("delta")),
            "columns_together": (column_manifest.get("columns_together"), together),
        }
        if is_private(manifest) and is_private(column_manifest):
            pairs["ledger"] = column_manifest["ledger"], manifest["ledger"]
            pairs["cells"] = column_manifest["grid"]["cells"], stated["cells"]
        elif not is_private(manifest) and not is_private(column_manifest):
            pairs |= _counted_pairs(manifest, stated, column_manifest)
        for field, (actual, expected) in pairs.items():
            if actual != expected:
                yield f"{stated['folder']}: {field} is not that of the release of all columns."


def _counted_pairs(
    manifest: Json, stated: Json, column_manifest: Json
) -> dict[str, tuple[Any, Any]]:
    """Return pairs of equal facts where occupancy is public: counts and bookings."""
    # Of means and variances alone: parts of distributions have an ε each.
    request = column_manifest["plan"].get("request", {})
    return {
        "targets": (request.get("targets") or [], stated.get("targets", [])),
        "ledger": (
            column_manifest["ledger"],
            manifest["ledger"] if column_manifest["losses"]["max"] > 0 else None,
        ),
        "users": (column_manifest["losses"]["units"], stated["users"]),
        "cells": (len(column_manifest["cells"]), stated["cells"]),
    }


def _check_private_losses(manifest: Json, columns: Mapping[str, Json]) -> Iterator[str]:
    """Yield if the loss of any unit is not the sum of its losses in all columns."""
    guarantee = manifest["guarantee"]
    if guarantee["epsilon_spent"] != _sum_of_parts(manifest, columns):
        yield "epsilon_spent is not the sum of the losses of the columns."
    requested = Fraction(guarantee["epsilon_requested"]) + Fraction(1, 10**11)
    if Fraction(guarantee["epsilon_spent"]) > requested:
        yield "more was spent than asked for."


def _sum_of_parts(manifest: Json, columns: Mapping[str, Json]) -> str:
    """Return the text of the loss of any unit that the losses of the columns make together."""
    spent = [Fraction(column["guarantee"]["epsilon_spent"]) for column in columns.values()]
    return epsilon_text(summed(spent, delta_of(manifest)).epsilon)


def _check_public_losses(manifest: Json, columns: Mapping[str, Json]) -> Iterator[str]:
    """Yield losses of the whole that those of the columns exclude."""
    yield from check_spent(manifest)
    losses, delta = manifest["losses"], delta_of(manifest)
    added, name = added_losses(manifest), "squared_mu" if delta else "losses"
    largest = [added_losses(column)["max"] for column in columns.values()]
    room = 1.0 + TOLERANCE
    if not max(largest) <= added["max"] * room or not added["max"] <= sum(largest) * room:
        yield f"{name}/max is not between the largest of a column and the sum of these."
    epsilon = float(of_amount(Fraction(added["max"]), delta).epsilon)
    if not math.isclose(epsilon, losses["max"], rel_tol=TOLERANCE):
        yield "the largest loss is not that of the largest square of mu at this delta."
    units = [column["losses"]["units"] for column in columns.values()]
    if not max(units) <= losses["units"] <= sum(units):
        yield "losses/units is not between the units of a column and the sum of these."
    total = losses["units"] * added["mean"]
    if not math.isclose(total, _total_loss(columns), rel_tol=1e-6, abs_tol=1e-12):
        yield f"{name}/mean is not that of all columns."


def _total_loss(columns: Mapping[str, Json]) -> float:
    """Return the sum of the losses of all units in all columns: ε, or squares of μ under a δ."""
    return math.fsum(
        column["losses"]["units"] * added_losses(column)["mean"] for column in columns.values()
    )


def describe_whole(manifest: Json, columns: Mapping[str, Json]) -> tuple[list[str], list[str]]:
    """Return the figures of the whole that were recomputed, and those that could not be."""
    guarantee = manifest["guarantee"]
    if is_private(manifest):
        loss = (
            f"loss of any {guarantee['privacy_unit']}, present or not, over all value columns: "
            f"{_sum_of_parts(manifest, columns)} by the columns, {guarantee['epsilon_spent']} as "
            "stated"
        )
        return [loss], []
    kind = "squares of mu" if delta_of(manifest) else "losses"
    units, mean = manifest["losses"]["units"], added_losses(manifest)["mean"]
    total = (
        f"sum of the {kind} of {units:,} units over all value columns: {_total_loss(columns):.6g} "
        f"by the columns, {units * mean:.6g} as stated"
    )
    largest = (
        "the largest loss over all value columns: it lies between the largest of a column and the "
        "sum of these"
    )
    return [total], [largest]
