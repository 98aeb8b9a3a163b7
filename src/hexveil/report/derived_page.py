"""The page of a roll-up or a comparison: that of a release, with its own sentences.

Changes that were told run from blue to orange in six classes about 0. Those that cannot be told are
left blank and hatched, so that a map cannot show a change that its numbers do not. A roll-up of
hexagons by the day of the week has the hours of the week as timeslots: a tapped hexagon shows its
week. Page, README.txt and command have the sentences in common.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.base import hexagons
from hexveil.model.cells import slot_seconds
from hexveil.report.manifest_view import (
    ManifestView,
    noun,
    numbers_of,
    spoken_value,
    unit_of_statistic,
)
from hexveil.report.page import frame_values, page_labels
from hexveil.report.payload import (
    Timeslots,
    code_texts,
    column_texts,
    extra_column,
    frame_data,
    interval_chart,
    round_ends,
    round_numbers,
    slot_text,
)
from hexveil.report.shown_column import ShownColumn
from hexveil.report.templates import render_sentence, render_template, with_unit

Json = dict[str, Any]

TEXTS = "derived.txt"
_OF_CHANGES = ("quality", "lowest", "highest", "not_published")
"""Labels that have other words on the page of a comparison."""
_VERDICTS, _GRADES = ("higher", "lower", "cannot be told"), ("good", "caution", "noise")
_SURE = ("good", "caution", "higher", "lower")
_SIDES = ("before", "after")
_COUNTS = {"records": "averaged_cells", "weight": "averaged_open_cells", "": "added_cells"}
"""Lines on the card of a roll-up, by what its cells are weighted by: records, under private
presence weights, and nothing of numbers of units."""


@dataclass(frozen=True)
class DerivedView(ManifestView):
    """Public facts of a roll-up or a comparison, as its statement states them.

    Attributes
    ----------
    title : str
        What is shown.
    slots : tuple
        See `derived_slots`.
    """

    title: str = ""
    slots: Timeslots = ([], [], None)

    @property
    def heading(self) -> str:
        """The title."""
        return self.title

    @property
    def is_change(self) -> bool:
        """Whether it is a comparison."""
        return bool(self.manifest["kind"] == "comparison")

    @property
    def is_count(self) -> bool:
        """Whether numbers are those of units, which have no range."""
        return self.statistic == "users"

    def amount(self, number: float) -> str:
        """Return a number with the digits shown and its unit; changes have a sign."""
        if not self.is_change:
            return super().amount(number)
        text = f"{number:{'+' if number else ''},.{self.decimals}f}".replace("-", "\u2212")
        return with_unit(text, self.unit_text)

    def interval(self, low: float, high: float) -> tuple[str, str]:
        """Return the ends of an interval rounded outwards."""
        scale = 10.0**self.decimals
        ends = math.floor(low * scale + 1e-6) / scale, math.ceil(high * scale - 1e-6) / scale
        return self.amount(ends[0]), self.amount(ends[1])

    @property
    def prefix(self) -> str:
        """Prefix of the names of the columns of the numbers shown."""
        return "change" if self.is_change else self.statistic

    def cell_names(self, table: pa.Table) -> list[str]:
        """Return the labels of each cell, or its timeslot."""
        labels, (_, texts, slot) = _labels(table, self).values(), self.slots
        return [" \u00b7 ".join(texts) for texts in zip(*labels, strict=True)] or [
            texts[number] for number in slot or ()
        ]

    def grades(self, table: pa.Table) -> list[str]:
        """Return the verdicts of a comparison, else the grades of intervals.

        They are those of releases within public bounds; of numbers of units, which have no range,
        relative to the number.
        """
        if self.is_change:
            return [str(verdict) for verdict in table["verdict"].to_pylist()]
        number, half = self.shown_numbers(table), self.half_widths(table)
        limits = (number / 4, number) if self.is_count else (self.range / 10, self.range / 4)
        grades = np.select([half <= limit for limit in limits], ["good", "caution"], "noise")
        return [str(grade) for grade in grades]


def render_derived(
    table: pa.Table,
    statement: Mapping[str, Any],
    *,
    context: Json | None = None,
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
    texts, table = template_values(table, statement), _mapped(table)
    view = DerivedView.from_manifest(
        {"guarantee": {"privacy_unit": "", "promise": ""}, "plan": {}, **statement}
    )
    view = replace(
        view,
        title=texts["heading"],
        shown=statement["statistic"],
        name=texts["releases"],
        slots=derived_slots(table, statement["grid"].get("timeslot")),
    )
    data, grades = _payload(table, view, context), view.grades(table)
    half_width = float(np.median(view.half_widths(table)))
    values = texts | {
        "view": view,
        "words": "derived",
        "estimator": "raw",
        "one_number": [],
        "hexagons": len(data["names"]),
        "released_cells": 0 if view.is_change else int(np.sum(table["cells"].to_numpy())),
        "median_bound": view.interval(0.0, half_width)[1].lstrip("+"),
        "tenth_of_range": with_unit(f"{view.range / 10:g}", view.unit_text),
        "quarter_of_range": with_unit(f"{view.range / 4:g}", view.unit_text),
        "qualities": [
            {"name": name, "cells": grades.count(name)}
            for name in (_VERDICTS if view.is_change else _GRADES)
            if name in grades
        ],
        "basis": statement["basis"],
        "of_map": "model" in statement,
        "procedure": statement.get("procedure", ""),
        "rate": f"{100 * statement.get('false_discovery_rate', 0.0):.3g}%",
        # A fact that a statement leaves out is empty text.
        **{section: defaultdict(str, statement[section]) for section in ("bounds", "grid")},
    }
    chart = interval_chart(table, view)
    values |= frame_values(texts["origin"], statement, data, chart, context, None, files)
    return render_template("report.html", values)


def _mapped(table: pa.Table) -> pa.Table:
    """Return the table with hexagons by their name where a roll-up by days lists them as places."""
    names = table["place"].to_pylist() if "days" in table.column_names else ["bus 7"]
    try:
        resolution = hexagons.resolution_of(int(names[0], 16))
    except ValueError:
        return table
    if not all(hexagons.is_name(name, resolution) for name in set(names)):
        return table
    renamed = {"place": "hexagon", "time": "slot"}
    return table.rename_columns([renamed.get(name, name) for name in table.column_names])


def _payload(table: pa.Table, view: DerivedView, context: Json | None) -> Json:
    """Return everything that the page's scripts need."""
    grades, labels = view.grades(table), _labels(table, view)
    shown = ShownColumn(
        table, view.manifest, (view,), None, has_all=True, rows=np.arange(table.num_rows)
    )
    data = shown.describe(view, compares=False)
    del data["value"]["limits"]
    words = page_labels()
    words["bound"] = words.pop("interval_half_width")
    if view.is_change:
        # 0 is the middle of the scale, and a release that changed nowhere still has one.
        value, is_sure = view.shown_numbers(table), np.isin(grades, _SURE)
        ends = round_ends(value[is_sure if is_sure.any() else np.ones_like(is_sure)])
        largest = max(abs(ends[0]), abs(ends[1]), 10.0**-view.decimals)
        data["colour"] = {"low": -largest, "high": largest}
        data["value"]["name"] = "Change"
        words |= {name: words.pop(f"change_{name}") for name in _OF_CHANGES}
    data["value"]["signed"] = view.is_change
    extras, lines = _extras(table, view)
    data["columns"] |= {f"label:{name}": texts for name, texts in labels.items()}
    data["columns"] |= {extra["key"]: _rounded(table, extra) for extra in extras}
    # Slots in which most can be told come first, as those with most good cells do.
    quality = [0 if grade in _SURE else 3 for grade in grades]
    frame = frame_data(table, view.slots, list(labels), quality, "", context, geography=True)
    return data | frame | {"extras": extras, "lines": lines, "text": words}


