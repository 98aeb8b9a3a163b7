"""Planning and release of many users in many cells, beside reading their pairs from Parquet.

``python benchmarks/scale.py [--users N] [--cells N] [--pairs N] [--only PART ...]``. Without sizes
three sets are measured, up to 100,000 users in 10,000 hexagons with 10 million (cell, user) pairs.
The set is made from a fixed seed: some cells are visited far more often than others, and counts of
a pair have a long tail. The floor is reading cell, user and n of all pairs from Parquet into numpy:
the median of a reading before each part. Each part runs in a process of its own; CPU seconds count
all its threads, and neither the start of the interpreter with its libraries nor what the part
begins from (the occupancy, a plan, a data set). Prints a ratio to the floor for each part and size,
the exponent with which its CPU seconds grow between sizes, and peak memory; exits 1 if a target is
missed at the largest size.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hexveil as hv
from hexveil.mechanisms import noise
from hexveil.mechanisms.clipped.clipped_allocation import ClippedAllocation
from hexveil.model.cells import CellTable
from hexveil.model.public_metadata import PublicMetadata, ValueLattice
from hexveil.planning.release_allocation import allocation_of
from hexveil.records.dataset import Sums
from hexveil.records.units import Units

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one

import measuring  # beside this file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hexveil.planning.allocation import PlanAllocation

SIZES = ((10_000, 2_500, 1_000_000), (30_000, 5_000, 3_000_000), (100_000, 10_000, 10_000_000))
"""Users, cells and pairs."""
SEED, GROUP = 8, 2**20
BOUNDS, QUANTUM, EPSILON = (0, 65), "0.1", 1
SHARES, JOINT_SHARES = 20.0, 500.0
READ = 10_000_000
"""Pairs that the floor reads in all, in as many readings as that takes up to a hundred."""
DRAWS, DRIVERS, DRAW_SECONDS = 400_000, 20_000, 3.0
CENTRE, RESOLUTION = (21.17, 72.83), 8


def generate(users: int, cells: int, pairs: int, folder: Path) -> None:
    """Write pairs.parquet, sorted by cell and user, with sums of values in quanta."""
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
    speed = rng.beta(2.0, 3.0, key.size)
    steps = int((BOUNDS[1] - BOUNDS[0]) / float(QUANTUM))
    columns = {
        "cell": key // users,
        "user": key % users,
        "n": n,
        "total": np.floor(speed * n * steps).astype(np.int64),
    }
    pq.write_table(
        pa.table(columns), folder / "pairs.parquet", compression="zstd", row_group_size=GROUP
    )


def columns(folder: Path, *names: str) -> list[np.ndarray]:
    """Return columns of the pairs."""
    table = pq.read_table(folder / "pairs.parquet", columns=list(names))
    return [table[name].to_numpy() for name in names]


def occupancy(folder: Path) -> hv.Occupancy:
    """Return the occupancy of the pairs."""
    cell, user, n = columns(folder, "cell", "user", "n")
    return hv.Occupancy(cell, user, n, int(cell[-1]) + 1, int(user.max()) + 1)


def facts(pairs: hv.Occupancy) -> PublicMetadata:
    """Return public facts of the pairs: cells are hexagons around one place."""
    import h3  # noqa: PLC0415  only where it is used

    rings = math.ceil(math.sqrt(pairs.n_cells / 3.0)) + 1
    disk = h3.grid_disk(h3.latlng_to_cell(*CENTRE, RESOLUTION), rings)
    chosen = sorted(h3.str_to_int(one) for one in disk)[: pairs.n_cells]
    grid = CellTable(hv.Cells(RESOLUTION, timeslot=None), np.array(chosen, dtype=np.uint64))
    return PublicMetadata(pairs, grid, ValueLattice.of(BOUNDS, QUANTUM), value="speed")


def dataset(folder: Path) -> hv.Dataset:
    """Return the data set of the pairs and sums."""
    (total,) = columns(folder, "total")
    pairs = occupancy(folder)
    ids = pa.array([f"vehicle {one}" for one in range(pairs.n_users)])
    return hv.Dataset(facts(pairs), Sums(total), Units(ids))


def plan(source: hv.Occupancy | PublicMetadata | hv.Dataset, **asked: Any) -> hv.Plan:  # noqa: ANN401  options of hv.plan
    """Return a plan within the bounds at the benchmark's loss: the same on any version."""
    bounds = BOUNDS if isinstance(source, hv.Occupancy) else None
    options: dict[str, Any] = {"epsilon": EPSILON, "bounds": bounds, "advise": False}
    options["clipping_range"] = "bounds"
    made: hv.Plan = hv.plan(source, **options | asked)
    return made


