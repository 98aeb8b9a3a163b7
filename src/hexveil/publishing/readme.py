"""README.txt of a release: the values of its template, templates/readme.md."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.publishing.catalogue.coverage import find_coverage
from hexveil.publishing.markup import document
from hexveil.report import accuracy_text, clipping_text
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

if TYPE_CHECKING:
    import pyarrow as pa

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
    if manifest.get("model") == "presence":
        return _render_presence(table, manifest, mapped=mapped, tiled=tiled)
    if manifest.get("kind") == "distributions":
        return _render_distribution(table, manifest, mapped=mapped, tiled=tiled)
    dataset, plan = manifest["dataset"], manifest["plan"]
    guarantee, cells = manifest["guarantee"], table.num_rows
    values = {
        "title": manifest.get("title", ""),
        "subtitle": manifest.get("subtitle", ""),
        "origin": describe_origin(table, manifest),
        "heading": format_heading(plan["statistics"], spoken_value(dataset)),
        "value_unit": dataset["value_unit"],
        "dataset": dataset["name"],
        "cells": cells,
        "guarantee": guarantee,
        "delta": guarantee.get("delta", ""),
        "meaning_of_delta": delta_in_words(manifest),
        "nothing_read": guarantee["epsilon_spent"] == "0",
        "losses": _losses(manifest["losses"]),
        "naive_epsilon": format_rounded_up(float(Fraction(guarantee["l0_epsilon"])), 4),
        "repeats": describe_repeats(manifest),
        "accuracy": accuracy_text.describe_accuracy(
            manifest["accuracy"], dataset["value_unit"], lambda n, unit: f"{n:.3g} {unit}".strip()
        ),
        "one_number": accuracy_text.describe_one_number(manifest),
        "posterior": "mean_estimate" in table.column_names,
        "contributing": _contributing_records(table, manifest),
        "cut_off": clipping_text.describe_cut_off(manifest["cut_off"], cells),
        "smoothing": [_smoothing(statement) for statement in manifest["smoothing"]],
        "hexagons": "hexagon" in table.column_names,
        "mapped": mapped,
        "tiled": tiled,
        "dated": find_coverage(table, manifest).start is not None,
        "columns": [_column(field) for field in table.schema],
    }

    def amount(number: float) -> str:
        return f"{number:.4g} {dataset['value_unit']}".strip()

    values |= clipping_text.template_values(plan["privacy_steps"], amount)
    return document("readme.md", values).to_text() + "\n"


def _render_presence(
    table: pa.Table, manifest: dict[str, Any], *, mapped: bool, tiled: bool
) -> str:
    """Return the text of README.txt under private presence."""
    dataset, plan = manifest["dataset"], manifest["plan"]
    has_weights = plan["statistics"] != ["users"]
    values = {
        "title": manifest.get("title", ""),
        "subtitle": manifest.get("subtitle", ""),
        "origin": describe_origin(table, manifest),
        "heading": format_heading(plan["statistics"], dataset["value"]),
        "value_unit": dataset["value_unit"] if has_weights else "",
        "delta": manifest["guarantee"].get("delta", ""),
        "meaning_of_delta": delta_in_words(manifest),
        "dataset": dataset["name"],
        "cells": table.num_rows,
        "open_cells": sum(table["is_open"].to_pylist()),
        "has_weights": has_weights,
        "repeats": describe_repeats(manifest),
        "has_shapes": "bins" in plan,
        "one_number": accuracy_text.describe_one_number(manifest),
        "guarantee": manifest["guarantee"],
        "plan": plan,
        "grid": manifest["grid"],
        "hexagons": "hexagon" in table.column_names,
        "mapped": mapped,
        "tiled": tiled,
        "dated": find_coverage(table, manifest).start is not None,
        "columns": [_column(field) for field in table.schema],
    }
    return document("presence/readme.md", values).to_text() + "\n"


def _render_distribution(
    table: pa.Table, manifest: dict[str, Any], *, mapped: bool, tiled: bool
) -> str:
    """Return the text of README.txt of quantiles, shares and histograms."""
    dataset, plan = manifest["dataset"], manifest["plan"]
    # Bins of a histogram each have their own statement, which is too many for a text.
    stated = [one for one in manifest["accuracy"] if not one["statistic"].startswith("histogram_")]
    values = {
        "title": manifest.get("title", ""),
        "subtitle": manifest.get("subtitle", ""),
        "origin": describe_origin(table, manifest),
        "heading": format_heading(plan["statistics"], dataset["value"]),
        "value_unit": common_unit(plan["statistics"], dataset["value_unit"]),
        "dataset": dataset["name"],
        "cells": table.num_rows,
        "guarantee": manifest["guarantee"],
        "delta": manifest["guarantee"].get("delta", ""),
        "meaning_of_delta": delta_in_words(manifest),
        "losses": _losses(manifest["losses"]),
        "components": plan["components"],
        "repeats": describe_repeats(manifest),
        "accuracy": accuracy_text.describe_accuracy(
            stated, dataset["value_unit"], lambda n, unit: f"{n:.3g} {unit}".strip()
        ),
        "one_number": accuracy_text.describe_one_number(manifest),
        "quantum": manifest["bounds"]["quantum"],
        "hexagons": "hexagon" in table.column_names,
        "mapped": mapped,
        "tiled": tiled,
        "dated": find_coverage(table, manifest).start is not None,
        "columns": [_column(field) for field in table.schema],
    }
    return document("distribution/readme.md", values).to_text() + "\n"


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
