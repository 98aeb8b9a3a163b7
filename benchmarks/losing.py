"""Where private maps lose to one constant: few users, no structure, values piled at the bounds.

``python -m benchmarks.losing [--worlds N] [--runs N] [--epsilon E] [--out FOLDER]``. Simulated
records of 20, 50 and 200 users in 20 cells, each user in five of them, values within 0 and 65.
Means of cells are unrelated, or nearly the same, or the values of a user in a cell are nearly all
at one bound, at the upper one with a chance of the cell's. Prints mean absolute errors over cells,
worlds (seeds from 0 up) and runs, of the best constant, plain Laplace and our plans; with --out
also CSV.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import hexveil as hv
from hexveil.base import atomic_files

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one
import collection  # beside this file
import reach  # beside this file
from collection import truth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

USERS = (20, 50, 200)
CELLS, VISITED, RECORDS = 20, 5, 10
BOUNDS = (0, 65)
OF_USER, OF_RECORD = 4.0, 8.0
"""Standard deviations of a user's effect and of a record's."""
PILED = 0.95
"""Part of the records of a user in a cell that lie at the one bound, and not at the other."""


def around(cell: Ints, user: Ints, rng: np.random.Generator, *, alike: bool) -> Floats:
    """Return values around means of cells that hardly differ, or say nothing about each other."""
    level = rng.normal(30.0, 0.5, CELLS) if alike else rng.uniform(15.0, 45.0, CELLS)
    return collection.around(level, cell, user, rng, of_user=OF_USER, own=OF_RECORD)


def piled(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return values at one bound or the other, those of a user in a cell nearly all at one."""
    chance = rng.uniform(0.2, 0.8, CELLS)
    upper = rng.random((user.max() + 1, CELLS)) < chance
    kept = rng.random(cell.size) < PILED
    return np.where(upper[user, cell] == kept, float(BOUNDS[1]), float(BOUNDS[0]))


KINDS: dict[str, collection.Values] = {
    "few users": partial(around, alike=False),
    "no structure": partial(around, alike=True),
    "piled at the bounds": piled,
}


def world(kind: str, users: int, seed: int) -> hv.Dataset:
    """Return the records of a kind, read into sums."""
    rng = np.random.default_rng([seed, users, list(KINDS).index(kind)])
    visited = np.argsort(rng.random((users, CELLS)), axis=1)[:, :VISITED].ravel()
    many = 1 + rng.poisson(RECORDS - 1, visited.size)
    cell = np.repeat(visited, many)
    user = np.repeat(np.arange(users).repeat(VISITED), many)
    value = np.clip(KINDS[kind](cell, user, rng), *BOUNDS)
    return hv.read(
        pa.table({"user": user, "cell": cell, "value": value}),
        user="user",
        value="value",
        bounds=BOUNDS,
        cells=hv.Labels("cell"),
        select=hv.Select(min_users=1),
        repeats="keep",
    )


def errors_of(kind: str, users: int, given: argparse.Namespace) -> Iterator[reach.Found]:
    """Yield the errors of each way over all worlds of a kind, a number per world."""
    found: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for seed in range(given.worlds):
        dataset = world(kind, users, seed)
        true = truth(dataset)
        found[reach.CONSTANT, False].append(reach.constant(true))
        for way in (reach.PAPERS[0], *reach.ours(given.clipping_range)):
            runs = given.runs, given.runs
            for one in reach.measured(dataset, true, way, given.epsilon, runs):
                found[one.name, one.ours].append(one.mean)
    for (name, ours), each in found.items():
        yield reach.Found.of(name, f"{kind}, {users}", each, ours=ours)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=4, help="of each world")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--clipping-range", nargs="+", default=list(reach.INTERVALS))
    parser.add_argument("--out", type=Path, help="where the CSV goes")
    given = parser.parse_args()
    print(
        f"{CELLS} cells, epsilon {given.epsilon}, {given.worlds} worlds of {given.runs} runs each"
    )
    columns = [(kind, users) for kind in KINDS for users in USERS]
    found = [one for column in columns for one in errors_of(*column, given)]
    reach.show(found, "bounds 0 and 65", "records and users")
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        atomic_files.write(
            given.out / "reach-losing.csv", reach.table(found, "", by="records and users")
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
