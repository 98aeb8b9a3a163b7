"""README.txt of a release: the values of its template, templates/readme.md."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa

from hexveil.publishing.catalogue.release_description import find_coverage
from hexveil.publishing.markup import document
from hexveil.report import accuracy_text
from hexveil.report.manifest_view import (
    common_unit,
    describe_repeats,
    format_heading,
    format_roughly,
    format_rounded_up,
    spoken_value,
)
from hexveil.report.origin import describe_origin
from hexveil.report.promise_wording import delta_in_words

LOSSES = ("p99", "p90", "median", "mean")


def render_readme(
    table: pa.Table, manifest: dict[str, Any], *, mapped: bool, tiled: bool = False
) -> str:
    """Return the text of README.txt.

    Parameters
    ----------
    table : pyarrow.Table
        The released table.
    manifest : dict
        The manifest of the same release.
    mapped, tiled : bool
        Whether the folder has cells.geojson, and cells.pmtiles.
    """
    dataset, plan, guarantee = (manifest[name] for name in ("dataset", "plan", "guarantee"))
    statistics = plan["statistics"]
    values = {
        "title": manifest.get("title", ""),
        "subtitle": manifest.get("subtitle", ""),
        "origin": describe_origin(table, manifest),
        "heading": format_heading(statistics, spoken_value(dataset)),
        "value_unit": common_unit(statistics, dataset["value_unit"]),
        "dataset": dataset["name"],
        "cells": table.num_rows,
        "guarantee": guarantee,
        "delta": guarantee.get("delta", ""),
        "meaning_of_delta": delta_in_words(manifest),
        "plan": plan,
        "grid": manifest["grid"],
        "quantum": manifest["bounds"]["quantum"],
        "repeats": describe_repeats(manifest),
        "one_number": accuracy_text.describe_one_number(manifest),
        "hexagons": "hexagon" in table.column_names,
        "mapped": mapped,
        "tiled": tiled,
        "dated": find_coverage(table, manifest).start is not None,
        "columns": [_column(field) for field in table.schema],
    }
    if manifest.get("model") == "presence":
        values |= {
            "open_cells": sum(table["is_open"].to_pylist()),
            "has_weights": statistics != ["users"],
            "has_shapes": "bins" in plan,
        }
        return document("presence/readme.md", values).to_text() + "\n"
    # Bins of a histogram each have their own statement, which is too many for a text.
    stated = [one for one in manifest["accuracy"] if not one["statistic"].startswith("histogram_")]
    values |= {
        "losses": _losses(manifest["losses"]),
        "accuracy": accuracy_text.describe_accuracy(
            stated, dataset["value_unit"], lambda n, unit: f"{n:.3g} {unit}".strip()
        ),
    }
    if manifest.get("kind") == "distributions":
        values["components"] = plan["components"]
        return document("distribution/readme.md", values).to_text() + "\n"
    values |= _moment_values(table, manifest)
    return document("readme.md", values).to_text() + "\n"


def _moment_values(table: pa.Table, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return everything else that the text about averages and variances names."""
    guarantee, unit = manifest["guarantee"], manifest["dataset"]["value_unit"]
    clipping = accuracy_text.clipping_values(
        manifest["plan"]["privacy_steps"], lambda number: f"{number:.4g} {unit}".strip()
    )
    return clipping | {
        "nothing_read": guarantee["epsilon_spent"] == "0",
        "naive_epsilon": format_rounded_up(float(Fraction(guarantee["l0_epsilon"])), 4),
        "posterior": "mean_estimate" in table.column_names,
        "contributing": _contributing_records(table, manifest),
        "cut_off": accuracy_text.describe_cut_off(manifest["cut_off"], table.num_rows),
        "smoothing": [_smoothing(statement) for statement in manifest["smoothing"]],
    }


def _contributing_records(table: pa.Table, manifest: dict[str, Any]) -> dict[str, str]:
    """Return the records that contribute and all records, where users are left out of cells."""
    divisors = [
        noised[0].get("divisor") for cell in manifest["cells"] if (noised := cell["noised"])
    ]
    if not divisors or divisors[0] is None:
        return {}
    counts = {"divisor": sum(divisors), "records": sum(table.column("records").to_pylist())}
    return {name: f"{count:,}" for name, count in counts.items()}


def _losses(losses: dict[str, Any]) -> dict[str, str]:
    """Return the numbers of units, and quantiles of their losses rounded up."""
    rounded = {key: format_rounded_up(losses[key], 4) for key in LOSSES}
    return rounded | {key: str(losses[key]) for key in ("units", "at_zero")}


def _smoothing(statement: dict[str, Any]) -> dict[str, str]:
    """Return the quality of a smoothed map, with its numbers formatted."""
    epsilon = statement["epsilon_half_distinguishable"]
    return {
        "statistic": statement["statistic"],
        "signal_share": f"{statement['signal_share']:.0%}",
        "distinguishable": f"{statement['distinguishable']:,}",
        "epsilon_for_half": "" if epsilon is None else format_roughly(epsilon),
        "model": statement["model"],
    }


def _column(field: pa.Field) -> dict[str, str]:
    metadata = field.metadata or {}
    return {
        "name": field.name,
        "unit": metadata.get(b"unit", b"").decode(),
        "description": metadata[b"description"].decode(),
    }
