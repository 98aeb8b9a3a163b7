"""Values of the page's template, with their numbers formatted.

The privacy statement is written for a reader who knows no Greek; every number in it comes from the
manifest or from the released table. The sentences: templates/report.html and templates/page/.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.report import accuracy_text
from hexveil.report.accuracy_text import CAUTION_DEVIATIONS, GOOD_DEVIATIONS
from hexveil.report.manifest_view import ManifestView, describe_repeats, noun, numbers_of
from hexveil.report.payload import QUALITIES
from hexveil.report.promise_wording import delta_in_words, limits_of_promise
from hexveil.report.shown_column import ShownColumn
from hexveil.report.templates import with_unit


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
        **limits_of_promise(),
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
        "repeats": describe_repeats(view.manifest),
    }


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
    plan, steps, accuracy = view.manifest["plan"], view.steps, view.accuracy
    # The page formats averages with its own digits; ranges of squares are in value units.
    squares = view.statistic != "mean"

    def amount(number: float) -> str:
        return with_unit(f"{number:.6g}", view.value_unit) if squares else view.amount(number)

    def short(number: float) -> str:
        return with_unit(f"{number:.3g}", view.unit_text)

    clipping = accuracy_text.clipping_values(steps, amount, squares=squares)
    # A planned error is a bound where bias is worst-case; a prediction in ranges and in stages.
    has_stages = accuracy_text.get_step(steps, "cell_stages") is not None
    bounds = numbers_of(table, f"{view.statistic}_bound95")
    between = accuracy.get("between_cells")
    errors = {
        "planned_error": view.planned("mean_error"),
        "largest_error": view.planned("max_error"),
        "typical_error": accuracy.get("typical_error"),
        "median_raw_bound": float(np.median(bounds)),
        "largest_bound": float(view.half_widths(table).max()),
    }
    return clipping | {
        **{name: "" if one is None else view.amount_up(one) for name, one in errors.items()},
        "plan": defaultdict(str, plan),
        "grid": defaultdict(str, view.manifest["grid"]),
        "nothing_read": view.constant,
        "cut_off_cells": view.grades(table).count(accuracy_text.CUT_OFF),
        "predicts_errors": has_stages,
        "error_model": "predicted" if has_stages or clipping["strategy"] else "bound",
        "tenth_of_range": with_unit(f"{view.range / 10:g}", view.unit_text),
        "quarter_of_range": with_unit(f"{view.range / 4:g}", view.unit_text),
        "lower_bound_text": f"{view.lower:g}",
        "upper_bound_text": with_unit(f"{view.upper:g}", view.value_unit),
        "has_posterior": view.has_posterior(table),
        "between_cells": "" if between is None else short(between),
        "graded_by": accuracy.get("graded_by", "bounds"),
        "good_within": short(GOOD_DEVIATIONS * (between or 0.0)),
        "caution_within": short(CAUTION_DEVIATIONS * (between or 0.0)),
        "assumption": accuracy.get("assumption", ""),
    }
