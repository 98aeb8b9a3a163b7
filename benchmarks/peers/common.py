"""What the scripts of all libraries share: reading the work, cutting by hand, writing averages.

It runs in each library's own environment, with numpy and pyarrow and nothing of hexveil. A script
has functions from the work and settings to an average per cell, or to the quantiles and the share
of `QUANTILES`, and passes them to `main`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

EPSILON = 1.0
"""What a user may lose in all; less where a clipping range had a part of it before."""


QUANTILES = {"p50": 0.5, "p85": 0.85}
SHARE = "share"
"""Name of the column for the share of records above a threshold."""
QUERIES = 3
"""Statistics that ε is divided among where a library answers each by itself."""
CANDIDATES = 121
"""Values among which a library that asks for candidates selects a quantile."""


@dataclass(frozen=True)
class Work:
    """Records of users in cells 0 to `cells` - 1, all cells known beforehand, and their file."""

    file: Path
    user: NDArray[np.int64]
    cell: NDArray[np.int64]
    value: NDArray[np.float64]
    cells: int
    lower: float
    upper: float

    @classmethod
    def read(cls, file: Path, *, itself: bool) -> Work:
        """Return the records of a Parquet file, or none for a library that reads them `itself`."""
        schema = pq.read_schema(file)
        table = schema.empty_table() if itself else pq.read_table(file)
        columns = (table[name].to_numpy() for name in ("user", "cell", "value"))
        return cls(file, *columns, **json.loads(schema.metadata[b"public"]))

    def within(self, lower: float, upper: float) -> Work:
        """Return the same records with values clipped to narrower bounds."""
        value = np.clip(self.value, lower, upper)
        return replace(self, value=value, lower=lower, upper=upper)

    @property
    def bounds(self) -> tuple[float, float]:
        """Return both bounds."""
        return self.lower, self.upper

    @property
    def middle(self) -> float:
        """Return the middle of the bounds."""
        return (self.lower + self.upper) / 2

    def cut(self, cells: int, rows: int) -> Work:
        """Return at most `rows` random records of a user in a cell, in at most `cells` cells.

        Without cells: at most `rows` random records of a user, whatever their cells.
        """
        rng = np.random.default_rng()
        if cells:
            pair = self.user * self.cells + self.cell
            kept = some_of_each(pair, rows, rng)
            pairs = np.unique(pair[kept])
            chosen = np.zeros(pairs[-1] + 1, bool)
            chosen[pairs[some_of_each(pairs // self.cells, cells, rng)]] = True
            kept = kept[chosen[pair[kept]]]
        else:
            kept = some_of_each(self.user, rows, rng)
        return replace(self, user=self.user[kept], cell=self.cell[kept], value=self.value[kept])

    def by_cell(self) -> list[NDArray[np.float64]]:
        """Return the values of each cell."""
        order = np.argsort(self.cell, kind="stable")
        ends = np.cumsum(np.bincount(self.cell, minlength=self.cells))
        return np.split(self.value[order], ends[:-1])

    def filled(
        self, cell: ArrayLike, number: ArrayLike, other: float | None = None
    ) -> NDArray[np.float64]:
        """Return a number for each cell from those of some: the middle, or `other`, elsewhere."""
        found = np.full(self.cells, self.middle if other is None else other)
        found[np.asarray(cell, int)] = np.asarray(number, float)
        return found


def some_of_each(
    group: NDArray[np.int64], most: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the places of at most `most` members of each group, chosen at random."""
    size = len(group)
    order = rng.permutation(size)
    key = np.sort(group[order] * size + np.arange(size))
    starts = np.flatnonzero(np.diff(key // size, prepend=-1))
    place = np.arange(size) - np.repeat(starts, np.diff(starts, append=size))
    chosen: NDArray[np.int64] = order[key[place < most] % size]
    return chosen


RANGE = ("lower", "upper", "epsilon")


def in_range(work: Work, settings: dict[str, Any]) -> Work:
    """Return the work within the clipping range of some settings, whose loss is taken off."""
    global EPSILON  # noqa: PLW0603  scripts of all libraries read it
    EPSILON = settings.get("epsilon", 1.0)
    return work.within(settings["lower"], settings["upper"]) if "lower" in settings else work


def others(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that are not a clipping range."""
    return {name: value for name, value in settings.items() if name not in RANGE}


def main(
    averages: Callable[..., ArrayLike],
    *,
    itself: bool = False,
    **tasks: Callable[..., ArrayLike | Mapping[str, ArrayLike]],
) -> None:
    """Write what a task makes of the settings on the command line, within what it can be."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--settings", type=json.loads, default=[{}], help="a list, as JSON")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--task", choices=tasks, help="averages without it")
    given = parser.parse_args()
    work = Work.read(given.work, itself=itself)
    task = tasks[given.task] if given.task else averages
    parts = []
    for number, settings in enumerate(given.settings):
        for _ in range(given.repeats):
            made: Any = task(in_range(work, settings), **others(settings))
            found = made if isinstance(made, dict) else {"mean": made}
            names = [name for name in ("mean", *QUANTILES, SHARE) if name in found]
            columns = {"setting": np.full(work.cells, number), "cell": np.arange(work.cells)}
            columns |= {name: possible(work, name, found[name]) for name in names}
            parts.append(pa.table(columns))
    pq.write_table(pa.concat_tables(parts), given.out)


def possible(work: Work, name: str, numbers: ArrayLike) -> NDArray[np.float64]:
    """Return numbers of a column within what they can be, in its middle where there is none."""
    low, high = (0.0, 1.0) if name == SHARE else work.bounds
    known = np.asarray(numbers, float)
    return np.clip(np.where(np.isfinite(known), known, (low + high) / 2), low, high)
