"""Errors and coverage of medians, shares and histograms with private presence.

The sets, the statistics and their division into tuning and judging sets are those of
`distributions.py`, written before any error was computed; ten million records of big.py are seen,
and no constant was chosen on them. None was chosen under a δ, on any set. Grid and units are
declared as they are, and cells to be in use: a holder who declares other numbers has other errors.
Noise is simulated; everything else is the code of a release. A cell's error is |estimate - truth|,
averaged over cells; "constant" is the best single number for all cells, known exactly, which nobody
may know.

    python benchmarks/presence_shapes.py tuning --runs 10
    python benchmarks/presence_shapes.py flights ten-million --runs 10 --deltas 0 1e-6
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base import atomic_files
from hexveil.mechanisms.contract import MemoryJournal, Meter, execute
from hexveil.mechanisms.distribution.shape_statistics import ShapeStatistics
from hexveil.mechanisms.presence.any_unit import PresenceSums
from hexveil.mechanisms.presence.shape_decoding import decode_shapes
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.model.cells import CellTable, Labels
from hexveil.model.declared_grid import DeclaredGrid
from hexveil.model.private_pairs import PrivatePairs
from hexveil.model.public_metadata import ValueLattice
from hexveil.model.statistic_terms import fine_bins, parse_statistics
from hexveil.planning.presence.presence_request import FleetDeclaration, PresenceRequest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one
import big
import distributions
from measuring import csv_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hexveil.model.statistic_terms import Term

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

RUNS, SEED = 25, 20_261_123
TEN_MILLION = "ten-million"


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
    delta: str


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a holder who knows fleet and grid would ask, the sums, and what is true of each cell."""

    request: PresenceRequest
    sums: PresenceSums
    truth: dict[str, Floats]

    @property
    def groups(self) -> tuple[Ints, ...]:
        """What cells of the declared grid share."""
        return self.request.grid.table.groupings()

    @classmethod
    def of_rows(
        cls,
        rows: tuple[Ints, Ints, Ints, Ints],
        totals: Floats,
        lattice: ValueLattice,
        terms: tuple[Term, ...],
        epsilon: str,
        table: CellTable | None = None,
    ) -> Prepared:
        """Prepare rows (cell, user, fine bin, records), and the sums of values of cells."""
        cell, user, fine, n = rows
        bins = fine_bins(lattice, terms)
        names = tuple(map(str, range(totals.size)))
        table = table or CellTable(Labels("cell"), labels={"cell": names})
        grid = DeclaredGrid(table, is_in_use=True)
        fleet = FleetDeclaration(int(np.unique(user).size))
        request = PresenceRequest(grid, lattice, fleet, Fraction(epsilon), terms=terms, bins=bins)
        counts = np.zeros((totals.size, bins.n_bins))
        np.add.at(counts, (cell, fine), n)
        statistics = ShapeStatistics(bins, lattice, terms)
        true = statistics.of(counts / counts.sum(axis=1, keepdims=True))
        means = float(lattice.lower) + float(lattice.quantum) * totals / counts.sum(axis=1)
        truth = dict(zip(statistics.columns, true.T, strict=True)) | {"mean": means}
        pairs = PrivatePairs(cell, user, n, np.zeros_like(n), by_bin=rows)
        return cls(request, PresenceSums(pairs), truth)


def prepared(chosen: distributions.DistributionSet, epsilon: str) -> Prepared:
    """Read a set of distributions.py."""
    dataset = chosen.load(statistics=chosen.statistics)
    pairs, rows = dataset.occupancy.local(), dataset.sums.bins
    assert rows is not None
    totals = np.zeros(pairs.n_cells)
    np.add.at(totals, pairs.cell, dataset.sums.total)
    by_bin = (pairs.cell[rows.pair], pairs.user[rows.pair], rows.bin, rows.count)
    terms = parse_statistics(chosen.statistics)[1]
    facts = dataset.public
    return Prepared.of_rows(by_bin, totals, facts.lattice, terms, epsilon, facts.cells)


