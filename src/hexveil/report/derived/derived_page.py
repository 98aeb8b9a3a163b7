"""The page of a roll-up or a comparison: maps by timeslot, a table, and the meaning of intervals.

One file without scripts. Its policy allows its one style element and nothing else; templates escape
every text.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from hexveil.report.content_security_policy import policy
from hexveil.report.derived.class_maps import BLANK, ColourClasses, HexagonOutlines
from hexveil.report.manifest_view import noun, squared
from hexveil.report.templates import render_sentence, render_template

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

TEXTS = "derived.txt"
MAX_MAPS, MAX_SHAPES, MAX_ROWS = 48, 20_000, 200
"""Timeslots, hexagons of all of them, and rows that a page has; the tables beside it have all."""


def render_derived(table: pa.Table, statement: Mapping[str, Any]) -> str:
    """Return the page as the text of one HTML file.

    Parameters
    ----------
    table : pyarrow.Table
        Of a roll-up or a comparison.
    statement : mapping
        Its statement.
    """
    is_change = statement["kind"] == "comparison"
    number = "change" if is_change else "mean"
    values = np.asarray(table[number].to_numpy(), dtype=np.float64)
    told = [True] * table.num_rows
    if is_change:
        told = [verdict != "cannot be told" for verdict in table["verdict"].to_pylist()]
    scale = ColourClasses.around_zero if is_change else ColourClasses.between_ends
    classes = scale(values[np.array(told, dtype=np.bool_)])
    digits = _digits(statement)
    style = _asset("derived.css") + classes.style_rules()
    legend = _legend(classes, digits, is_change=is_change, any_told=any(told))
    text = template_values(table, statement) | {
        "policy": Markup(policy([], style)),  # noqa: S704  base64 and our own words
        "style": Markup(style),  # noqa: S704  our own file, and colours
        "legend": legend,
        **_maps(table, number, told, classes, digits),
        **_rows(table, told, digits, is_change=is_change),
    }
    return render_template("derived.html", text)


def template_values(table: pa.Table, statement: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that page and README.txt have in common.

    Parameters
    ----------
    table : pyarrow.Table
    statement : mapping
    """
    kind, dataset = statement["kind"], statement["dataset"]
    unit = dataset["value_unit"] or ""
    roles = (
        {"First": "before", "Second": "after"} if kind == "comparison" else {"Release": "source"}
    )
    values: dict[str, Any] = {
        "heading": render_sentence(
            TEXTS, "heading", kind=kind, statistic=noun(statement["statistic"]),
            value=dataset["value"],
        ),
        "unit": squared(unit) if statement["statistic"] == "variance" else unit,
        "cells": table.num_rows,
        "cost": render_sentence(TEXTS, "cost", kind=kind),
        "covers": statement["covers"],
        "not_covered": statement.get("not_covered", ""),
        "sources": [
            render_sentence(TEXTS, "source", role=role, identity=statement[name])
            for role, name in roles.items()
        ],
        "verdicts": "",
        "discoveries": "",
        "pairing": "",
    }  # fmt: skip
    return values | (_comparison_values(statement) if kind == "comparison" else {})


def _comparison_values(statement: Mapping[str, Any]) -> dict[str, str]:
    counts, cells = statement["verdicts"], statement["cells"]
    return {
        "verdicts": render_sentence(
            TEXTS,
            "verdict_counts",
            higher=counts["higher"],
            lower=counts["lower"],
            unclear=counts["cannot be told"],
        ),
        "discoveries": render_sentence(
            TEXTS,
            "discoveries",
            procedure=statement["procedure"],
            rate=f"{100 * statement['false_discovery_rate']:.3g} percent",
        ),
        "pairing": render_sentence(
            TEXTS,
            "pairing",
            days=statement["days_between"],
            only_before=cells["only_before"],
            only_after=cells["only_after"],
        ),
    }


