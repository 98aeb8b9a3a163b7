"""Three lines of what the demo's map says, from its noisy numbers and public facts only."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hexveil.cli.output import formatting
from hexveil.report.clipping_text import CUT_OFF

if TYPE_CHECKING:
    import pyarrow as pa

    from hexveil.cli.demos.demonstration import Where


def lines(cells: pa.Table, where: Where, value_unit: str) -> list[str]:
    """Return the fastest and the slowest cell, and how far the numbers can be trusted.

    Of the cells that are flagged good, if there are any: the ends of all would be those where the
    noise happens to be largest.

    Parameters
    ----------
    cells : pyarrow.Table
        A release.
    where : callable
        Says where a row's cell is.
    value_unit : str
    """
    every = cells.to_pylist()
    quality = Counter(row["mean_quality"] for row in every)
    good = [row for row in every if row["mean_quality"] == "good"]
    rows = sorted(good or every, key=lambda row: row["mean_raw"])
    of = " good cell" if good else ""
    shown = ["good", "caution", *[CUT_OFF] * (CUT_OFF in quality), "noise"]
    counted = ", ".join(f"{quality[name]} {name}" for name in shown)
    return [
        *formatting.wrapped("Fastest" + of, _said(rows[-1], where, value_unit)),
        *formatting.wrapped("Slowest" + of, _said(rows[0], where, value_unit)),
        *formatting.wrapped("Quality", f"of {len(every)} cells: {counted}. The map marks each."),
    ]


def _said(row: dict[str, Any], where: Where, value_unit: str) -> str:
    bound = row["mean_bound95"]
    off = f"{bound:.0f}" if bound >= 10 else f"{bound:.2g}"
    return (
        f"{row['mean_raw']:.0f} {value_unit} {where(row)}, {row['slot']} to {row['slot_end']}; "
        f"error at most {off}, with probability 95%."
    )
