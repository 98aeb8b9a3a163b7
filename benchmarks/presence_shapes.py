"""Errors and coverage of medians, shares and histograms with private presence.

The sets, the statistics and their division into tuning and judging sets are those of
`distributions.py`, written before any error was computed; ten million records of big.py are seen,
and no constant was chosen on them. Grid and fleet are declared as they are, and cells to be in use:
a holder who declares other numbers has other errors. Noise is simulated; everything else is the
code of a release. A cell's error is |estimate - truth|, averaged over cells; "constant" is the best
single number for all cells, known exactly, which nobody may know.

    python benchmarks/presence_shapes.py tuning --runs 10
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base import atomic_files
from hexveil.mechanisms.contract import MemoryJournal, Meter, execute
from hexveil.mechanisms.presence.any_unit import PresenceSums
from hexveil.mechanisms.presence.shapes.shape_decoding import decode_shapes
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.model.cells import CellTable, Labels
from hexveil.model.declared_grid import DeclaredGrid
from hexveil.model.private_pairs import PrivatePairs
from hexveil.model.statistic_terms import parse_statistics
from hexveil.planning.presence.presence_request import FleetDeclaration
from hexveil.planning.presence.shape_request import ShapeRequest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one
import distributions
from measuring import csv_of_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    import hexveil as hv

    Floats = NDArray[np.float64]

RUNS, SEED = 25, 20_261_123


@dataclass(frozen=True)
class ShapeRow:
    """Results for one statistic of one set at one epsilon, over all runs."""

    set: str
    purpose: str
    statistic: str
    epsilon: str
    users: int
    cells: int
    runs: int
    constant: float
    error: float
    standard_error: float
    coverage: float


def request_of(
    dataset: hv.Dataset, statistics: tuple[str, ...], epsilon: str
) -> tuple[ShapeRequest, PresenceSums]:
    """Return the request that a holder who knows fleet and grid would make, and the sums."""
    pairs, facts, rows = dataset.occupancy.local(), dataset.public, dataset.sums.bins
    assert facts.bins is not None
    assert rows is not None
    names = tuple(map(str, range(pairs.n_cells)))
    grid = DeclaredGrid(CellTable(Labels("cell"), labels={"cell": names}), is_in_use=True)
    request = ShapeRequest(
        grid,
        facts.lattice,
        facts.bins,
        FleetDeclaration(pairs.n_users),
        Fraction(epsilon),
        parse_statistics(statistics)[1],
        has_mean=True,
    )
    by_bin = (pairs.cell[rows.pair], pairs.user[rows.pair], rows.bin, rows.count)
    private = PrivatePairs(pairs.cell, pairs.user, pairs.n, dataset.sums.total, by_bin=by_bin)
    return request, PresenceSums(private)


def measure(
    chosen: distributions.DistributionSet, dataset: hv.Dataset, epsilon: str, runs: int
) -> list[ShapeRow]:
    """Return a row for each statistic of one set at one epsilon."""
    request, sums = request_of(dataset, chosen.statistics, epsilon)
    plan, pairs = request.allocation(), dataset.occupancy.local()
    print(chosen.name, plan.form, flush=True)
    truth = distributions.truths(dataset, chosen.statistics)
    lattice, total = dataset.public.lattice, np.zeros(pairs.n_cells)
    np.add.at(total, pairs.cell, dataset.sums.total)
    truth["mean"] = float(lattice.lower) + float(lattice.quantum) * total / pairs.records_per_cell
    decoded = []
    for run in range(runs):
        source = SimulatedNoise(np.random.default_rng([SEED, run]), 1)
        outputs = execute(plan, sums, source, MemoryJournal(), Meter(plan.losses()))
        decoded.append(decode_shapes(plan, outputs, request.statistics))
    rows = []
    for name, true in truth.items():
        k = request.statistics.columns.index(name)
        errors = [np.abs(one.estimate[:, k] - true).mean() for one in decoded]
        slack = 1e-9 * max(1.0, float(np.abs(true).max()))
        inside = [
            ((one.low[:, k] <= true + slack) & (true - slack <= one.high[:, k])).mean()
            for one in decoded
        ]
        rows.append(
            ShapeRow(
                chosen.name,
                chosen.purpose,
                name,
                epsilon,
                pairs.n_users,
                pairs.n_cells,
                runs,
                float(np.abs(true - np.median(true)).mean()),
                float(np.mean(errors)),
                float(np.std(errors) / np.sqrt(runs)),
                float(np.mean(inside)),
            )
        )
    return rows


def show(row: ShapeRow) -> None:
    """Print one row."""
    print(
        f"{row.set:14s} ε {row.epsilon:4s} {row.statistic:16s} constant {row.constant:7.3g} error "
        f"{row.error:7.3g} ± {row.standard_error:.2g} covered {row.coverage:.3f} "
        f"({row.users} users, {row.cells} cells)",
        flush=True,
    )


def main() -> int:
    """Print the rows; write them if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    sets = (*distributions.PURPOSES, *distributions.SETS)
    parser.add_argument("sets", nargs="+", choices=sets, metavar="SET")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--epsilons", nargs="+", default=["1"])
    parser.add_argument("--out", type=Path, help="CSV file to write")
    given = parser.parse_args()
    rows = []
    for chosen in distributions.SETS.values():
        if not {chosen.name, chosen.purpose} & set(given.sets):
            continue
        dataset = chosen.load(statistics=chosen.statistics)
        for epsilon in given.epsilons:
            found = measure(chosen, dataset, epsilon, given.runs)
            rows += found
            for row in found:
                show(row)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write(given.out, csv_of_rows(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
