"""How much worse Auto is than the mechanism that was best in hindsight, on real records.

Run: python benchmarks/auto.py FOLDER, FOLDER the one of shared records, whose data/ holds
surat_itms.parquet and warsaw_buses.parquet. For each cell with at
least 20 users, and each ε, every candidate's mean absolute error is simulated on the cell's own
user means. Regret is the error of the one that Auto chose, over the least error of all, less one.
The least is that of 10,000 trials, so chance makes it a little too small and the regrets too large.
Prints regrets in percent, averaged over the cells of a set; flights are other records, for
comparison. Fails if the default prior's regret is above 15 % on average over all cells of Surat and
Warsaw and all ε. Error figures only: no value of a record is printed or kept.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hexveil as hv
from hexveil.mechanisms.single_cell.auto import PAPERS_MECHANISMS
from hexveil.simulation import flights
from hexveil.simulation.own_cells import OwnCell, own_cell

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one
from collection import BUSES

EPSILONS = ("0.25", "0.5", "1", "2")
TRIALS, MIN_USERS, LIMIT = 10_000, 20, 0.15
SURAT: dict[str, Any] = {"timeslot": "1h", "timezone": "Asia/Kolkata", "slot": "pooled"}
WARSAW: dict[str, Any] = {"timeslot": "1h", "timezone": "Europe/Warsaw"}
SPEEDS = hv.evaluation.Normal(20.66769, 10.730)  # as the papers state them
PRIORS = {
    "default: per user, over an unknown range": hv.mechanisms.Auto().prior,
    "uniform per user": hv.evaluation.PerUser(),
    "uniform per sample": hv.evaluation.Uniform(),
    "normal per user": hv.evaluation.PerUser(SPEEDS),
    "normal per sample": SPEEDS,
}


def datasets(folder: Path) -> Iterator[tuple[str, hv.Dataset, dict[str, Any]]]:
    """Yield each set's name, its records, and the priors it is judged under."""
    select = hv.Select(min_users=MIN_USERS)
    for name, file, bounds, slots in (
        ("Surat", "surat_itms.parquet", (0, 65), SURAT),
        ("Warsaw", "warsaw_buses.parquet", (0, 90), WARSAW),
    ):
        for resolution in (5, 6, 7, 8):
            cells = hv.Cells(resolution=resolution, **slots)
            source = folder / "data" / file
            options: dict[str, Any] = {"cells": cells, "select": select, **BUSES}
            read = hv.read(source, bounds=bounds, **options)
            yield f"{name}, resolution {resolution}", read, PRIORS
    air: dict[str, Any] = {"user": "tailnum", "value": "ground speed", "time": "time_hour"}
    yield (
        "flights by destination",
        hv.read(
            flights.records(), bounds=(0, 600), cells=hv.Labels("dest"), select=select,
            repeats="keep", **air,
        ),
        {name: prior for name, prior in PRIORS.items() if "normal" not in name},
    )  # fmt: skip


def hindsight(cell: OwnCell) -> dict[tuple[str, float], float]:
    """Return the mean absolute error of each candidate at each ε, on the cell's own user means."""
    table = hv.evaluation.evaluate(
        PAPERS_MECHANISMS, counts=cell.counts, user_means=cell.user_means, bounds=cell.bounds,
        epsilons=EPSILONS, trials=TRIALS,
    )  # fmt: skip
    keys = zip(table["mechanism"].to_pylist(), table["epsilon"].to_pylist(), strict=True)
    return dict(zip(keys, table["mae"].to_pylist(), strict=True))


def regrets(cell: OwnCell, choices: dict[str, Any]) -> dict[str, list[float]]:
    """Return, for each prior and each single mechanism, the regret at each ε."""
    errors = hindsight(cell)
    found: dict[str, list[float]] = {name: [] for name in choices}
    for epsilon in EPSILONS:
        of_all = {one.name: errors[one.name, float(epsilon)] for one in PAPERS_MECHANISMS}
        best = min(of_all.values())
        for name, prior in choices.items():
            plan = hv.mechanisms.Auto(prior=prior).plan(
                cell.counts, bounds=cell.bounds, epsilon=epsilon
            )
            found[name].append(of_all[plan.chosen.name] / best - 1)
        for name, error in of_all.items():
            found.setdefault(name, []).append(error / best - 1)
    return found


def show(title: str, table: dict[str, list[list[float]]]) -> None:
    """Print the regrets of a set in percent: at each ε, and their mean."""
    cells = len(next(iter(table.values())))
    print(f"\n{title}: {cells} cells\n{'':50}" + "".join(f"{e:>8}" for e in EPSILONS) + "    mean")
    singles = sorted((n for n in table if n not in PRIORS), key=lambda n: np.mean(table[n]))
    for name in [n for n in table if n in PRIORS] + singles[:2]:
        each = 100 * np.mean(table[name], axis=0)
        print(f"{name:50}" + "".join(f"{r:8.1f}" for r in each) + f"{each.mean():8.1f}")
    sys.stdout.flush()


def main() -> int:
    """Print a table for each set and one for all buses; return 1 if the limit is missed."""
    folder = Path(sys.argv[1])
    buses: dict[str, list[list[float]]] = {}
    for title, data, choices in datasets(folder):
        table: dict[str, list[list[float]]] = {}
        for number in range(len(data.public.cells.names())):
            for name, row in regrets(own_cell(data, number), choices).items():
                table.setdefault(name, []).append(row)
        show(title, table)
        if "flights" not in title:
            for name, rows in table.items():
                buses.setdefault(name, []).extend(rows)
    show("Surat and Warsaw", buses)
    regret = float(np.mean(buses[next(iter(PRIORS))]))
    print(f"\nregret of the default {regret:.1%}, allowed {LIMIT:.0%}")
    return int(regret > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
