"""The page of a map with private presence: the page of the other model, with its own sentences.

Everything on it comes from the released table and the manifest: noisy numbers and declarations.
Closed cells stand in the table without numbers and are not drawn.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.report.interval_chart import MAX_CELLS, Chart, draw_bars, name_cell
from hexveil.report.manifest_view import ManifestView, with_unit
from hexveil.report.page import frame_values
from hexveil.report.palette import palette
from hexveil.report.payload import (
    GRADES,
    QUALITIES,
    code_texts,
    column_texts,
    draw_map,
    extra_column,
    label_texts,
    name_slots,
    opening_slot,
    round_ends,
    round_numbers,
)
from hexveil.report.promise import delta_in_words
from hexveil.report.templates import render_template

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

WORDS = "presence"
"""Folder of the templates with the sentences of this model."""
CLOSED = "closed"
SHARES = ("share_", "histogram_")
"""Beginnings of columns with shares of records, from 0 to 1."""
SHARE_DECIMALS = 3


@dataclass(frozen=True)
class _Shown:
    """Numbers that the page shows, NaN where a cell is closed."""

    view: ManifestView
    value: Floats
    low: Floats
    high: Floats
    quality: list[str]
    unit: str
    decimals: int

    @property
    def half_widths(self) -> Floats:
        """Largest distance of each number from the ends of its interval."""
        return np.maximum(self.value - self.low, self.high - self.value)

    def amount(self, number: float) -> str:
        """Return a number with the digits shown and its unit."""
        return with_unit(f"{number:,.{self.decimals}f}", self.unit)


def render_presence(
    table: pa.Table,
    manifest: Mapping[str, Any],
    *,
    context: dict[str, Any] | None = None,
    geography: bool = True,
    description: Mapping[str, Any] | None = None,
    files: Sequence[str] = (),
) -> str:
    """Return the report of a release with private presence as the text of one HTML file.

    Parameters
    ----------
    table, manifest, context, geography, description, files
        See `hexveil.report.page.render`.
    """
    view = ManifestView.from_manifest(manifest)
    shown = _shown(table, view)
    labels = json.loads(render_template("page/labels.json", {}))
    labels["bound"] = labels.pop("interval_half_width")
    data = _payload(table, shown, context, geography=geography) | {"text": labels}
    values = _sentence_values(table, shown) | {"words": WORDS}
    values |= frame_values(manifest, data, _chart(table, shown), context, description, files)
    return render_template("report.html", values)


def _shown(table: pa.Table, view: ManifestView) -> _Shown:
    name = view.statistic
    if "bins" in view.manifest["plan"]:
        # The first of the columns is that of the first statistic.
        name = str(view.manifest["plan"]["columns"][0])
    is_share = name.startswith(SHARES)
    view = replace(view, value_unit="" if is_share else view.value_unit)
    if is_share:
        decimals = SHARE_DECIMALS
    else:
        decimals = 0 if name == "users" else replace(view, shown="mean").decimals
    return _Shown(
        view,
        value=_floats(table, name),
        low=_floats(table, f"{name}_low"),
        high=_floats(table, f"{name}_high"),
        quality=[str(grade) for grade in table["quality"].to_pylist()],
        unit=view.unit_text,
        decimals=decimals,
    )


def _chart(table: pa.Table, shown: _Shown) -> Chart | None:
    """Return the chart of open cells, or None where there are hexagons, none or too many."""
    rows = np.flatnonzero(np.isfinite(shown.value))
    if "hexagon" in table.column_names or not 1 <= rows.size <= MAX_CELLS:
        return None
    numbers = (shown.value[rows], shown.low[rows], shown.high[rows])
    names = [name_cell(table, shown.view, row) for row in rows.tolist()]
    grades = [shown.quality[row] for row in rows.tolist()]

    def interval(low: float, high: float) -> tuple[str, str]:
        scale = 10.0**shown.decimals
        start = math.floor(low * scale + 1e-6) / scale
        return f"{start:,.{shown.decimals}f}", shown.amount(_up(high, shown))

    return draw_bars(names, numbers, grades, shown.amount, interval)


def _floats(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def _payload(
    table: pa.Table, shown: _Shown, context: dict[str, Any] | None, *, geography: bool
) -> dict[str, Any]:
    """Return everything that the page's scripts need."""
    view = shown.view
    places, place = code_texts(column_texts(table, "hexagon"))
    slots, slot = code_texts(column_texts(table, "slot"), in_order=True)
    quality = [GRADES.index(grade) for grade in shown.quality]
    readable = np.isin(shown.quality, ["good", "caution"])
    is_scaled = np.isfinite(shown.value) & (readable if readable.any() else True)
    low, high = round_ends(shown.value[is_scaled])
    drawn = draw_map(places, context, geography=geography)
    # Closed cells count as noise where the slot with the most readable cells is chosen.
    merits = [min(grade, QUALITIES.index("noise")) for grade in quality]
    return {
        "columns": {**label_texts(table, view), **_columns(table, shown), "quality": quality},
        **_weights(table),
        "hexagon": place,
        "slot": slot,
        "slots": name_slots(table, slots),
        "slot_starts": slots,
        "start": opening_slot(slot, merits),
        "map": drawn,
        "names": places,
        "labels": list(view.label_columns),
        "unit": view.unit,
        "value": {
            "name": view.noun.capitalize(),
            "unit": shown.unit,
            "decimals": shown.decimals,
        },
        "colour": {"low": low, "high": high},
        "palette": {mode: palette(mode) for mode in ("light", "dark")} if drawn else {},
    }