def _extras(table: pa.Table, view: DerivedView) -> tuple[list[Json], list[str]]:
    """Return the further columns of the table, and the lines that the card has of them."""
    names = [name.removesuffix("_before") for name in table.column_names]
    count = next((name for name in ("records", "weight") if name in names), "")
    counts = [count] if count else []
    if not view.is_change:
        heading = "Released numbers" if count == "records" else "Open places"
        weights = [extra_column(name, name.capitalize(), spare=True) for name in counts]
        return [extra_column("cells", heading, spare=True), *weights], [_COUNTS[count]]
    numbers = [
        extra_column("before", "Before", view.decimals, spare=True),
        extra_column("after", "After", view.decimals, spare=True),
        extra_column("p_value", "p-value", None, spare=True),
    ]
    weights = [extra_column(f"{name}_{side}", "") for name in counts for side in _SIDES]
    return numbers + weights, ["sides", *(f"{name}_of_sides" for name in counts)]


def _rounded(table: pa.Table, extra: Json) -> list[float | None]:
    """Return a further column with its digits."""
    numbers = numbers_of(table, extra["key"])
    if extra["decimals"] is None:
        return [float(f"{number:.2g}") for number in numbers]
    return round_numbers(numbers, extra["decimals"], np.rint)


def _labels(table: pa.Table, view: DerivedView) -> dict[str, list[str]]:
    """Return the columns that name a cell without a hexagon; none where slots alone do."""
    columns = table.column_names
    if "hexagon" in columns:
        return {}
    names = [name for name in view.label_columns if name in columns]
    if not names and "cell" in columns and "slot" not in columns:
        names = ["cell"]
    return {name: column_texts(table, name) or [] for name in names}


