"""Values of the page's template, with their numbers formatted.

The privacy statement is written for a reader who knows no Greek; every number in it comes from the
manifest or from the released table. The sentences: templates/report.html and templates/page/.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.base.rational import to_fraction
from hexveil.report import accuracy_text
from hexveil.report.accuracy_text import CAUTION_DEVIATIONS, GOOD_DEVIATIONS
from hexveil.report.manifest_view import ManifestView, format_heading, noun, numbers_of
from hexveil.report.payload import QUALITIES
from hexveil.report.promise_wording import delta_in_words, exact_counts, in_common, presence
from hexveil.report.shown_column import ShownColumn, heading_of
from hexveil.report.templates import format_rounded_up, with_unit

_SIX_DOWN = Context(prec=6, rounding=ROUND_FLOOR)


def template_values(
    table: pa.Table, manifest: Mapping[str, Any], page_columns: Sequence[ShownColumn]
) -> dict[str, Any]:
    """Return everything that the sentences of every page name.

    Parameters
    ----------
    table : pyarrow.Table
        With the cells of the page.
    manifest : mapping
        Of the whole release.
    page_columns : sequence of ShownColumn
        Its value columns; facts that the whole does not state are those of the first.
    """
    leading, view = page_columns[0], page_columns[0].views[0]
    stated, plan, names = (
        {**leading.manifest, **manifest},
        leading.manifest["plan"],
        table.schema.names,
    )
    grades, half = leading.grades(view), leading.numbers(view)[1]
    half, closed = half[np.isfinite(half)], grades.count("closed")
    return {
        "view": view,
        # A fact that a manifest leaves out is empty text, and its row is not shown.
        **{name: defaultdict(str, stated[name]) for name in ("guarantee", "dataset", "bounds")},
        "plan": plan,
        "grid": leading.manifest["grid"],
        "software": stated.get("software") or {},
        "statistics": list(map(noun, view.statistics)),
        "presence": presence(),
        "exact_counts": exact_counts(),
        "in_common": in_common(),
        "meaning_of_delta": delta_in_words(leading.manifest),
        "is_private": leading.is_private,
        "has_weights": "weight" in leading.table.column_names,
        "has_shapes": "bins" in plan,
        "has_absent": any((column.rows < 0).any() for column in page_columns),
        "cells": table.num_rows,
        "closed_cells": closed,
        "open_cells": table.num_rows - closed,
        # Fewer cells have no differences that grades could follow.
        "by_map": table.num_rows - closed >= (3 if leading.is_private else 2),
        "hexagons": len(table["hexagon"].unique()) if "hexagon" in names else 0,
        "median_bound": view.amount_up(float(np.median(half))) if half.size else "",
        "qualities": _qualities(page_columns, grades),
        "losses": manifest.get("losses") or {},
    }


def choice_values(
    manifest: Mapping[str, Any], page_columns: Sequence[ShownColumn]
) -> dict[str, Any]:
    """Return everything that the page's template needs of the choice among statistics."""
    leading, view = page_columns[0], page_columns[0].views[0]
    return {
        "choices": [heading_of(view) for view in leading.views],
        "bins_from": leading.bins_from,
        "has_all_statistics": all(column.has_all for column in page_columns),
        "whole_heading": manifest.get("heading") or format_heading(view.statistics, view.value),
    }


def column_values(
    manifest: Mapping[str, Any], page_columns: Sequence[ShownColumn]
) -> list[dict[str, Any]]:
    """Return the facts about each of several value columns."""
    pairs = zip(manifest["columns"], page_columns, strict=True)
    return [stated | {"bounds": column.manifest["bounds"]} for stated, column in pairs]


def _qualities(page_columns: Sequence[ShownColumn], grades: Sequence[str]) -> list[dict[str, Any]]:
    """Return each quality grade that some cell has, with its number of cells."""
    sentences = {
        grade for column in page_columns for view in column.views for grade in column.grades(view)
    }
    return [
        {"name": name, "number": number, "cells": grades.count(name)}
        for number, name in enumerate(QUALITIES)
        if name in sentences
    ]


def moment_values(table: pa.Table, view: ManifestView) -> dict[str, Any]:
    """Return everything else that the sentences about averages and variances name."""
    manifest = view.manifest
    grades = view.grades(table)
    return {
        **{section: defaultdict(str, manifest[section]) for section in ("plan", "grid")},
        "nothing_read": view.constant,
        "cut_off_cells": grades.count(accuracy_text.CUT_OFF),
        "predicts_errors": accuracy_text.get_step(view.steps, "cell_stages") is not None,
        "useful_cells": manifest["plan"].get("cells_better_than_constant"),
        "tenth_of_range": with_unit(f"{view.range / 10:g}", view.unit_text),
        "quarter_of_range": with_unit(f"{view.range / 4:g}", view.unit_text),
        **_clipping(view),
        **_errors(table, view),
        **_accuracy(table, view),
        **_optimality(view),
        "smoothing": _smoothing(view),
    }