def expected_error(made: hv.Plan) -> float:
    """Return the expected error of a plan of the mean alone."""
    error = made.expected_error
    assert not isinstance(error, dict)
    return float(error)


def planned(folder: Path, source: hv.Dataset) -> hv.Plan:
    """Return the joint plan that an earlier part left behind; planned now if none did."""
    file = folder / "joint.pickle"
    if not file.exists():
        keep(folder, plan(source))
    rows: PlanAllocation = pickle.loads(file.read_bytes())  # noqa: S301  this program wrote it
    other = plan(source, method="equal-split")
    request = replace(other.request, method="joint", objective="mean")
    return replace(other, allocation=rows, request=request)


def keep(folder: Path, made: hv.Plan) -> None:
    """Leave a plan's rows for later parts."""
    (folder / "joint.pickle").write_bytes(pickle.dumps(made.allocation))


@contextlib.contextmanager
def clock() -> Iterator[dict[str, float]]:
    """Yield a mapping that has the CPU seconds of the block and the peak memory at its end."""
    found: dict[str, float] = {}
    begin = time.process_time()
    yield found
    found["cpu"] = time.process_time() - begin
    # The process's own high-water mark: ru_maxrss would start from its parent's.
    status = Path("/proc/self/status").read_text("utf-8")
    found["peak"] = int(status.split("VmHWM:")[1].split()[0]) * 1024