def derived_slots(table: pa.Table, timeslot: str | None) -> Timeslots:
    """Return start and text of each timeslot, and the timeslot of each cell.

    Parameters
    ----------
    table : pyarrow.Table
    timeslot : str or None
        Length of the slots.

    Returns
    -------
    starts, texts : list of str
        Of the first release in a comparison; texts have both.
    slot : list of int or None
    """
    if "days" in table.column_names and "hexagon" in table.column_names:
        days, times = column_texts(table, "days") or [], column_texts(table, "slot")
        # Rows begin with the first day.
        order = {day: f"{number}" for number, day in enumerate(dict.fromkeys(days))}
        times = times or [""] * len(days)
        names = [f"{order[day]}{day} {time}".strip() for day, time in zip(days, times, strict=True)]
        starts, slot = code_texts(names, in_order=True)
        starts = [start[1:] for start in starts]
        return starts, starts, slot
    sides = [name for name in ("slot", "slot_before", "slot_after") if name in table.column_names]
    if not sides or timeslot is None:
        return [], [], None
    seconds = slot_seconds(timeslot)
    starts, slot = code_texts(column_texts(table, sides[0]), in_order=True)
    # Slots pair one to one.
    other = dict(zip(*(table[name].to_pylist() for name in (sides[0], sides[-1])), strict=True))
    spans = [
        [slot_text(name, _slot_end(name, seconds)) for name in (start, other[start])]
        for start in starts
    ]
    return starts, [" \u2192 ".join(dict.fromkeys(span)) for span in spans], slot


def _slot_end(start: str, seconds: int) -> str:
    """Return the end of a slot on its own clock.

    Examples
    --------
    >>> _slot_end("2024-02-19T23:00", 3600), _slot_end("06:00", 3600)
    ('2024-02-20T00:00', '07:00')
    """
    pooled = "T" not in start
    moment = datetime.fromisoformat(f"2001-01-01T{start}" if pooled else start)
    return (moment + timedelta(seconds=seconds)).strftime("%H:%M" if pooled else "%Y-%m-%dT%H:%M")


def template_values(table: pa.Table, statement: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the sentences about a table and its statement."""
    kind, dataset, statistic = statement["kind"], statement["dataset"], statement["statistic"]
    roles = (
        {"First": "before", "Second": "after"} if kind == "comparison" else {"Release": "source"}
    )
    releases = [statement[name] for name in roles.values()]
    periods = [
        f"{role}: {release['period']}" if len(roles) > 1 else release["period"]
        for role, release in zip(roles, releases, strict=True)
    ]
    publishers = dict.fromkeys(name for release in releases if (name := release["publisher"]))
    names = _release_names(releases)
    values = {
        "heading": render_sentence(
            TEXTS,
            "heading",
            kind=kind,
            statistic=noun(statistic),
            value=spoken_value(dataset),
            of_units=statistic == "users",
            days=len(statement.get("releases", ())),
            by=statement.get("by", ""),
        ),
        "releases": " \u2192 ".join(names),
        "first": names[0],
        "second": names[-1],
        "unit": unit_of_statistic(statistic, dataset["value_unit"] or ""),
        "cells": table.num_rows,
        "cost": render_sentence(TEXTS, "cost", kind=kind),
        "covers": statement["covers"],
        "not_covered": statement.get("not_covered", ""),
        "sources": [
            render_sentence(TEXTS, "source", role=role, identity=release)
            for role, release in zip(roles, releases, strict=True)
        ],
        # Periods and publishers, under the title.
        "origin": {
            "period": "; ".join(periods),
            "brief_period": "",
            "publisher": "; ".join(publishers),
        },
        "verdicts": "",
        "discoveries": "",
        "pairing": "",
    }
    return values | (_comparison_values(statement) if kind == "comparison" else {})


def _release_names(releases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a name of each release: its data set, and in a comparison its period or request."""
    if len(releases) == 1:
        return [releases[0]["dataset"]]
    names = [f"{entry['dataset']}, {entry.get('brief_period', '')}" for entry in releases]
    if len({*names}) < len(names) or any(name.endswith(", ") for name in names):
        return [f"{entry['dataset']}, request {entry['request'][:8]}" for entry in releases]
    return names


def _comparison_values(statement: Mapping[str, Any]) -> dict[str, str]:
    counts, cells = statement["verdicts"], statement["cells"]
    changes = {
        "higher": counts["higher"],
        "lower": counts["lower"],
        "unclear": counts["cannot be told"],
    }
    rate = f"{100 * statement['false_discovery_rate']:.3g} percent"
    facts = {"procedure": statement["procedure"], "rate": rate}
    pairs = {name: cells[name] for name in ("only_before", "only_after")}
    pairs |= {"days": statement["days_between"], "of_maps": "model" in statement}
    return {
        "verdicts": render_sentence(TEXTS, "verdict_counts", **changes),
        "discoveries": render_sentence(TEXTS, "discoveries", **facts),
        "pairing": render_sentence(TEXTS, "pairing", **pairs),
    }