def ten_million(epsilon: str) -> Prepared:
    """Count the records of big.py by bin."""
    lattice = ValueLattice.of(big.BOUNDS, "0.001")
    terms = parse_statistics(("p50", "p85", "share>30"))[1]
    bins, totals, keys = fine_bins(lattice, terms), np.zeros(big.CELLS), []
    for part in big.parts():
        cell, user = (part[name].to_numpy().astype(np.int64) for name in ("cell", "user"))
        quanta = np.rint(1000 * part["value"].to_numpy()).astype(np.int64)
        totals += np.bincount(cell, quanta, big.CELLS)
        fine = np.searchsorted(bins.edges, quanta)
        keys.append((user * big.CELLS + cell) * bins.n_bins + fine)
    key, n = np.unique(np.concatenate(keys), return_counts=True)
    pair, fine = np.divmod(key, bins.n_bins)
    user, cell = np.divmod(pair, big.CELLS)
    return Prepared.of_rows((cell, user, fine, n), totals, lattice, terms, epsilon)


def measure(
    name: str, purpose: str, given: Prepared, epsilon: str, runs: int, delta: str = "0"
) -> list[ShapeRow]:
    """Return a row for each statistic of one set at one epsilon and one delta."""
    request = replace(given.request, delta=Fraction(delta))
    plan = request.shape_allocation()
    print(name, plan.form, flush=True)
    decoded = []
    for run in range(runs):
        source = SimulatedNoise(np.random.default_rng([SEED, run]), 1)
        meter = Meter(plan.losses(), squared=bool(plan.delta))
        outputs = execute(plan, given.sums, source, MemoryJournal(), meter)
        decoded.append(decode_shapes(plan, outputs, request.measured, given.groups))
    rows = []
    for statistic, true in given.truth.items():
        k = request.measured.columns.index(statistic)
        errors = [np.abs(one.estimate[:, k] - true).mean() for one in decoded]
        slack = 1e-9 * max(1.0, float(np.abs(true).max()))
        inside = [
            ((one.low[:, k] <= true + slack) & (true - slack <= one.high[:, k])).mean()
            for one in decoded
        ]
        rows.append(
            ShapeRow(
                name,
                purpose,
                statistic,
                epsilon,
                request.fleet.units,
                true.size,
                runs,
                float(np.abs(true - np.median(true)).mean()),
                float(np.mean(errors)),
                float(np.std(errors) / np.sqrt(runs)),
                float(np.mean(inside)),
                delta,
            )
        )
    return rows


def show(row: ShapeRow) -> None:
    """Print one row."""
    print(
        f"{row.set:14s} ε {row.epsilon:4s} δ {row.delta:5s} {row.statistic:16s} "
        f"constant {row.constant:7.3g} error {row.error:7.3g} ± {row.standard_error:.2g} "
        f"covered {row.coverage:.3f} ({row.users} users, {row.cells} cells)",
        flush=True,
    )


def main() -> int:
    """Print the rows; write them if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    sets = (*distributions.PURPOSES, *distributions.SETS, TEN_MILLION)
    parser.add_argument("sets", nargs="+", choices=sets, metavar="SET")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--epsilons", nargs="+", default=["1"])
    parser.add_argument("--deltas", nargs="+", default=["0"])
    parser.add_argument("--out", type=Path, help="CSV file to write")
    given = parser.parse_args()
    loads: list[tuple[str, str, Callable[[str], Prepared]]] = [
        (one.name, one.purpose, partial(prepared, one))
        for one in distributions.SETS.values()
        if {one.name, one.purpose} & set(given.sets)
    ]
    if TEN_MILLION in given.sets:
        loads.append((TEN_MILLION, "seen", ten_million))
    rows = []
    for name, purpose, load in loads:
        for epsilon in given.epsilons:
            loaded = load(epsilon)
            for delta in given.deltas:
                found = measure(name, purpose, loaded, epsilon, given.runs, delta)
                rows += found
                for row in found:
                    show(row)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write(given.out, csv_of_rows(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
