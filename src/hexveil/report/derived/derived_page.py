"""The page of a roll-up or a comparison: maps by timeslot, a table, and what its intervals cover.

One file without scripts. Its policy allows its one style element and nothing else; templates escape
every text.
"""

from __future__ import annotations

import itertools
import math
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
MAX_MAPS, MAX_ROWS = 48, 200
"""Timeslots and rows that a page has; the tables beside it have all."""


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
    maps = _maps(table, number, told, classes, digits) if "hexagon" in table.column_names else []
    text = (
        template_values(table, statement)
        | {
            "policy": Markup(policy([], style)),  # noqa: S704  base64 and our own words
            "style": Markup(style),  # noqa: S704  our own file, and colours
            "maps": maps[:MAX_MAPS],
            "left_out": max(0, len(maps) - MAX_MAPS),
            "legend": _legend(classes, digits, is_change=is_change, any_told=any(told)),
            **_rows(table, told, digits, is_change=is_change),
        }
    )
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
            rate=f"{statement['false_discovery_rate']:.3g}",
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
) -> list[dict[str, Any]]:
    """Return a drawing for each timeslot, with its title."""
    rows = table.to_pylist()
    outlines = HexagonOutlines.of([row["hexagon"] for row in rows])
    by_slot: dict[str, dict[str, tuple[str, str]]] = {}
    for row, is_told in zip(rows, told, strict=True):
        ends = [f"{row[f'{number}_{end}']:.{digits}f}" for end in ("low", "high")]
        description = render_sentence(
            TEXTS,
            "cell_title",
            place=row["hexagon"],
            number=f"{row[number]:.{digits}f}",
            low=ends[0],
            high=ends[1],
            verdict=row.get("verdict", ""),
        )
        colour = classes.style_class(row[number]) if is_told else BLANK
        by_slot.setdefault(_slot(row), {})[row["hexagon"]] = colour, description
    return [
        {"title": slot, "drawing": Markup(outlines.draw(cells, slot))}  # noqa: S704  escaped there
        for slot, cells in sorted(by_slot.items())
    ]


def _slot(row: Mapping[str, Any]) -> str:
    """Return the timeslot of a row, or both."""
    if "slot_before" in row:
        slots = {"before": row["slot_before"], "after": row["slot_after"]}
        return render_sentence(TEXTS, "slot_change", **slots)
    return str(row.get("slot", ""))


def _legend(
    classes: ColourClasses, digits: int, *, is_change: bool, any_told: bool
) -> list[dict[str, str]]:
    if is_change and not any_told:
        return [{"colour": BLANK, "text": "cannot be told"}]
    edges = classes.edges()
    items = [
        {
            "colour": f"c{i}",
            "text": f"{low:+.{digits}f} to {high:+.{digits}f}"
            if is_change
            else f"{low:.{digits}f} to {high:.{digits}f}",
        }
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
