"""The page of a roll-up or a comparison: that of a release, with its own sentences.

Changes that were told run from blue to orange in six classes about 0. Those that cannot be told are
left blank and hatched, so that a map cannot show a change that its numbers do not.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.rational import to_fraction
from hexveil.report.derived.derived_cells import derived_cells, derived_slots
from hexveil.report.derived.derived_text import template_values
from hexveil.report.interval_chart import MAX_CELLS, Chart, draw_bars
from hexveil.report.manifest_view import RANGE, is_share, noun, with_unit
from hexveil.report.page import frame_values
from hexveil.report.palette import palette
from hexveil.report.payload import code_texts, draw_map, opening_slot, round_ends
from hexveil.report.templates import render_template

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from hexveil.report.derived.derived_cells import DerivedCells

WORDS = "derived"
"""Folder of the templates with the sentences of this page."""
_OF_CHANGES = ("quality", "lowest", "highest", "not_published")
"""Labels that have other words on the page of a comparison."""
_VERDICTS, _GRADES = ("higher", "lower", "cannot be told"), ("good", "caution", "noise")


@dataclass(frozen=True)
class DerivedView:
    """Public facts of a roll-up or a comparison, as its statement states them.

    Attributes
    ----------
    heading, noun, name : str
        What is shown: as a title, in sentences, and of which data sets.
    unit_text, value_unit : str
        Units of measure of the statistic and of the values; "" where not stated.
    range : float
        Width of the statistic's range.
    is_change : bool
        Whether it is a comparison.
    is_count : bool
        Whether numbers are those of units, which have no range.
    """

    heading: str
    noun: str
    name: str
    unit_text: str
    value_unit: str
    range: float
    is_change: bool
    is_count: bool

    @classmethod
    def of(cls, statement: Mapping[str, Any], texts: Mapping[str, Any]) -> DerivedView:
        """Build from a statement and its sentences."""
        statistic, bounds = statement["statistic"], statement["bounds"]
        span = float(
            to_fraction(bounds["upper"], "upper bound")
            - to_fraction(bounds["lower"], "lower bound")
        )
        sources = [statement[side] for side in ("before", "after", "source") if side in statement]
        return cls(
            heading=texts["heading"],
            noun=noun(statistic),
            name=" \u2192 ".join(dict.fromkeys(source["dataset"] for source in sources)),
            unit_text=texts["unit"],
            value_unit=statement["dataset"]["value_unit"] or "",
            range=1.0
            if is_share(statistic)
            else (span**2 if statistic == "variance" else span) * RANGE.get(statistic, 1.0),
            is_change=statement["kind"] == "comparison",
            is_count=statistic == "users",
        )

    @property
    def decimals(self) -> int:
        """Digits shown after the point: a step is at most a five-hundredth of the range."""
        if self.is_count:
            return 0
        return min(9, max(0, math.ceil(-math.log10(self.range / 200))))

    def amount(self, number: float) -> str:
        """Return a number with the digits shown and its unit; changes have a sign."""
        sign = "+" if self.is_change and number else ""
        text = f"{number:{sign},.{self.decimals}f}"
        return with_unit(text.replace("-", "\u2212") if self.is_change else text, self.unit_text)

    def interval(self, low: float, high: float) -> tuple[str, str]:
        """Return the ends of an interval rounded outwards."""
        scale = 10.0**self.decimals
        ends = math.floor(low * scale + 1e-6) / scale, math.ceil(high * scale - 1e-6) / scale
        return self.amount(ends[0]), self.amount(ends[1])


def render_derived(
    table: pa.Table,
    statement: Mapping[str, Any],
    *,
    context: dict[str, Any] | None = None,
    files: Sequence[str] = (),
) -> str:
    """Return the page as the text of one HTML file.

    Parameters
    ----------
    table : pyarrow.Table
        Of a roll-up or a comparison.
    statement : mapping
        Its statement.
    context : dict, optional
        Public lines and names for the map, as `read_context` returns them.
    files : sequence of str
        Names of files beside the page, which it offers.
    """
    texts = template_values(table, statement)
    view = DerivedView.of(statement, texts)
    cells = derived_cells(
        table,
        None if view.is_count else view.range,
        "change" if view.is_change else statement["statistic"],
    )
    data = _payload(table, statement, view, cells, context)
    grades = _VERDICTS if view.is_change else _GRADES
    values = texts | {
        "view": view,
        "words": WORDS,
        "estimator": "raw",
        "hexagons": len(data["names"]),
        "released_cells": 0 if view.is_change else int(np.sum(table["cells"].to_numpy())),
        "median_bound": view.interval(0.0, float(np.median(cells.half_width)))[1].lstrip("+"),
        "tenth_of_range": with_unit(f"{view.range / 10:g}", view.unit_text),
        "quarter_of_range": with_unit(f"{view.range / 4:g}", view.unit_text),
        "qualities": [{"name": name, "cells": cells.grade.count(name)} for name in grades],
        "basis": statement["basis"],
        "of_map": "model" in statement,
        "procedure": statement.get("procedure", ""),
        "rate": f"{100 * statement.get('false_discovery_rate', 0.0):.3g}%",
        # A fact that a statement leaves out is empty text.
        **{section: defaultdict(str, statement[section]) for section in ("bounds", "grid")},
    }
    chart = None if data["map"] else _chart(cells, data, view)
    values |= frame_values(texts["origin"], statement, data, chart, context, None, files)
    return render_template("report.html", values)


def _payload(
    table: pa.Table,
    statement: Mapping[str, Any],
    view: DerivedView,
    cells: DerivedCells,
    context: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return everything that the page's scripts need."""
    places, place = code_texts(cells.hexagons)
    starts, slots, slot = derived_slots(table, statement["grid"].get("timeslot"))
    is_sure = np.isin(cells.grade, ["good", "caution", "higher", "lower"])
    low, high = round_ends(cells.value[is_sure if is_sure.any() else np.ones_like(is_sure)])
    if view.is_change:
        # 0 is the middle of the scale, and a release that changed nowhere still has one.
        high = max(abs(low), abs(high), 10.0**-view.decimals)
        low = -high
    drawn = draw_map(places, context, geography=True)
    labels = json.loads(render_template("page/labels.json", {}))
    labels["bound"] = labels.pop("interval_half_width")
    if view.is_change:
        labels |= {name: labels.pop(f"change_{name}") for name in _OF_CHANGES}
    return {
        "columns": cells.columns(view.decimals),
        "extras": cells.extras(view.decimals),
        "lines": cells.lines(),
        "hexagon": place,
        "slot": slot,
        "slots": slots,
        "slot_starts": starts,
        # Slots in which most can be told come first, as those with most good cells do.
        "start": opening_slot(slot, [0 if one else 3 for one in is_sure]),
        "map": drawn,
        "names": places,
        "labels": list(cells.labels),
        "unit": "",
        "value": {
            "name": "Change" if view.is_change else view.noun.capitalize(),
            "unit": view.unit_text,
            "decimals": view.decimals,
            "signed": view.is_change,
        },
        "colour": {"low": low, "high": high},
        "palette": {mode: palette(mode) for mode in ("light", "dark")} if drawn else {},
        "text": labels,
    }


def _chart(cells: DerivedCells, data: Mapping[str, Any], view: DerivedView) -> Chart | None:
    """Return the chart in place of a map, or None for too many cells to draw."""
    if len(cells.grade) > MAX_CELLS:
        return None
    numbers = (cells.value, cells.low, cells.high)
    names = cells.names() or [data["slots"][slot] for slot in data["slot"]]
    return draw_bars(names, numbers, cells.grade, view.amount, view.interval)
