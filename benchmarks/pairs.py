"""From records to a folder at several numbers of pairs: seconds and memory of each step.

``python benchmarks/pairs.py [--pairs N ...] [--memory 4GB] [--blocks] [--brief]``. The records of
each size lie around one place, with 1.2 records of a (cell, user) pair; users grow with the pairs.
Steps run in one process for each size: reading, the adviser (`hv.capacity`), a plan by each way, a
release and its folder with the page. Memory is the largest resident size of a step, the interpreter
with its libraries included (Linux). `--blocks` keeps the pairs in blocks on disk at every size.
Prints a table, and for each step the exponent with which time and memory grow, fitted to all sizes.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hexveil as hv
from hexveil.records.duckdb import refusals

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = (1_000_000, 3_000_000, 10_000_000, 30_000_000)
PAIRS_OF_USER, REPEATED, PART, SEED = 100, 0.2, 2**20, 24
CENTRE, RESOLUTION, BOUNDS = (21.17, 72.83), 8, (0, 65)
RESOLUTIONS = (RESOLUTION - 1, RESOLUTION)


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


class Steps:
    """Time and memory of steps of this process."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}

    def run(self, name: str, work: Callable[[], object]) -> object:
        """Return the result of a step, or None where it is refused."""
        # The high-water mark of this step alone (Linux: proc(5), clear_refs).
        Path("/proc/self/clear_refs").write_text("5")
        begin = time.process_time()
        try:
            made = work()
        except hv.InputError as error:
            print(f"  {name:22} refused: {error}", file=sys.stderr, flush=True)
            return None
        status = Path("/proc/self/status").read_text("utf-8")
        peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
        cpu = time.process_time() - begin
        self.found[name] = {"cpu": cpu, "MiB": peak}
        print(f"  {name:22}{cpu:10.1f} s CPU{peak:9.0f} MiB", file=sys.stderr, flush=True)
        return made


def measure(
    pairs: int, file: Path, memory: str, folder: Path, *, brief: bool
) -> dict[str, dict[str, float]]:
    """Run all steps on the records of one size."""
    steps = Steps()
    data = steps.run("reading", lambda: read(file, memory))
    assert isinstance(data, hv.Dataset)
    assert data.occupancy.n_pairs == pairs, data
    facts = data.public
    epsilon = 2.0
    if not brief:
        steps.run(
            "adviser",
            lambda: hv.capacity(data, epsilon=epsilon, resolutions=RESOLUTIONS, search=False),
        )
    ways: dict[str, dict[str, Any]] = {
        'plan "equal-split"': {"method": "equal-split", "clipping_range": "bounds"},
        'plan "per-cell"': {"method": "per-cell", "clipping_range": "bounds"},
        'plan "joint", bounds': {"clipping_range": "bounds"},
        "plan (default)": {},
    }
    made = None
    for name, options in list(ways.items())[-1 if brief else 0 :]:
        made = steps.run(name, partial(hv.plan, facts, epsilon=epsilon, advise=False, **options))
    assert isinstance(made, hv.Plan)
    plan = made
    book = hv.Ledger(folder / "book.sqlite", dataset="pairs", budget=10)
    done = steps.run("release", lambda: hv.release(data, plan, ledger=book, accept_noise=True))
    assert isinstance(done, hv.Release)
    release = done
    steps.run("folder and page", lambda: release.write(folder / "map"))
    return steps.found


def exponent(size: list[int], of: list[float]) -> str:
    """Return the exponent of a power of the size, fitted by least squares."""
    if len(size) < 2 or min(of) <= 0:
        return ""
    return f"{np.polyfit(np.log(size), np.log(of), 1)[0]:.2f}"


def show(found: dict[int, dict[str, dict[str, float]]]) -> None:
    """Print the table of all sizes."""
    size = list(found)
    print("| step | " + " | ".join(f"{n:,} pairs" for n in size) + " | time grows | memory grows |")
    print("| --- |" + " --- |" * (len(size) + 2))
    for name in found[size[0]]:
        there = [one for one in size if name in found[one]]
        steps = [found[one][name] for one in there]
        cells = [
            f"{found[one][name]['cpu']:.1f} s, {found[one][name]['MiB']:,.0f} MiB"
            if one in there
            else "refused"
            for one in size
        ]
        grows = [exponent(there, [step[unit] for step in steps]) for unit in ("cpu", "MiB")]
        print(f"| {name} | {' | '.join(cells)} | {' | '.join(grows)} |")


def main() -> int:
    """Measure each size in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=list(PAIRS))
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--blocks", action="store_true", help="blocks on disk at every size")
    parser.add_argument("--brief", action="store_true", help="only the default plan; no adviser")
    parser.add_argument("--folder", type=Path, help="where records are kept")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        if given.alone:
            if given.blocks:
                refusals.BYTES_OF_PAIR = 10**9
            file = folder / f"{given.pairs[0]}.parquet"
            found = measure(given.pairs[0], file, given.memory, Path(temporary), brief=given.brief)
            print(json.dumps(found))
            return 0
        all_found = {}
        for pairs in given.pairs:
            users, cells = sizes(pairs)
            print(f"{pairs:,} pairs, {users:,} users, {cells:,} cells, memory {given.memory}")
            if not (folder / f"{pairs}.parquet").exists():
                write(folder / f"{pairs}.parquet", pairs)
            flags = [
                "--alone",
                *["--blocks"] * given.blocks,
                *["--brief"] * given.brief,
                "--memory",
                given.memory,
            ]
            command = [sys.executable, __file__, "--pairs", str(pairs), "--folder", str(folder)]
            done = subprocess.run([*command, *flags], check=True, stdout=subprocess.PIPE, text=True)
            all_found[pairs] = json.loads(done.stdout.splitlines()[-1])
    show(all_found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