def _columns(table: pa.Table, shown: _Shown) -> dict[str, list[float | None]]:
    """Return each shown number, bounds rounded outwards; None where a cell is closed."""
    columns = {
        "value": round_numbers(shown.value, shown.decimals, np.rint),
        "bound": round_numbers(shown.half_widths, shown.decimals, np.ceil),
        "low": round_numbers(shown.low, shown.decimals, np.floor),
        "high": round_numbers(shown.high, shown.decimals, np.ceil),
    }
    if "weight" in table.column_names:
        for name, rule in (("weight", np.rint), ("weight_low", np.floor), ("weight_high", np.ceil)):
            columns[name] = round_numbers(_floats(table, name), 0, rule)
    return columns


def _weights(table: pa.Table) -> dict[str, Any]:
    """Return the columns of weights, and the line of the card that names them."""
    if "weight" not in table.column_names:
        return {"extras": [], "lines": []}
    names = {"weight": "Weight", "weight_low": "", "weight_high": ""}
    extras = [extra_column(key, name) for key, name in names.items()]
    return {"extras": extras, "lines": ["weight_line"]}


def _sentence_values(table: pa.Table, shown: _Shown) -> dict[str, Any]:
    """Return everything that the sentences of the page name."""
    view, manifest = shown.view, shown.view.manifest
    n_open = sum(grade != CLOSED for grade in shown.quality)
    half = shown.half_widths[np.isfinite(shown.half_widths)]
    prediction = manifest["plan"]["prediction"]
    mapped = "hexagon" in table.column_names
    return {
        "view": view,
        **{name: defaultdict(str, manifest[name]) for name in ("guarantee", "bounds", "dataset")},
        "plan": manifest["plan"],
        "grid": manifest["grid"],
        "software": manifest["software"],
        "meaning_of_delta": delta_in_words(manifest),
        "has_weights": "weight" in table.column_names,
        "has_shapes": "bins" in manifest["plan"],
        "cells": table.num_rows,
        "open_cells": n_open,
        "closed_cells": table.num_rows - n_open,
        "hexagons": len(set(table["hexagon"].to_pylist())) if mapped else 0,
        "median_bound": shown.amount(_up(float(np.median(half)), shown)) if half.size else "",
        "expected_error": _expected(prediction, shown),
        "weight_error": f"{prediction.get('weight_error', prediction.get('count_error')):.3g}",
        "qualities": [
            {"name": name, "cells": shown.quality.count(name)}
            for name in ("good", "caution", "noise")
        ],
        "by_map": n_open >= 3,
    }


def _expected(prediction: Mapping[str, float], shown: _Shown) -> str:
    """Return the predicted error of averages; "" where only numbers of units are published."""
    error = prediction.get("mean_error", prediction.get("quantile_error"))
    return "" if error is None else with_unit(f"{error:.2g}", shown.unit)


def _up(number: float, shown: _Shown) -> float:
    scale = 10.0**shown.decimals
    return math.ceil(number * scale - 1e-6) / scale