def _maps(
    table: pa.Table, number: str, told: list[bool], classes: ColourClasses, digits: int
) -> dict[str, Any]:
    """Return a drawing for each timeslot with its title; of too many, those with most to tell."""
    if "hexagon" not in table.column_names:
        return {"maps": [], "left_out": 0}
    rows = [(_slot(row), row, one) for row, one in zip(table.to_pylist(), told, strict=True)]
    outlines = HexagonOutlines.of(table["hexagon"].to_pylist())
    count = Counter(slot for slot, _, is_told in rows if is_told)
    slots = sorted({slot for slot, _, _ in rows}, key=lambda slot: (-count[slot], slot))
    shown = sorted(slots[: max(1, min(MAX_MAPS, MAX_SHAPES // len(outlines.points)))])
    cells: dict[str, dict[str, tuple[str, str]]] = {slot: {} for slot in shown}
    for slot, row, is_told in rows:
        if slot in cells:
            colour = classes.style_class(row[number]) if is_told else BLANK
            cells[slot][row["hexagon"]] = colour, _describe_cell(row, number, digits)
    maps = [
        {"title": slot, "drawing": Markup(outlines.draw(drawn, slot))}  # noqa: S704  escaped there
        for slot, drawn in cells.items()
    ]
    return {"maps": maps, "left_out": len(slots) - len(shown)}


def _describe_cell(row: Mapping[str, Any], number: str, digits: int) -> str:
    """Return a cell's hexagon, number, interval and verdict in words."""
    keys = {"number": number, "low": f"{number}_low", "high": f"{number}_high"}
    amounts = {key: f"{row[column]:.{digits}f}" for key, column in keys.items()}
    verdict = row.get("verdict", "")
    return render_sentence(TEXTS, "cell_title", place=row["hexagon"], verdict=verdict, **amounts)


def _slot(row: Mapping[str, Any]) -> str:
    """Return the timeslot of a row, or both."""
    if "slot_before" in row:
        return _slot_change(row["slot_before"], row["slot_after"])
    return str(row.get("slot", ""))


@cache
def _slot_change(before: str, after: str) -> str:
    return render_sentence(TEXTS, "slot_change", before=before, after=after)


def _legend(
    classes: ColourClasses, digits: int, *, is_change: bool, any_told: bool
) -> list[dict[str, str]]:
    if is_change and not any_told:
        return [{"colour": BLANK, "text": "cannot be told"}]
    sign = "+" if is_change else ""
    # Zero, the middle of differences, has no sign.
    edges = [f"{edge:{sign if edge else ''}.{digits}f}" for edge in classes.edges()]
    items = [
        {"colour": f"c{i}", "text": f"{low} to {high}"}
        for i, (low, high) in enumerate(itertools.pairwise(edges))
    ]
    return [*items, {"colour": BLANK, "text": "cannot be told"}] if is_change else items


def _rows(table: pa.Table, told: list[bool], digits: int, *, is_change: bool) -> dict[str, Any]:
    """Return head, rows and caption of the table: cells that were told first, the surest first."""
    order = np.arange(table.num_rows)
    if is_change:
        p_value = np.asarray(table["p_value"].to_numpy())
        order = np.lexsort((order, p_value, ~np.array(told, dtype=np.bool_)))
    listed = table.take(order[:MAX_ROWS])
    columns = [name for name in table.column_names if name not in ("slot_end", "starts_at_utc")]
    rows = [[_cell_text(row[name], digits, name) for name in columns] for row in listed.to_pylist()]
    caption = f"{len(rows):,} of {table.num_rows:,} cells" + (
        ", the surest first" if is_change else ""
    )
    return {"head": columns, "rows": rows, "caption": caption}


def _cell_text(value: object, digits: int, name: str) -> str:
    if isinstance(value, float):
        return f"{value:.2g}" if name == "p_value" else f"{value:.{digits}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _digits(statement: Mapping[str, Any]) -> int:
    """Return digits after the point: a step is at most a five-hundredth of the bounds."""
    span = float(statement["bounds"]["upper"]) - float(statement["bounds"]["lower"])
    return min(9, max(0, math.ceil(-math.log10(span / 200))))


def _asset(name: str) -> str:
    return (resources.files("hexveil.report") / "assets" / name).read_text(encoding="utf-8")
