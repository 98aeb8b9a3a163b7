"""Errors of means under (ε, δ) and of pure plans, where occupancy is public.

``python -m benchmarks.approximate NAME ... [--runs N] [--ranges R ...] [--epsilon E] [--delta D]``
prints for each set the cells of a typical unit, and the mean absolute error over cells of what the
release publishes with its standard error, over whole releases through ledgers
of their own: of the default ("auto") and of each clipping range, without and with the δ. Plans have
their own defaults: nothing is tuned on these sets under a δ. NAME is one of collection.py, or
"delay".
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import hexveil as hv

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one
from clipping_ranges import ReleasedMeans
from collection import COLLECTION, GOALS
from distributions import SETS
from reach import truth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.planning import Plan
    from hexveil.planning.clipping_range.private_range import ClippingRangeMode

    Floats = NDArray[np.float64]

DELAY = "delay"
"""Departure delays by airport and hour, a set of distributions.py."""
RUNS = 8
RANGES: tuple[ClippingRangeMode, ...] = ("auto", "bounds", "private", "per-cell")


def published(dataset: hv.Dataset, plan: Plan, runs: int) -> list[ReleasedMeans]:
    """Return the means of so many releases of a plan, each through a ledger of its own."""
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for run in range(runs):
            file, budget = Path(folder) / f"{run}.sqlite", plan.requested_epsilon
            book = hv.Ledger(file, dataset="x", budget=budget, delta=plan.delta or None)
            release = hv.release(dataset, plan, ledger=book, accept_noise=True)
            made.append(ReleasedMeans.of(release))
    return made


def measure(name: str, given: argparse.Namespace) -> None:
    """Print the rows of a set."""
    dataset = SETS[DELAY].load(statistics=()) if name == DELAY else COLLECTION[name].load()
    true, cells = truth(dataset), dataset.occupancy.cells_per_user
    records = dataset.occupancy.records_per_user
    typical = int(np.sort(cells)[np.searchsorted(np.cumsum(records[np.argsort(cells)]),
                                                 records.sum() / 2)])  # fmt: skip
    print(
        f"{name}: {true.size} cells, half of the records of units in {typical} or more", flush=True
    )
    ways = ((one, has_delta) for one in given.ranges for has_delta in (False, True))
    for clipping_range, has_delta in ways:
        delta = given.delta if has_delta else None
        plan = hv.plan(
            dataset, epsilon=given.epsilon, delta=delta, clipping_range=clipping_range, advise=False
        )
        made = published(dataset, plan, given.runs)
        errors = np.array([np.abs(one.estimate - true).mean() for one in made])
        spread = errors.std(ddof=1) / np.sqrt(errors.size) if errors.size > 1 else float("nan")
        covered = np.mean([((one.low <= true) & (true <= one.high)).mean() for one in made])
        predicted = float(plan.primary_statistic.error.mean())
        print(
            f"  {clipping_range:8} {'delta ' + given.delta if has_delta else 'pure':12} "
            f"{plan.allocation.clipping.mode:10} error {errors.mean():.3g} ± {spread:.2g}, "
            f"predicted {predicted:.3g}, coverage {covered:.3f}",
            flush=True,
        )


def main() -> None:
    """Print the rows of the sets that are named, or of those with a goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[*GOALS], metavar="NAME")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--ranges", nargs="+", default=RANGES, choices=RANGES)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default="1e-6")
    given = parser.parse_args()
    for name in given.names:
        measure(name, given)


if __name__ == "__main__":
    main()
