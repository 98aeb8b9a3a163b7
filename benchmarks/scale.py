"""Planning and release of many users in many cells, beside reading their pairs from Parquet.

``python benchmarks/scale.py [--users N] [--cells N] [--pairs N] [--only PART ...]``. Without sizes
three sets are measured, up to 100,000 users in 10,000 hexagons with 10 million (cell, user) pairs.
The set is made from a fixed seed: some cells are visited far more often than others, and counts of
a pair have a long tail. The floor is reading cell, user and n of all pairs from Parquet into numpy:
the median of a reading before each part. Each part runs in a process of its own; CPU seconds count
all its threads, and neither the start of the interpreter with its libraries nor what the part
begins from (a data set, a plan). Prints a table: for each part CPU seconds as ratios to the floor,
the exponents with which they and peak memory grow, and limits; exits 1 if one is missed at the
largest size.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hexveil as hv
from hexveil.mechanisms import noise

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one

import measuring  # beside this file

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = ((10_000, 2_500, 1_000_000), (30_000, 5_000, 3_000_000), (100_000, 10_000, 10_000_000))
"""Users, cells and pairs."""
SEED, GROUP = 8, 2**20
BOUNDS, QUANTUM, EPSILON = (0, 65), "0.1", 1
SHARES, JOINT_SHARES = 20.0, 500.0
READ = 10_000_000
"""Pairs that the floor reads in all, in as many readings as that takes up to a hundred."""
DRAWS, SCALES, DRAW_SECONDS = 400_000, 1_288, 3.0
CENTRE, RESOLUTION = (21.17, 72.83), 8


def hexagons(number: int) -> list[int]:
    """Return so many hexagons around one place."""
    import h3  # noqa: PLC0415  only where it is used

    rings = math.ceil(math.sqrt(number / 3.0)) + 1
    disk = h3.grid_disk(h3.latlng_to_cell(*CENTRE, RESOLUTION), rings)
    return sorted(h3.str_to_int(one) for one in disk)[:number]


def generate(users: int, cells: int, pairs: int, file: Path) -> None:
    """Write the pairs, sorted by cell and user, with sums of values."""
    rng = np.random.default_rng(SEED)
    key = np.arange(max(users, cells)) % cells * users + np.arange(max(users, cells)) % users
    while key.size < pairs:
        drawn = rng.integers(0, users, int(1.2 * (pairs - key.size)) + 1_000)
        cell = (cells * rng.random(drawn.size) ** 1.5).astype(np.int64)
        key = np.unique(np.concatenate([key, cell * users + drawn]))
    needed = [np.unique(one, return_index=True)[1] for one in (key // users, key % users)]
    others = np.delete(np.arange(key.size), np.concatenate(needed))
    key = np.delete(key, rng.choice(others, key.size - pairs, replace=False))
    n = np.minimum(rng.zipf(2.5, key.size), 500)
    quanta = np.floor(rng.beta(2.0, 3.0, key.size) * n * BOUNDS[1] / float(QUANTUM))
    places = np.array(hexagons(cells), dtype=np.uint64)
    columns = {
        "hexagon": places[key // users],
        "user": key % users,
        "n": n,
        "sum": quanta * float(QUANTUM),
    }
    pq.write_table(pa.table(columns), file, compression="zstd", row_group_size=GROUP)


def dataset(file: Path) -> hv.Dataset:
    """Return the data set of the pairs and sums."""
    cells = hv.Cells(RESOLUTION, timeslot=None)
    options: dict[str, Any] = {"cells": cells, "min_users": 1, "accept_single_records": True}
    found = hv.from_sums(file, bounds=BOUNDS, quantum=QUANTUM, value="speed", **options)
    assert isinstance(found, hv.Dataset)
    return found


def plan(source: Any, **asked: Any) -> hv.Plan:  # noqa: ANN401  as hv.plan takes them
    """Return a plan within the bounds at the benchmark's loss: the same on any version."""
    options: dict[str, Any] = {"epsilon": EPSILON, "clipping_range": "bounds", "advise": False}
    made: hv.Plan = hv.plan(source, **options | asked)
    return made


def small(place: Path, **asked: Any) -> None:  # noqa: ANN401  as above
    """Plan, release and write two cells: what the first release imports is not measured."""
    names = pa.array(hexagons(2), pa.uint64()).take([0, 0, 1, 1])
    table = pa.table({"hexagon": names, "user": ["a", "b"] * 2, "n": [4, 5] * 2, "sum": [9.0] * 4})
    pq.write_table(table, place / "small.parquet")
    source = dataset(place / "small.parquet")
    book = hv.Ledger(place / "small.sqlite", dataset="small", budget=10)
    made = plan(source, **asked)
    hv.release(source, made, ledger=book, accept_noise=True).write(place / "small")


