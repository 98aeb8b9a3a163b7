"""Ten million records of a hundred thousand users in two thousand cells, from a seed.

``python benchmarks/big.py FILE [--rows N]`` writes them to Parquet, a part at a time, and prints
seed and facts. The facts are those of the generator that ../shared/bench describes; the records are
others. Users' sizes follow a power law; a user's records lie around a home cell, a geometric number
of steps to either side on a circle of cells, and 15% lie anywhere. True means of cells are
unrelated; a user is faster or slower than others everywhere; values stay within 0 and 65.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hexveil as hv

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SEED = 20_261_107
ROWS, USERS, CELLS = 10_000_000, 100_000, 2_000
BOUNDS = (0, 65)
FLATTEN, FALL = 20.0, -0.7
"""The k-th user from 0 has a record with a chance in proportion to (k + FLATTEN) ** FALL."""
ANYWHERE, STOP = 0.15, 0.2
"""Part of the records that lie anywhere; the chance of each step from home to be the last."""
SLOWEST, FASTEST = 15.0, 45.0
OF_USER, OF_RECORD = 4.0, 8.0
"""Standard deviations of a user's effect and of a record's."""
PART = 1_000_000
SCHEMA = pa.schema([("user", pa.int64()), ("cell", pa.int64()), ("value", pa.float64())])


@dataclass(frozen=True)
class World:
    """What is drawn once: whose home is where, and how fast cells and users are."""

    upto: NDArray[np.float64]
    home: NDArray[np.int64]
    effect: NDArray[np.float64]
    level: NDArray[np.float64]

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> World:
        """Return a world of this generator."""
        chance = np.cumsum((np.arange(USERS) + FLATTEN) ** FALL)
        return cls(
            chance / chance[-1],
            rng.integers(CELLS, size=USERS),
            rng.normal(0.0, OF_USER, USERS),
            rng.uniform(SLOWEST, FASTEST, CELLS),
        )

    def records(self, rng: np.random.Generator, rows: int) -> pa.Table:
        """Return so many records: user, cell, value."""
        user = np.minimum(np.searchsorted(self.upto, rng.random(rows), side="right"), USERS - 1)
        steps = rng.geometric(STOP, rows)
        near = self.home[user] + np.where(rng.random(rows) < 0.5, -steps, steps)
        cell = np.where(rng.random(rows) < ANYWHERE, rng.integers(CELLS, size=rows), near % CELLS)
        value = self.level[cell] + self.effect[user] + rng.normal(0.0, OF_RECORD, rows)
        columns = {"user": user, "cell": cell, "value": np.clip(value, *BOUNDS)}
        return pa.table(columns, schema=SCHEMA)


def parts(rows: int = ROWS, seed: int = SEED) -> Iterator[pa.Table]:
    """Yield the records, a million at a time."""
    rng = np.random.default_rng(seed)
    world = World.drawn(rng)
    for start in range(0, rows, PART):
        yield world.records(rng, min(PART, rows - start))


def write(file: Path, rows: int = ROWS, seed: int = SEED) -> None:
    """Write the records to a Parquet file; it has its name only once it is whole."""
    unfinished = file.with_name(file.name + ".part")
    with pq.ParquetWriter(unfinished, SCHEMA, compression="zstd") as writer:
        for part in parts(rows, seed):
            writer.write_table(part)
    unfinished.replace(file)


def read(rows: int = ROWS, statistics: tuple[str, ...] = ()) -> hv.Dataset:
    """Return the records, read from a file that another process writes."""
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as folder:
        file = Path(folder) / "big.parquet"
        subprocess.run([sys.executable, __file__, str(file), "--rows", str(rows)], check=True)
        return hv.read(
            file,
            user="user",
            value="value",
            bounds=BOUNDS,
            cells=hv.Labels("cell"),
            select=hv.Select(min_users=1),
            repeats="keep",
            memory="2GB",
            statistics=statistics,
        )


def main() -> int:
    """Write the file, and print what is in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", help="nothing is written without it")
    parser.add_argument("--rows", type=int, default=ROWS)
    given = parser.parse_args()
    print(f"seed {SEED}: {given.rows:,} records, {USERS:,} users, {CELLS:,} cells, {BOUNDS}")
    print(
        f"  chance of user k: (k + {FLATTEN:g}) ** {FALL:g}; anywhere {ANYWHERE:.0%}, last {STOP}"
    )
    print(f"  means {SLOWEST:g} to {FASTEST:g}; sd of users {OF_USER:g}, of records {OF_RECORD:g}")
    if given.file:
        write(given.file, given.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
