"""Numbers of a table rounded to digits that their intervals can carry, for CSV and GeoJSON.

A digit is at most a twentieth of half of the narrowest interval, so 19.354014864810114 from 13.9 to
24.8 is 19.4. Ends are rounded outwards; scales, biases and bounds keep one digit more and are
rounded up, so that no error is understated. `cells.parquet` has the doubles.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Floats

SHARE = 20.0
"""Parts of half of the narrowest interval that a digit is at most."""
MOST_DIGITS = 12
_HAIR = 1e-6
"""Tolerance of rounding up or down, in steps."""
_NEAREST = ("", "_noisy", "_raw", "_estimate", "_smoothed", "_centre")
_SIDES = ("before", "after")
"""Numbers whose difference a comparison has."""
_UPWARDS = ("_scale", "_bias", "_error", "_bound95", "_expected_error")


def round_to_intervals(table: pa.Table) -> pa.Table:
    """Return the table with the numbers of each statistic rounded; other columns as they are.

    Examples
    --------
    >>> numbers = {"mean_raw": [19.354], "mean_low": [13.92], "mean_high": [24.78]}
    >>> round_to_intervals(pa.table(numbers)).to_pylist()
    [{'mean_raw': 19.4, 'mean_low': 13.9, 'mean_high': 24.8}]
    """
    for name in table.column_names:
        prefix = name.removesuffix("_low")
        if prefix == name or f"{prefix}_high" not in table.column_names:
            continue
        low, high = _numbers(table, name), _numbers(table, f"{prefix}_high")
        # A stranger's numbers may be of any size.
        with np.errstate(all="ignore"):
            widths = high - low
        widths = widths[np.isfinite(widths) & (widths > 0.0)]
        if not widths.size:
            continue
        half = float(widths.min()) / 2.0
        digits = min(MOST_DIGITS, max(0, math.ceil(-math.log10(half / SHARE))))
        table = _rounded(table, name, digits, np.floor)
        table = _rounded(table, f"{prefix}_high", digits, np.ceil)
        sides = _SIDES if prefix == "change" else ()
        for column in (*(f"{prefix}{ending}" for ending in _NEAREST), *sides):
            table = _rounded(table, column, digits, np.rint)
        for ending in _UPWARDS:
            table = _rounded(table, f"{prefix}{ending}", digits + 1, np.ceil)
    return table


def _rounded(table: pa.Table, name: str, digits: int, rule: Callable[[Floats], Floats]) -> pa.Table:
    if name not in table.column_names:
        return table
    with np.errstate(all="ignore"):
        steps = _numbers(table, name) * 10.0**digits
        # A hair of tolerance: 0.3 * 10 is 3.0000000000000004, which is not to become 0.4.
        multiples = np.where(np.abs(steps - np.rint(steps)) < _HAIR, np.rint(steps), rule(steps))
        numbers = np.round(multiples / 10.0**digits, digits) + 0.0
    index = table.column_names.index(name)
    return table.set_column(index, table.schema.field(index), pa.array(numbers, from_pandas=True))


def _numbers(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)
