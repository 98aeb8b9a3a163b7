"""Errors, coverage and stated errors of every clipping range, over the collection of record sets.

``python -m benchmarks.clipping_ranges tuning|judging|goal|NAME ... [--runs N] [--epsilons E ...]
[--ranges R ...] [--out FILE]`` prints a row for each set, epsilon and clipping range, and writes
them as CSV; rows of the file that are not measured now stay. Columns: mean absolute error over
cells of the published estimates and of the raw numbers; share of true averages that the stated 95 %
intervals cover, over all cells and for the worst cell; typical error that the release states over
the true error; share of cells graded good.
The constant is the median of the true averages, which nobody may know; `auto` is the default.

Every run is a whole release through a ledger of its own; rows of `auto` are those of the clipping
range that it takes, and name it. Judging sets are looked at once, after the last constant is chosen
(collection.py). docs/figures/clipping-ranges.csv has the rows of docs/understand/reach.md
(reach_page.py writes its tables).
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import hexveil as hv
from hexveil.base import atomic_files
from hexveil.base.errors import InputError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one
from collection import COLLECTION, Purpose, RecordSet, selected
from measuring import csv_of_rows
from reach import constant, truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hexveil.planning.clipping_range.private_range import ClippingRangeMode

    Floats = NDArray[np.float64]

EPSILONS = ("0.5", "1", "2", "5")
RANGES: tuple[ClippingRangeMode, ...] = ("bounds", "private", "per-cell", "auto")
RUNS = 8
PURPOSES: tuple[Purpose, ...] = ("tuning", "judging", "goal")


@dataclass(frozen=True)
class Row:
    """Results of one clipping range on one set at one epsilon, over all runs."""

    set: str
    purpose: str
    unit: str
    cells: int
    epsilon: str
    clipping_range: str
    taken: str
    runs: int
    constant: float
    error: float
    raw_error: float
    coverage: float
    worst_cell: float
    stated_over_true: float
    good: float


@dataclass(frozen=True, eq=False)
class ReleasedMeans:
    """Published means of one release, and what it states of them."""

    estimate: Floats
    raw: Floats
    low: Floats
    high: Floats
    typical_error: float
    good: Floats

    @classmethod
    def of(cls, release: hv.Release) -> ReleasedMeans:
        """Return the columns of a release; its best estimate is that with the clipping undone."""
        table = release.table
        best = next(
            name
            for name in ("mean_estimate", "mean_smoothed", "mean_raw")
            if name in table.column_names
        )
        names = (best, "mean_raw", "mean_low", "mean_high")
        estimate, raw, low, high = (
            np.asarray(table[name].to_numpy(), dtype=np.float64) for name in names
        )
        (accuracy,) = release.manifest["accuracy"]
        grades = np.array(table["mean_quality"].to_pylist())
        good = (grades == "good").astype(np.float64)
        return cls(estimate, raw, low, high, accuracy["typical_error"], good)


def releases(
    dataset: hv.Dataset, epsilon: str, clipping_range: ClippingRangeMode, runs: int
) -> list[ReleasedMeans]:
    """Return the means of so many releases of one plan, each through a ledger of its own."""
    plan = hv.plan(dataset, epsilon=epsilon, clipping_range=clipping_range, advise=False)
    with tempfile.TemporaryDirectory() as folder:
        made = []
        for run in range(runs):
            book = hv.Ledger(
                Path(folder) / f"{run}.sqlite", dataset="ranges", budget=plan.requested_epsilon
            )
            release = hv.release(
                dataset, plan, ledger=book, accept_noise=True, estimates=("raw", "smoothed")
            )
            made.append(ReleasedMeans.of(release))
        return made


def taken_by_auto(dataset: hv.Dataset, epsilon: str) -> ClippingRangeMode:
    """Return the clipping range that "auto" takes."""
    plan = hv.plan(dataset, epsilon=epsilon, clipping_range="auto", advise=False)
    return plan.allocation.clipping.mode


def summarise(
    chosen: RecordSet, true: Floats, epsilon: str, name: str, made: Sequence[ReleasedMeans]
) -> Row:
    """Return the row of some releases."""
    errors = np.array([np.abs(one.estimate - true) for one in made])
    raw = np.array([np.abs(one.raw - true) for one in made])
    # A bound that rounds beside the truth by the last digit covers it.
    slack = 1e-9 * float(np.ptp(true) + 1.0)
    covered = np.array([(one.low - slack <= true) & (true <= one.high + slack) for one in made])
    stated = np.array([one.typical_error for one in made])
    return Row(
        chosen.name,
        chosen.purpose,
        chosen.unit,
        true.size,
        epsilon,
        name,
        name,
        len(made),
        constant(true),
        float(errors.mean()),
        float(raw.mean()),
        float(covered.mean()),
        float(covered.mean(axis=0).min()),
        float(stated.mean() / errors.mean()),
        float(np.mean([one.good for one in made])),
    )


def measure(chosen: RecordSet, given: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of one set."""
    dataset = chosen.load()
    true = truth(dataset)
    for epsilon in given.epsilons:
        rows: dict[str, Row] = {}
        # "auto" last: its releases are those of the clipping range that it takes.
        for name in sorted(given.ranges, key="auto".__eq__):
            taken = taken_by_auto(dataset, epsilon) if name == "auto" else name
            try:
                row = rows.get(taken) or summarise(
                    chosen, true, epsilon, taken, releases(dataset, epsilon, taken, given.runs)
                )
            except InputError as trouble:
                print(f"  {chosen.name}, {name} at {epsilon}: {trouble}", flush=True)
                continue
            rows[name] = row
            yield replace(row, clipping_range=name)


def show(row: Row) -> None:
    """Print one row."""
    print(
        f"{row.set:18s} ε {row.epsilon:4s} {row.clipping_range:9s} constant {row.constant:7.3g} "
        f"error {row.error:7.3g} raw {row.raw_error:7.3g} covered {row.coverage:.3f} "
        f"worst {row.worst_cell:.2f} stated {row.stated_over_true:.2f} good {row.good:.2f}",
        flush=True,
    )


def load_rows(file: Path) -> list[Row]:
    """Return the rows of a CSV."""
    kinds: dict[str, Any] = {"int": int, "float": float, "str": str}
    with file.open(encoding="utf-8", newline="") as lines:
        return [
            Row(*(kinds[str(field.type)](line[field.name]) for field in fields(Row)))
            for line in csv.DictReader(lines)
        ]


def merge(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Return all rows, the new one where both have one, in the order of collection and options."""

    def key(row: Row) -> tuple[int, float, int]:
        return list(COLLECTION).index(row.set), float(row.epsilon), RANGES.index(row.clipping_range)

    by_key = {key(row): row for row in (*old, *new)}
    return [by_key[place] for place in sorted(by_key)]


def arguments() -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", choices=[*PURPOSES, *COLLECTION], metavar="SET")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--epsilons", nargs="+", default=list(EPSILONS))
    parser.add_argument("--ranges", nargs="+", default=list(RANGES), choices=RANGES)
    parser.add_argument("--out", type=Path, help="CSV file to write")
    return parser.parse_args()


def main() -> int:
    """Print the rows; write them if a file is named."""
    given = arguments()
    sets = [one for p in PURPOSES if p in given.sets for one in selected(p)]
    sets += [COLLECTION[name] for name in given.sets if name in COLLECTION]
    rows = []
    for chosen in sets:
        for row in measure(chosen, given):
            show(row)
            rows.append(row)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        old = load_rows(given.out) if given.out.exists() else []
        atomic_files.write(given.out, csv_of_rows(merge(old, rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
