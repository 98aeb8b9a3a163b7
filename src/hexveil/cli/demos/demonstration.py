"""Contents of a demonstration, and a summary of its map: from noisy and public numbers only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from hexveil.cli.output import formatting
from hexveil.report.accuracy_text import CUT_OFF

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    Where = Callable[[dict[str, Any]], str]


@dataclass(frozen=True)
class Show:
    """A subject of the demo.

    Attributes
    ----------
    name : str
        Of its folder and its run file, which is also a file of this package.
    inputs : str
        Names of the files beside it.
    about : tuple of str
        Label and text of the line that says what the records are.
    write : callable
        Writes the records and the lines beneath the map into a folder, and is told the share of
        the work that is done; returns how a row of the release is said to be placed.
    """

    name: str
    inputs: str
    about: tuple[str, str]
    write: Callable[[Path, Callable[[float], None]], Where]

    @property
    def run(self) -> str:
        """The run file."""
        return (files(__package__) / f"{self.name}.toml").read_text("utf-8")


def summary_lines(cells: pa.Table, place_name: Where, value_unit: str) -> list[str]:
    """Return the fastest and the slowest cell, and the number of cells of each quality.

    Only cells of good quality count, if there are any: the extremes of all cells would be those
    with the largest noise.

    Parameters
    ----------
    cells : pyarrow.Table
        A release.
    place_name : callable
        Returns the name of a cell's place, from its row.
    value_unit : str
    """
    every = cells.to_pylist()
    quality = Counter(row["mean_quality"] for row in every)
    good = [row for row in every if row["mean_quality"] == "good"]
    # Extremes of noisy numbers are mostly noise.
    rows = sorted(good or every, key=_number)
    label_end = " good cell" if good else ""
    qualities = ["good", "caution", *[CUT_OFF] * (CUT_OFF in quality), "noise"]
    counted = ", ".join(f"{quality[name]} {name}" for name in qualities)
    return [
        *formatting.wrapped("Fastest" + label_end, _sentence(rows[-1], place_name, value_unit)),
        *formatting.wrapped("Slowest" + label_end, _sentence(rows[0], place_name, value_unit)),
        *formatting.wrapped("Quality", f"of {len(every)} cells: {counted}. The map marks each."),
    ]


def _sentence(row: dict[str, Any], place_name: Where, value_unit: str) -> str:
    bound = row["mean_bound95"]
    bound_text = f"{bound:.0f}" if bound >= 10 else f"{bound:.2g}"
    accuracy = f"error at most {bound_text}, with probability 95%."
    if "mean_estimate" in row:
        accuracy = f"95% interval {row['mean_low']:.0f} to {row['mean_high']:.0f}."
    return (
        f"{_number(row):.0f} {value_unit} {place_name(row)}, {row['slot']} to "
        f"{row['slot_end']}; {accuracy}"
    )


def _number(row: dict[str, Any]) -> float:
    """Return a cell's estimate before clipping, or its raw number where there is none."""
    return float(row.get("mean_estimate", row["mean_raw"]))
