"""The page of a roll-up or a comparison: that of a release, with its own sentences.

Changes that were told run from blue to orange in six classes about 0. Those that cannot be told are
left blank and hatched, so that a map cannot show a change that its numbers do not. A roll-up of
hexagons by the day of the week has the hours of the week as timeslots: a tapped hexagon shows its
week. Page, README.txt and command have the sentences in common.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.model.cells import slot_seconds
from hexveil.report import payload
from hexveil.report.geography.context import Layer
from hexveil.report.manifest_view import ManifestView, noun, spoken_value, unit_of_statistic
from hexveil.report.page import fill_page, page_data
from hexveil.report.payload import ShownColumn, Timeslots, code_texts, extra_column
from hexveil.report.templates import render_sentence

Json = dict[str, Any]

TEXTS = "derived.txt"
_OF_CHANGES = ("quality", "lowest", "highest", "not_published")
"""Labels that have other words on the page of a comparison."""
_VERDICTS, _GRADES = ("higher", "lower", "cannot be told"), ("good", "caution", "noise")
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
    """

    title: str = ""

    @property
    def heading(self) -> str:
        """The title."""
        return self.title

    @property
    def noun(self) -> str:
        """The noun of the numbers shown."""
        return "change" if self.is_change else super().noun

    @property
    def limits(self) -> tuple[float, float]:
        """None: no end of an interval is unknown."""
        return -np.inf, np.inf

    @property
    def is_count(self) -> bool:
        """Whether numbers are those of units, which have no range."""
        return self.statistic == "users"

    @property
    def prefix(self) -> str:
        """Prefix of the names of the columns of the numbers shown."""
        return "change" if self.is_change else self.statistic

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


class DerivedColumn(ShownColumn):
    """The numbers of a roll-up or a comparison, with its further columns in place of counts."""

    compares = False

    def counted(self) -> list[tuple[str, int | None, np.ufunc]]:
        """Return the further columns and their digits."""
        return [(extra["key"], extra["decimals"], np.rint) for extra in self._extras()]

    def count_words(self) -> Json:
        """Return the further columns of the table, and the lines that the card has of them."""
        lines = ["sides", *(f"{name}_of_sides" for name in self._weights)]
        if not self.views[0].is_change:
            lines = [_COUNTS["".join(self._weights)]]
        return {"extras": self._extras(), "lines": lines}

    @property
    def _weights(self) -> list[str]:
        """Name of the column that cells are weighted by; none of numbers of units."""
        names = {name.removesuffix("_before") for name in self.table.column_names}
        return [name for name in ("records", "weight") if name in names][:1]

    def _extras(self) -> list[Json]:
        digits = self.views[0].decimals
        if not self.views[0].is_change:
            heading = "Released numbers" if self._weights == ["records"] else "Open places"
            weights = [extra_column(name, name.capitalize(), spare=True) for name in self._weights]
            return [extra_column("cells", heading, spare=True), *weights]
        return [
            extra_column("before", "Before", digits, spare=True),
            extra_column("after", "After", digits, spare=True),
            extra_column("p_value", "p-value", None, spare=True),
            *(extra_column(f"{name}_{side}", "") for name in self._weights for side in _SIDES),
        ]


def render_derived(
    table: pa.Table,
    statement: Mapping[str, Any],
    *,
    context: Layer | None = None,
    files: Sequence[str] = (),
) -> str:
    """Return the page as the text of one HTML file.

    Parameters
    ----------
    table : pyarrow.Table
        Of a roll-up or a comparison.
    statement : mapping
        Its statement.
    context : Layer, optional
        Public lines and names for the map, as `read_context` returns them.
    files : sequence of str
        Names of files beside the page, which it offers.
    """
    texts = template_values(table, statement)
    view = DerivedView.from_manifest(
        {"guarantee": {"privacy_unit": "", "promise": ""}, "plan": {}, **statement}
    )
    view = replace(
        view, title=texts["heading"], shown=statement["statistic"], name=texts["releases"]
    )
    shown = DerivedColumn(
        table, statement, (view,), None, has_all=True, rows=np.arange(table.num_rows)
    )
    slots = derived_slots(table, statement["grid"].get("timeslot"))
    data, grades = page_data(table, [shown], slots, context), view.grades(table)
    words = data["text"]
    words["bound"] = words.pop("interval_half_width")
    if view.is_change:
        words |= {name: words.pop(f"change_{name}") for name in _OF_CHANGES}
    values = texts | {
        "view": view,
        "words": "derived",
        "context": context,
        "estimator": "raw",
        "one_number": [],
        "hexagons": len(data["names"]),
        "released_cells": 0 if view.is_change else int(np.sum(table["cells"].to_numpy())),
        "median_bound": view.amount_up(float(np.median(view.half_widths(table)))),
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
    return fill_page(values, data, statement, None, files)


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
        days, times = payload.column_texts(table, "days") or [], payload.column_texts(table, "slot")
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
    starts, slot = code_texts(payload.column_texts(table, sides[0]), in_order=True)
    # Slots pair one to one.
    other = dict(zip(*(table[name].to_pylist() for name in (sides[0], sides[-1])), strict=True))
    spans = [
        [payload.slot_text(name, _slot_end(name, seconds)) for name in (start, other[start])]
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
    is_change = kind == "comparison"
    roles = {"First": "before", "Second": "after"} if is_change else {"Release": "source"}
    releases = {role: statement[name] for role, name in roles.items()}
    periods = [
        f"{role}: {release['period']}" if is_change else release["period"]
        for role, release in releases.items()
    ]
    publishers = dict.fromkeys(text for entry in releases.values() if (text := entry["publisher"]))
    names, n_days = _release_names([*releases.values()]), len(statement.get("releases", ()))
    heading = render_sentence(
        TEXTS,
        "heading",
        kind=kind,
        statistic=noun(statistic),
        value=spoken_value(dataset),
        of_units=statistic == "users",
        days=n_days,
        by=statement.get("by", ""),
    )
    values = {
        "heading": heading,
        "statistic": (statistic, noun(statistic)),
        "releases": " \u2192 ".join(names),
        "first": names[0],
        "second": names[-1],
        "unit": unit_of_statistic(statistic, dataset["value_unit"] or ""),
        "cells": table.num_rows,
        "cost": render_sentence(TEXTS, "cost", kind=kind, days=n_days),
        "covers": statement["covers"],
        "not_covered": statement.get("not_covered", ""),
        "sources": [
            render_sentence(TEXTS, "source", role=role, identity=release)
            for role, release in releases.items()
        ],
        # Periods and publishers, under the title.
        "origin": {
            "period": "; ".join(periods),
            "brief_period": "",
            "publisher": "; ".join(publishers),
        },
    }
    for name in ("verdicts", "discoveries", "pairing"):
        values[name] = render_sentence(TEXTS, name, statement=statement) if is_change else ""
    return values


def _release_names(releases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a name of each release: its data set, and in a comparison its period or request."""
    if len(releases) == 1:
        return [releases[0]["dataset"]]
    names = [f"{entry['dataset']}, {entry.get('brief_period', '')}" for entry in releases]
    if len({*names}) < len(names) or any(name.endswith(", ") for name in names):
        return [f"{entry['dataset']}, request {entry['request'][:8]}" for entry in releases]
    return names
