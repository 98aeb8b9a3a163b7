"""From records to a folder at several numbers of pairs: seconds and memory of each step.

``python benchmarks/pairs.py [--pairs N ...] [--memory 4GB] [--blocks] [--folder F]``. The
records of each size lie around one place, with 1.2 records of a (cell, user) pair; users grow with
the pairs. Steps run in one process for each size: reading, the adviser (`hv.capacity`), a plan by
each way, a release, and its folder with the page. Memory is the largest resident size
of a step, the interpreter with its libraries included (Linux). `--blocks` keeps the pairs in blocks
on disk at every size; a way of planning that is refused there says so. A folder keeps the records.
Prints a table, and for each step the exponent with which time and memory grow, fitted to all sizes.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hexveil as hv
from hexveil.records.duckdb import refusals

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one

import measuring  # beside this file

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = (1_000_000, 3_000_000, 10_000_000, 30_000_000)
PAIRS_OF_USER, REPEATED, PART, SEED = 100, 0.2, 2**20, 24
CENTRE, RESOLUTION, BOUNDS = (21.17, 72.83), 8, (0, 65)
EPSILON = 2.0
WAYS: dict[str, dict[str, Any]] = {
    'plan "equal-split"': {"method": "equal-split", "clipping_range": "bounds"},
    'plan "per-cell"': {"method": "per-cell", "clipping_range": "bounds"},
    'plan "clip-user"': {"method": "clip-user", "clipping_range": "bounds"},
    'plan "joint", bounds': {"clipping_range": "bounds"},
    'plan "joint", private': {"clipping_range": "private"},
    'plan "joint", per-cell': {"clipping_range": "per-cell"},
    "plan (default)": {},
}
"""Ways of planning: the method, and for the joint plan the clipping range."""


def sizes(pairs: int) -> tuple[int, int]:
    """Return the users and cells of so many pairs."""
    return pairs // PAIRS_OF_USER, round(2_500 * math.sqrt(pairs / 1e6))


def write(file: Path, pairs: int) -> None:
    """Write the records: each user was once in distinct cells, and in some of them again."""
    import h3  # noqa: PLC0415  only where it is used

    users, cells = sizes(pairs)
    rings = math.ceil(math.sqrt(cells / 3.0)) + 1
    disk = h3.grid_disk(h3.latlng_to_cell(*CENTRE, RESOLUTION), rings)
    place = np.array([h3.cell_to_latlng(one) for one in sorted(disk)[:cells]])
    rng, schema = np.random.default_rng(SEED), None
    writer = None
    at_once = PART // PAIRS_OF_USER
    for first in range(0, users, at_once):
        some = np.arange(first, min(first + at_once, users))
        # Steps of at least one around a circle of cells never meet: cells of a user are distinct.
        steps = rng.integers(1, cells // PAIRS_OF_USER, (some.size, PAIRS_OF_USER))
        cell = ((rng.integers(0, cells, (some.size, 1)) + np.cumsum(steps, axis=1)) % cells).ravel()
        user = np.repeat(some, PAIRS_OF_USER)
        again = rng.choice(user.size, int(REPEATED * user.size), replace=False)
        rows = np.concatenate([np.arange(user.size), again])
        speed = np.round(65 * rng.beta(2.0, 3.0, rows.size), 1)
        lat, lon = place[cell[rows]].T
        table = pa.table({"user": user[rows], "lat": lat, "lon": lon, "speed": speed})
        schema = schema or table.schema
        writer = writer or pq.ParquetWriter(file, schema, compression="zstd")
        writer.write_table(table, row_group_size=122_880)
    assert writer is not None
    writer.close()


def read(file: Path, memory: str) -> hv.Dataset:
    """Return the data set of the records."""
    found = hv.read(
        file,
        user="user",
        value="speed",
        lat="lat",
        lon="lon",
        bounds=BOUNDS,
        quantum="0.1",
        cells=hv.Cells(RESOLUTION, timeslot=None),
        select=hv.Select(min_users=2),
        memory=memory,
    )
    assert isinstance(found, hv.Dataset)
    return found


Steps = dict[str, dict[str, float] | None]
"""What each step took; None where it was refused."""


def step(found: Steps, name: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401  of the step
    """Return the result of a step of this process, or None where it is refused; note its cost."""
    # The high-water mark of this step alone (Linux: proc(5), clear_refs).
    Path("/proc/self/clear_refs").write_text("5")
    before, found[name] = measuring.cpu(), None
    try:
        made = work()
    except hv.InputError as error:
        print(f"  {name:26} refused: {error}", file=sys.stderr, flush=True)
        return None
    found[name] = took = measuring.since(before)
    told = f"{took['cpu']:10.1f} s CPU{took['peak'] / 2**20:9.0f} MiB"
    print(f"  {name:26}{told}", file=sys.stderr, flush=True)
    return made


def measure(pairs: int, file: Path, memory: str) -> Steps:
    """Run all steps on the records of one size; return what each took."""
    found: Steps = {}
    data = step(found, "reading", lambda: read(file, memory))
    assert data.occupancy.n_pairs == pairs, data
    step(found, "adviser", lambda: hv.capacity(data, epsilon=EPSILON))
    made = [step(found, name, partial(plan, data, **options)) for name, options in WAYS.items()]
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as temporary:
        folder = Path(temporary)
        book = hv.Ledger(folder / "book.sqlite", dataset="pairs", budget=10)
        done = step(
            found, "release", lambda: hv.release(data, made[-1], ledger=book, accept_noise=True)
        )
        step(found, "folder", lambda: done.write(folder / "map"))
    return found


def plan(data: hv.Dataset, **options: Any) -> hv.Plan:  # noqa: ANN401  of `hv.plan`
    """Return a plan of the data set."""
    made = hv.plan(data.public, epsilon=EPSILON, advise=False, **options)
    assert isinstance(made, hv.Plan)
    return made


def show(found: dict[int, Steps]) -> None:
    """Print the table of all sizes."""
    size = list(found)
    print("| step | " + " | ".join(f"{n:,} pairs" for n in size) + " | time grows | memory grows |")
    print("| --- |" + " --- |" * (len(size) + 2))
    for name in dict.fromkeys(name for steps in found.values() for name in steps):
        there = {one: took for one in size if (took := found[one].get(name)) is not None}
        cells = [
            f"{there[one]['cpu']:.1f} s, {there[one]['peak'] / 2**20:,.0f} MiB"
            if one in there
            else "refused" * (name in found[one])
            for one in size
        ]
        grows = [
            measuring.exponent(list(there), [took[unit] for took in there.values()])
            for unit in ("cpu", "peak")
        ]
        powers = ("" if power is None else f"{power:.2f}" for power in grows)
        print(f"| {name} | {' | '.join(cells)} | {' | '.join(powers)} |")


def arguments() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=list(PAIRS))
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--blocks", action="store_true", help="blocks on disk at every size")
    parser.add_argument("--folder", type=Path, help="where records are kept")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Measure each size in a process of its own."""
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        found = {}
        for pairs in given.pairs:
            records = folder / f"{pairs}.parquet"
            if given.alone:
                if given.blocks:
                    refusals.BYTES_OF_PAIR = 10**9
                print(json.dumps(measure(pairs, records, given.memory)))
                return 0
            users, cells = sizes(pairs)
            print(f"{pairs:,} pairs, {users:,} users, {cells:,} cells, memory {given.memory}")
            if not records.exists():
                write(records, pairs)
            command = [sys.executable, __file__, "--pairs", str(pairs), "--memory", given.memory]
            command += ["--folder", str(folder), "--alone", *["--blocks"] * given.blocks]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found[pairs] = json.loads(done.stdout.splitlines()[-1])
    show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
