"""What a further day costs once sums are cached: ``python -m benchmarks.incremental``.

A year of smaller days: ``--days 365 --rows 100000``.

`--days` files of `--rows` records each are read with a cache; then one more day comes. Times are
CPU seconds of all threads, the least of `--runs`, each pair of them measured in turn. Targets, for
which it exits with 1:

- The file that came costs at most 1.5 times reading that day alone: what reading with it takes
  beyond reading what is cached already.
- Asking for the new day alone (`dates`, as `hexveil publish` does) costs at most twice reading
  that day alone: the other files are known to lie outside of it.
- All days with the new one cost at most 1.5 times that day alone plus reading the cached pairs
  once, every column of them, by the engine.
- With thirty days, one more costs at most half of reading all at once.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hexveil as hv

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one

import measuring  # beside this file

if TYPE_CHECKING:
    from collections.abc import Callable

ROW_GROUP = 122_880
FIRST = date(2026, 3, 2)
USERS = 500
"""Vehicles: at a million records a day each reports every 43 seconds."""
MIN_USERS = 2
"""Users of a cell, few enough for small days."""
ZONE = "Asia/Kolkata"
OFFSET = 5.5 * 3600


def write_day(folder: Path, number: int, rows: int) -> Path:
    """Write the records of one local day, in order of time.

    A vehicle is near another place every ten minutes.
    """
    rng = np.random.default_rng([8, number])
    user = rng.integers(0, USERS, rows)
    second = np.sort(rng.integers(0, 86_400, rows))
    around = rng.uniform((21.1, 72.7), (21.3, 72.9), (USERS, 144, 2))
    start = (FIRST + timedelta(number) - date(1970, 1, 1)).days * 86_400 - int(OFFSET)
    place = around[user, second // 600] + rng.normal(0, 0.001, (rows, 2))
    names = np.array([f"vehicle {i:05}" for i in range(USERS)])
    table = pa.table(
        {
            "user": pa.array(names[user]).dictionary_encode(),
            "speed": np.round(rng.gamma(4, 6, rows), 1),
            "lat": place[:, 0],
            "lon": place[:, 1],
            "time": pa.array((start + second) * 10**6, pa.timestamp("us", "UTC")),
        }
    )
    path = folder / f"{FIRST + timedelta(number)}.parquet"
    pq.write_table(table, path, row_group_size=ROW_GROUP)
    return path


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of some work, in all threads."""
    before = measuring.cpu()
    work()
    return measuring.cpu() - before


def read(
    source: Path | list[Path], cache: Path | None = None, dates: tuple[date, date] | None = None
) -> int:
    """Read records into sums; return how many are left."""
    days = None if dates is None else (str(dates[0]), str(dates[1]))
    select = hv.Select(dates=days, min_users=MIN_USERS)
    dataset = hv.read(
        source,
        user="user",
        value="speed",
        lat="lat",
        lon="lon",
        time="time",
        bounds=(0, 65),
        cells=hv.Cells(8, "1h", timezone=ZONE, slot="pooled"),
        select=select,
        version=None if cache is None else "1",
        cache=cache,
    )
    return int(dataset.public.occupancy.records_per_cell.sum())


def scan(cache: Path) -> int:
    """Read every column of all cached pairs once; return how many there are."""
    columns = "count(*), bit_xor(hexagon), max(slot), sum(strlen(user_id)), sum(n), sum(total)"
    with duckdb.connect() as connection:
        query = f"SELECT {columns}, sum(total_sq) FROM read_parquet('{cache}/*.pairs')"
        found = connection.execute(query).fetchone()
    assert found is not None
    return int(found[0])


def main() -> int:
    """Print the table; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    measuring.add_json(parser)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        return measure(Path(name), asked.days, asked.rows, asked.runs, asked.json)


def measure(root: Path, days: int, rows: int, runs: int, file: Path | None = None) -> int:
    """Measure in a folder; print the table; return 1 if a target is missed."""
    source, cache, saved = root / "days", root / "cache", root / "saved"
    source.mkdir()
    for number in range(days):
        write_day(source, number, rows)
    print(f"{days} days of {rows:,} rows, {USERS:,} users, row groups of {ROW_GROUP:,}")
    paths = sorted(source.iterdir())
    filled = seconds(lambda: read(paths, cache))
    shutil.copytree(cache, saved)
    new = write_day(source, days, rows)
    today = (FIRST + timedelta(days),) * 2
    timings: dict[str, list[float]] = {}
    for _ in range(runs):
        for what, work, fresh in (
            ("the new day alone, no cache", lambda: read(new), False),
            ("all days and the new one", lambda: read(source, cache), True),
            ("all days, none new", lambda: read(source, cache), False),
            ("reading the cached pairs once", lambda: scan(cache), False),
            ("the new day, of all files", lambda: read(source, cache, today), True),
        ):
            if fresh:
                shutil.rmtree(cache)
                shutil.copytree(saved, cache)
            timings.setdefault(what, []).append(seconds(work))
    alone, added, warm, scanned, published = (min(times) for times in timings.values())
    whole = seconds(lambda: read(source))
    found = {"all days, no cache": whole, "days into an empty cache": filled}
    for what, cpu in (found | {what: min(times) for what, times in timings.items()}).items():
        print(f"{what:<36}{cpu:>8.2f} CPU-s{cpu / alone:>8.2f} x the day")
    size = sum(path.stat().st_size for path in saved.iterdir())
    files = sum(path.stat().st_size for path in source.iterdir())
    print(f"the cache takes {size / files:.2f} of the size of the records")
    targets = (
        ("what came, over the day alone", added - warm, alone, 1.5),
        ("the new day of all files, over it alone", published, alone, 2.0),
        ("with the new day, over it and the pairs", added, alone + scanned, 1.5),
        ("with the new day, over all at once", added, whole, 0.5),
    )
    sizes = {"days": days, "rows": rows}
    results = [
        measuring.Measured("incremental", what, sizes, cpu, base, limits={"ratio": most})
        for what, cpu, base, most in targets
    ]
    return measuring.told(results, file)


if __name__ == "__main__":
    sys.exit(main())
