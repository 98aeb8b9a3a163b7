"""Data of the page's scripts: every outline once, and one compact column per released number.

A few thousand hexagons in tens of slots make a hundred thousand rows, so rows hold indexes
instead of names, and numbers keep only the digits that are shown. Bounds are rounded outwards, so
that the page never shows a narrower interval than the released one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.report.accuracy_text import CUT_OFF
from hexveil.report.manifest_view import ManifestView
from hexveil.report.templates import render_sentence

Timeslots = tuple[list[str], list[str], list[int] | None]
"""Start and text of each timeslot, and the timeslot of each cell."""
QUALITIES = ("good", "caution", CUT_OFF, "noise")
ABSENT = "not published"
"""Of a cell that another value column of the page has."""
GRADES = (*QUALITIES, "closed", "higher", "lower", "cannot be told", ABSENT)
"""All that a cell of some page can be, in the order in which the scripts number it."""
UNSURE = ("noise", "cannot be told")


def script_json(value: object) -> str:
    """Return JSON that can stand inside a script element whatever text it holds."""
    # Escapes of JSON for what could end the script element, or a line in old readers.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def timeslots_of(table: pa.Table) -> Timeslots:
    """Return start and text of each timeslot of a release, and the timeslot of each cell."""
    starts, slot = code_texts(column_texts(table, "slot"), in_order=True)
    ends = column_texts(table, "slot_end")
    end_of = dict(zip(column_texts(table, "slot") or [], ends, strict=True)) if ends else {}
    return starts, [slot_text(start, end_of.get(start, "")) for start in starts], slot


def opening_slot(slot: Sequence[int] | None, quality: Sequence[int]) -> int:
    """Return the slot with the most good cells; of equals the one with the most that are no noise.

    Of equals again it is the one with the most that are not closed.

    Examples
    --------
    >>> opening_slot([0, 0, 1, 1, 2], [3, 1, 0, 3, 1])
    1
    """
    if slot is None:
        return 0
    merits = [[0, 0, 0] for _ in range(max(slot) + 1)]
    for number, grade in zip(slot, quality, strict=True):
        name = GRADES[grade]
        merits[number][0] += name in ("good", "higher", "lower")
        merits[number][1] += name not in ("closed", ABSENT, *UNSURE)
        merits[number][2] += name not in ("closed", ABSENT)
    return merits.index(max(merits))


def colour_ends(value: NDArray[np.float64], grades: Sequence[str]) -> tuple[float, float]:
    """Return the ends of the colour scale: of the values that are not noise."""
    usable = np.isfinite(value)
    # Noise is drawn faintly and would stretch the scale; with nothing but noise, all cells count.
    is_shown = usable & ~np.isin(grades, UNSURE)
    return round_ends(value[is_shown if is_shown.any() else usable])


def round_ends(numbers: NDArray[np.float64]) -> tuple[float, float]:
    """Return round ends of a scale that holds these numbers; 0 and 1 without any."""
    if not numbers.size:
        return 0.0, 1.0
    low, high = float(numbers.min()), float(numbers.max())
    # A difference too small for the twelve places of the ends is none.
    step = _nice_step(max((high - low) / 10, 1e-9) if high > low else max(abs(high) / 10, 1e-9))
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return round(low, 12), round(high if high > low else low + step, 12)


def ticks(low: float, high: float) -> list[float]:
    """Return three to seven round numbers from `low` to `high`."""
    step = _nice_step((high - low) / 4)
    start = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(start, math.floor(high / step + 1e-9) + 1)]


def scale_marks(low: float, high: float, *, signed: bool = False) -> list[tuple[float, str]]:
    """Return round numbers on the colour scale, each with its place in per cent.

    Parameters
    ----------
    low, high : float
        Ends of the scale.
    signed : bool
        Whether positive numbers have a sign too, as changes have.

    Examples
    --------
    >>> scale_marks(10, 30)
    [(0.0, '10'), (25.0, '15'), (50.0, '20'), (75.0, '25'), (100.0, '30')]
    """
    numbers = ticks(low, high)
    digits = max(len(f"{number:.9f}".rstrip("0").split(".")[1]) for number in numbers)

    def text(number: float) -> str:
        sign = "+" if signed and number else ""
        return f"{number:{sign},.{digits}f}".replace("-", "\u2212" if signed else "-")

    return [(round(100 * (number - low) / (high - low), 2), text(number)) for number in numbers]


def slot_text(start: str, end: str) -> str:
    """Return a slot for people: "19 Feb 2024, 15:00-16:00", or "15:00-16:00" if pooled."""
    date, _, clock = start.rpartition("T")
    end_date, _, end_clock = end.rpartition("T")
    year, month, day = date.split("-") if date else ("", "0", "0")
    if date and clock == end_clock == "00:00":
        clock = ""
    # The end of a day is read as 24:00 of that day, not as the next morning.
    elif end and (end_date != date or end_clock == "00:00"):
        end_clock = "24:00"
    facts = {"day": int(day), "month": int(month), "year": year, "start": clock, "end": end_clock}
    return render_sentence("page/slot.txt", "slot", **facts)


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return float(next(m for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999) * power)


def column_texts(table: pa.Table, column: str) -> list[str] | None:
    """Return a column as texts; None if there is none."""
    if column not in table.column_names:
        return None
    return [str(text) for text in table[column].to_pylist()]


def code_texts(
    texts: list[str] | None, *, in_order: bool = False
) -> tuple[list[str], list[int] | None]:
    """Return the distinct texts and, per row, the index of its text."""
    if texts is None:
        return [], None
    # Slots in order of time; hexagons in order of the table.
    distinct = sorted(set(texts)) if in_order else list(dict.fromkeys(texts))
    index = {text: i for i, text in enumerate(distinct)}
    return distinct, [index[text] for text in texts]


def label_columns(table: pa.Table, view: ManifestView) -> dict[str, list[str]]:
    """Return the columns that name a cell without a hexagon; none where slots alone do."""
    columns = table.column_names
    if "hexagon" in columns:
        return {}
    names = [name for name in view.label_columns if name in columns]
    if not names and "slot" not in columns and "slot_before" not in columns:
        names = ["cell"] if "cell" in columns else []
    return {f"label:{name}": column_texts(table, name) or [] for name in names}


def extra_column(
    key: str, name: str, decimals: int | None = 0, *, spare: bool = False
) -> dict[str, Any]:
    """Return the description of a further column that the card can name.

    Parameters
    ----------
    key : str
        In `columns`.
    name : str
        Its heading in the table; "" for a column that the table leaves out.
    decimals : int or None
        Digits after the point; None for two significant digits.
    spare : bool
        Whether narrow screens leave it out.
    """
    return {"key": key, "name": name, "decimals": decimals, "spare": spare}


def round_numbers(
    numbers: NDArray[np.float64], decimals: int | None, rule: np.ufunc
) -> list[float | None]:
    """Return numbers rounded by a rule to so many digits; None where they are not finite.

    Without a number of digits they have two significant ones.
    """
    if decimals is None:
        return [float(f"{number:.2g}") if math.isfinite(number) else None for number in numbers]
    # A hair's tolerance, or 0.3 * 10 = 3.0000000000000004 would be shown as 0.4.
    steps = numbers * 10.0**decimals
    rounded = np.where(np.abs(steps - np.rint(steps)) < 1e-6, np.rint(steps), rule(steps))
    if not decimals:
        return [int(number) if math.isfinite(number) else None for number in rounded]
    return [
        round(float(w) / 10.0**decimals, decimals) + 0.0 if math.isfinite(w) else None
        for w in rounded
    ]