def _clipping(view: ManifestView) -> dict[str, Any]:
    """Return the strategy and the privacy steps of a release with a clipping range, in words."""
    # The page formats averages with its own digits; ranges of squares are in value units.
    squares = view.statistic != "mean"

    def amount(number: float) -> str:
        return with_unit(f"{number:.6g}", view.value_unit) if squares else view.amount(number)

    return accuracy_text.clipping_values(view.steps, amount, squares=squares)


def _errors(table: pa.Table, view: ManifestView) -> dict[str, Any]:
    """Return errors, bounds, noise scales and biases in units of the statistic shown."""
    bound = view.half_widths(table)
    error, largest = view.planned("mean_error"), view.planned("max_error")
    baseline = view.manifest["plan"].get("baseline_error")
    strategy = accuracy_text.get_strategy(view.steps)
    # A planned error is a bound where bias is worst-case; a prediction in ranges and in stages.
    has_stages = accuracy_text.get_step(view.steps, "cell_stages") is not None
    return {
        "planned_error": "" if error is None else view.amount_up(error),
        "largest_error": "" if largest is None else view.amount_up(largest),
        "error_model": "predicted" if has_stages or strategy else "bound",
        "lower_bound_text": f"{view.lower:g}",
        "upper_bound_text": with_unit(f"{view.upper:g}", view.value_unit),
        "median_raw_bound": view.amount_up(
            float(np.median(numbers_of(table, f"{view.statistic}_bound95")))
        ),
        "largest_bound": view.amount_up(float(bound.max())),
        "noise_scale": _quantiles(table, view, "scale"),
        "worst_case_bias": _quantiles(table, view, "bias"),
        "baseline_error": ""
        if baseline is None or view.statistic == "sd"
        else view.amount(float(to_fraction(baseline, "baseline error"))),
    }


def _accuracy(table: pa.Table, view: ManifestView) -> dict[str, Any]:
    """Return the typical error and the differences between cells, as the manifest states them."""
    accuracy = view.accuracy
    between, error = accuracy.get("between_cells"), accuracy.get("typical_error")
    return {
        "has_posterior": view.has_posterior(table),
        "typical_error": "" if error is None else view.amount_up(error),
        "between_cells": "" if between is None else _short(between, view),
        "graded_by": accuracy.get("graded_by", "bounds"),
        "good_within": _short(GOOD_DEVIATIONS * (between or 0.0), view),
        "caution_within": _short(CAUTION_DEVIATIONS * (between or 0.0), view),
        "assumption": accuracy.get("assumption", ""),
    }


def _short(number: float, view: ManifestView) -> str:
    """Return a number with three significant digits, and the unit of the statistic shown."""
    return with_unit(f"{number:.3g}", view.unit_text)


def _quantiles(table: pa.Table, view: ManifestView, key: str) -> dict[str, str]:
    """Return least, middle and largest number of a column; a root has no noise of its own."""
    if view.statistic == "sd":
        return {}
    numbers = numbers_of(table, f"{view.statistic}_{key}")
    # Rounded up, because they are limits: a smaller scale would understate the noise.
    low, middle, high = (view.amount_up(float(np.quantile(numbers, q))) for q in (0, 0.5, 1))
    return {"low": low, "median": middle, "high": high}


def _optimality(view: ManifestView) -> dict[str, Any]:
    """Return the plan's distance from the best of its class; the bound is rounded down."""
    plan = view.manifest["plan"]
    bound, gap = plan.get("lower_bound"), plan.get("gap")
    if bound is None or gap is None:
        return {"lower_bound": ""}
    several = "mean" in view.statistics and len(view.statistics) > 1
    return {
        "lower_bound": f"{Decimal(bound).normalize(_SIX_DOWN):f}",
        "gap": format_rounded_up(100 * gap, 2) if gap > 0 else "0",
        # Errors of several statistics are compared as shares of a constant's.
        "bound_is_share": several and plan["certifies"] != "loss",
    }


def _smoothing(view: ManifestView) -> Mapping[str, Any]:
    """Return the quality of the smoothed map of the statistic shown; empty if there is none."""
    name = "variance" if view.statistic == "sd" else view.statistic
    statements = view.manifest.get("smoothing") or ()
    return next((entry for entry in statements if entry["statistic"] == name), {})