def reading(file: Path, _: Path) -> dict[str, float]:
    """Measure the reading of the pairs, on average over many readings where they are few."""
    names = ["hexagon", "user", "n"]
    pq.read_table(file, columns=names[:1])  # what the first reading sets up
    times = min(max(READ // pq.ParquetFile(file).metadata.num_rows, 1), 100)
    before = measuring.cpu()
    for _number in range(times):
        table = pq.read_table(file, columns=names)
        [table[name].to_numpy() for name in names]
    found = measuring.since(before)
    return found | {"cpu": found["cpu"] / times}


def planning(file: Path, place: Path, **asked: Any) -> dict[str, float]:  # noqa: ANN401  as above
    """Measure a plan."""
    source = dataset(file)
    small(place, **asked)
    before = measuring.cpu()
    made = plan(source, **asked)
    found = measuring.since(before)
    assert not isinstance(made.expected_error, dict)
    return found | {"epsilon": float(made.epsilon), "error": float(made.expected_error)}


def losing(file: Path, _: Path) -> dict[str, float]:
    """Measure the exact loss of ready decisions, with the errors that a plan computes beside it."""
    made = plan(dataset(file))
    before = measuring.cpu()
    replace(made)  # a plan computes its figures when it is created
    return measuring.since(before)


def drawing(_: Path, __: Path) -> dict[str, float]:
    """Measure the noise of 400,000 statistics in one call, at as many scales as a plan has."""
    rng = np.random.default_rng(SEED)
    scales = rng.choice(np.round(np.geomspace(10, 1e6, SCALES)), DRAWS)
    noise.add_laplace(np.zeros(2, dtype=np.int64), np.ones(2))
    found = []
    for _number in range(3):
        before = measuring.cpu()
        noise.add_laplace(np.zeros(DRAWS, dtype=np.int64), scales)
        found.append(measuring.since(before))
    return min(found, key=lambda one: one["cpu"])


def publishing(file: Path, place: Path, *, write: bool) -> dict[str, float]:
    """Measure a release (statistic, booking of all users, noise, tables), or writing its folder."""
    source = dataset(file)
    made = plan(source)
    small(place)
    book = hv.Ledger(place / "book.sqlite", dataset="scale", budget=10)
    before = measuring.cpu()
    done = hv.release(source, made, ledger=book, accept_noise=True)
    if write:
        before = measuring.cpu()
        done.write(place / "map")
    return measuring.since(before)


FLOOR, FIXED = "floor", "400,000 draws"
PARTS: dict[str, tuple[Callable[[Path, Path], dict[str, float]], float]] = {
    "per cell": (lambda *where: planning(*where, method="per-cell"), SHARES),
    "equal-split": (lambda *where: planning(*where, method="equal-split"), SHARES),
    "joint, mean": (planning, JOINT_SHARES),
    "joint, max": (lambda *where: planning(*where, objective="max"), JOINT_SHARES),
    "exact loss": (losing, SHARES),
    "release": (lambda *where: publishing(*where, write=False), SHARES),
    "output": (lambda *where: publishing(*where, write=True), SHARES),
    FIXED: (drawing, math.inf),
}
"""Each part, and how many times the floor it may take."""


def measured(size: tuple[int, int, int], only: list[str], folder: Path) -> list[measuring.Measured]:
    """Return what each part takes at one size."""
    users, cells, pairs = size
    file = folder / f"{users}-{cells}-{pairs}.parquet"
    if not file.exists():
        generate(*size, file)
    print(f"{users:,} users, {cells:,} cells, {pairs:,} pairs; seed {SEED}", flush=True)
    found, floors = {}, []
    for part in only or PARTS:
        # Between parts, so that what else runs on the machine meets floor and parts alike.
        for one in (FLOOR, part):
            found[one] = measuring.in_process(one, __file__, "--part", one, "--file", file)
        floors.append(found.pop(FLOOR)["cpu"])
    sizes = {"users": users, "cells": cells, "pairs": pairs}
    base = statistics.median(floors)
    return [line(part, sizes, base, one) for part, one in found.items()]


def line(
    part: str, sizes: dict[str, int], base: float, found: dict[str, float]
) -> measuring.Measured:
    """Return what was measured of a part, with its limit where it has one at this size."""
    most = PARTS[part][1]
    limits = {} if math.isfinite(most) else {"cpu": DRAW_SECONDS}
    if math.isfinite(most) and sizes["pairs"] >= SIZES[-1][2]:
        limits = {"ratio": most}
    return measuring.Measured(
        "scale", part, sizes, found["cpu"], base, int(found["peak"]), limits=limits
    )


def main() -> int:
    """Run one part, or all of them at each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--users", "--cells", "--pairs"):
        parser.add_argument(name, type=int)
    parser.add_argument("--only", nargs="+", default=[], choices=PARTS)
    parser.add_argument("--folder", type=Path, help="where the sets are kept")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    measuring.add_json(parser)
    given = parser.parse_args()
    if given.part:
        work = reading if given.part == FLOOR else PARTS[given.part][0]
        with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as place:
            return measuring.report(work(given.file, Path(place)))
    return measuring.in_folder(given, run)


def run(given: argparse.Namespace, folder: Path) -> int:
    """Measure each size; print a table."""
    asked = (given.users, given.cells, given.pairs)
    sizes = [asked] if all(asked) else list(SIZES)
    found = [one for size in sizes for one in measured(size, given.only, folder)]
    measuring.save(given.json, found)
    series = measuring.series(("pairs", one) for one in found)
    print(measuring.table(series))
    return int(any(one.last.missed() for one in series))


if __name__ == "__main__":
    sys.exit(main())