def floor(folder: Path) -> dict[str, float]:
    """Measure the reading of the pairs, on average over many readings where they are few."""
    columns(folder, "cell")  # what the first reading sets up
    rows = pq.ParquetFile(folder / "pairs.parquet").metadata.num_rows
    times = min(max(READ // rows, 1), 100)
    with clock() as found:
        for _ in range(times):
            columns(folder, "cell", "user", "n")
    return found | {"cpu": found["cpu"] / times}


def building(folder: Path) -> dict[str, float]:
    """Measure the construction of the occupancy."""
    cell, user, n = columns(folder, "cell", "user", "n")
    with clock() as found:
        hv.Occupancy(cell, user, n, int(cell[-1]) + 1, int(user.max()) + 1)
    return found


def planning(folder: Path, **asked: Any) -> dict[str, float]:  # noqa: ANN401  as above
    """Measure a plan."""
    pairs = occupancy(folder)
    plan(hv.Occupancy.from_dense([[1, 2], [2, 1]]), **asked)  # what the first plan imports
    with clock() as found:
        made = plan(pairs, **asked)
    return found | {"epsilon": float(made.epsilon), "error": expected_error(made)}


def joint(folder: Path) -> dict[str, float]:
    """Measure the joint plan of least average error of a data set, and leave it behind."""
    source = facts(occupancy(folder))
    plan(hv.Occupancy.from_dense([[1, 2], [2, 1]]))
    with clock() as found:
        made = plan(source)
    keep(folder, made)
    return found | {"epsilon": float(made.epsilon), "error": expected_error(made)}


def losing(folder: Path) -> dict[str, float]:
    """Measure the exact loss of ready decisions, with the errors that a plan computes beside it."""
    made = planned(folder, dataset(folder))
    with clock() as found:
        replace(made)  # a plan computes its figures when it is created
    return found


def noise_scales(made: hv.Plan, lattice: ValueLattice) -> NDArray[np.float64]:
    """Return the noise scale of each noised cell of a plan within the bounds."""
    allocation = allocation_of(made, lattice)
    assert isinstance(allocation, ClippedAllocation)
    return allocation.stage.statistics[0].scales


def noising(folder: Path) -> dict[str, float]:
    """Measure the noise of the joint plan's cells, each with its own scale."""
    source = dataset(folder)
    scales = noise_scales(planned(folder, source), source.public.lattice)
    noise.add_laplace(np.zeros(2, dtype=np.int64), np.ones(2))
    with clock() as found:
        noise.add_laplace(np.zeros(scales.size, dtype=np.int64), scales)
    return found


def drawing(folder: Path) -> dict[str, float]:
    """Measure the noise of 400,000 statistics in one call, at the scales of their joint plan."""
    del folder
    rng = np.random.default_rng(SEED)
    cell = np.concatenate([np.arange(DRAWS), rng.integers(0, DRAWS, 4 * DRAWS)])
    user = np.concatenate([np.arange(DRAWS) % DRIVERS, rng.integers(0, DRIVERS, 4 * DRAWS)])
    pairs = hv.Occupancy.from_coo(cell, user, np.minimum(rng.zipf(2.5, cell.size), 500))
    made = plan(pairs, epsilon=5 * EPSILON * pairs.n_cells / pairs.n_users)
    scales = noise_scales(made, ValueLattice.of(BOUNDS, QUANTUM))
    noise.add_laplace(np.zeros(2, dtype=np.int64), np.ones(2))
    found: dict[str, float] = {}
    for _ in range(3):
        with clock() as tried:
            noise.add_laplace(np.zeros(scales.size, dtype=np.int64), scales)
        found = min(found or tried, tried, key=lambda one: one["cpu"])
    return found | {"numbers": scales.size, "scales": np.unique(scales).size}


def publishing(folder: Path) -> dict[str, float]:
    """Measure a release: statistic, booking of all users in SQLite, noise, tables, manifest."""
    source = dataset(folder)
    made = planned(folder, source)
    with tempfile.TemporaryDirectory() as place:
        small(Path(place))
        book = hv.Ledger(Path(place) / "book.sqlite", dataset="scale", budget=10)
        with clock() as found:
            hv.release(source, made, ledger=book, accept_noise=True)
    return found


def small(place: Path) -> None:
    """Release and write two cells: what the first release imports is not measured."""
    pairs = hv.Occupancy.from_dense([[4, 5], [5, 4]])
    source = hv.Dataset(facts(pairs), Sums(np.array([9, 9, 9, 9])), Units(pa.array(["a", "b"])))
    book = hv.Ledger(place / "small.sqlite", dataset="small", budget=10)
    hv.release(source, plan(source), ledger=book, accept_noise=True).write(place / "small")


def writing(folder: Path) -> dict[str, float]:
    """Measure the output of a release: Parquet, CSV, GeoJSON, page, manifest, receipt."""
    source = dataset(folder)
    with tempfile.TemporaryDirectory() as place:
        small(Path(place))
        book = hv.Ledger(Path(place) / "book.sqlite", dataset="scale", budget=10)
        done = hv.release(source, planned(folder, source), ledger=book, accept_noise=True)
        with clock() as found:
            done.write(Path(place) / "map")
        found["bytes"] = sum(one.stat().st_size for one in (Path(place) / "map").iterdir())
    return found


PARTS: dict[str, tuple[Callable[[Path], dict[str, float]], float]] = {
    "occupancy": (building, SHARES),
    "per cell": (lambda folder: planning(folder, method="per-cell"), SHARES),
    "equal-split": (lambda folder: planning(folder, method="equal-split"), SHARES),
    "joint, mean": (joint, JOINT_SHARES),
    "joint, max": (lambda folder: planning(folder, objective="max"), JOINT_SHARES),
    "exact loss": (losing, SHARES),
    "noise": (noising, SHARES),
    "release": (publishing, SHARES),
    "output": (writing, SHARES),
    "400,000 draws": (drawing, math.inf),
}
"""Each part, and how many times the floor it may take."""


def measure(part: str, folder: Path) -> dict[str, float]:
    """Return what one part takes, in a process of its own."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, __file__, "--part", part, "--folder", str(folder)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    more = "".join(f"  {k} {v:.6g}" for k, v in found.items() if k not in ("cpu", "peak"))
    print(
        f"  {part:14}{found['cpu']:9.3f} s CPU{found['peak'] / 2**20:8.0f} MiB"
        f"{time.monotonic() - began:8.1f} s wall{more}",
        flush=True,
    )
    return found


def measured(
    size: tuple[int, int, int], only: list[str], folder: Path, file: Path | None = None
) -> dict[str, float]:
    """Return the CPU seconds of the floor and of each part at one size; save them, and memory."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "pairs.parquet").exists():
        generate(*size, folder)
    users, cells, pairs = size
    about = pq.ParquetFile(folder / "pairs.parquet").metadata
    print(
        f"{users:,} users, {cells:,} cells, {pairs:,} pairs; {about.num_row_groups} row groups of "
        f"at most {GROUP:,}, seed {SEED}",
        flush=True,
    )
    found: dict[str, dict[str, float]] = {}
    floors = []
    for part in only or PARTS:
        # Between parts, so that what else runs on the machine meets floor and parts alike.
        floors.append(measure("floor", folder)["cpu"])
        found[part] = measure(part, folder)
    base = statistics.median(floors)
    sizes = {"users": users, "cells": cells, "pairs": pairs}
    measuring.save(file, [line(part, sizes, base, one) for part, one in found.items()])
    return {"floor": base} | {part: one["cpu"] for part, one in found.items()}


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


def show(sizes: list[tuple[int, int, int]], found: list[dict[str, float]]) -> int:
    """Print ratios and exponents; return 1 if a target is missed at the largest size."""
    print("\n| part | " + " | ".join(f"{size[2]:,} pairs" for size in sizes) + " | grows | limit |")
    print("|---|" + "---|" * (len(sizes) + 2))
    missed = 0
    grown = math.log(sizes[-1][2] / sizes[0][2]) if len(sizes) > 1 else math.nan
    for part in found[-1]:
        cpu = [one[part] for one in found]
        ratios = [one[part] / one["floor"] for one in found]
        limit = PARTS[part][1] if part in PARTS else math.inf
        late = ratios[-1] > limit or (part.endswith("draws") and cpu[-1] > DRAW_SECONDS)
        missed |= late and sizes[-1][2] >= SIZES[-1][2]
        exponent = math.log(cpu[-1] / cpu[0]) / grown
        allowed = f"{limit:g}" if math.isfinite(limit) else ""
        allowed = f"{DRAW_SECONDS:g} s" if part.endswith("draws") else allowed
        shown = " | ".join(f"{r:.1f} ({c:.2f} s)" for r, c in zip(ratios, cpu, strict=True))
        grows = "" if math.isnan(exponent) else f"{exponent:.2f}"
        print(f"| {part} | {shown} | {grows} | {allowed}{' MISSED' * late} |")
    return int(missed)


def main() -> int:
    """Run one part, or all of them at each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--users", "--cells", "--pairs"):
        parser.add_argument(name, type=int)
    parser.add_argument("--only", nargs="+", default=[], choices=PARTS)
    parser.add_argument("--folder", type=Path, help="where the sets are kept")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    measuring.add_json(parser)
    given = parser.parse_args()
    if given.part:
        work = floor if given.part == "floor" else PARTS[given.part][0]
        print(json.dumps(work(given.folder)))
        return 0
    asked = (given.users, given.cells, given.pairs)
    sizes = [asked] if all(asked) else list(SIZES)
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as temporary:
        base = given.folder or Path(temporary)
        found = [
            measured(size, given.only, base / "-".join(map(str, size)), given.json)
            for size in sizes
        ]
    return show(sizes, found)


if __name__ == "__main__":
    sys.exit(main())
