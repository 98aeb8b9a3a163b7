"""Reading 20 million records, beside the floor of the same work on cells computed beforehand.

``python benchmarks/aggregate.py [--rows N] [--folder F]``. Every measurement runs in a process
of its own, on the same file and memory limit. CPU seconds count all threads of that process
between opening the file and having the result; the interpreter's start and imports do not count.
The floors are DuckDB's group-by, with and without its own DISTINCT ON (user, time), on a file
that already holds each record's cell and slot. That DISTINCT ON keeps any of several records, so
that its result changes from run to run; reading keeps the one of smallest place and value. Exits
1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

USERS, DAYS, RESOLUTION, MEMORY = 20_000, 7, 8, "1GB"
KEEP_TARGET, DROP_TARGET, MEMORY_TARGET, PAIRS_TARGET = 5.0, 2.0, 2 * 2**30, 5_000_000
START = 1_708_300_800  # a Monday at midnight in Asia/Kolkata, on the hour in UTC


def generate(rows: int, folder: Path) -> None:
    """Write records.parquet and, with cells and slots computed, ready.parquet."""
    import duckdb  # noqa: PLC0415  only where it is used

    from hexveil import hexagons  # noqa: PLC0415  only where it is used

    connection = duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": str(folder)})
    connection.execute("SET TimeZone='UTC'")
    connection.execute("SELECT setseed(0.5)")
    # Few users drive much, most little; a place is held for half an hour, give or take 200 metres.
    connection.execute(
        f"""COPY (
        WITH drawn AS (SELECT CAST(floor({USERS} * pow(random(), 2)) AS INTEGER) AS bus,
            CAST(floor(random() * {DAYS * 86_400}) AS BIGINT) AS second,
            random() AS a, random() AS b, random() AS c FROM range({rows})),
        placed AS (SELECT *, hash(bus, second // 1800) AS block FROM drawn)
        SELECT format('bus-{{:05d}}', bus) AS user_id,
            21.05 + 0.3 * (block % 100003) / 100003 + 0.004 * (a - 0.5) AS lat,
            72.65 + 0.35 * (block % 99991) / 99991 + 0.004 * (b - 0.5) AS lon,
            make_timestamptz(({START} + second) * 1000000) AS "time", 65 * c AS value
        FROM placed) TO '{folder}/records.parquet' (FORMAT parquet, COMPRESSION zstd)"""
    )
    connection.create_function(
        "hexagon",
        lambda lat, lon: hexagons.of_places(lat, lon, RESOLUTION),
        ["DOUBLE", "DOUBLE"],
        "UBIGINT",
        type="arrow",
    )
    connection.execute(
        f"""COPY (SELECT hexagon(lat, lon) AS cell, (epoch_us("time") // 1000000 + 19800)
            // 3600 * 3600 AS slot, user_id, "time", value FROM '{folder}/records.parquet')
        TO '{folder}/ready.parquet' (FORMAT parquet, COMPRESSION zstd)"""
    )
    connection.close()


def floor(folder: Path, *, drop: bool) -> int:
    """Return the pairs that DuckDB finds on ready cells."""
    import duckdb  # noqa: PLC0415  only where it is used

    start = _cpu()
    connection = duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": str(folder)})
    connection.execute("SET preserve_insertion_order=false")
    records = f"SELECT cell, slot, user_id, value FROM '{folder}/ready.parquet'"
    if drop:
        records = records.replace("SELECT", 'SELECT DISTINCT ON (user_id, "time")', 1)
    connection.execute(
        "CREATE TEMP TABLE pairs AS SELECT cell, slot, user_id, count(*) AS n, sum(value) AS total "
        f"FROM ({records}) GROUP BY ALL"
    )
    pairs = connection.execute("SELECT count(*) FROM pairs").fetchone()[0]
    connection.close()
    return _report(start, pairs)


def reading(folder: Path, *, drop: bool) -> int:
    """Return the pairs that `hexveil.read` finds."""
    import hexveil.records.duckdb.reading  # noqa: F401, PLC0415  imported before the clock starts
    from hexveil.cells import Cells  # noqa: PLC0415  only where it is used
    from hexveil.records.read import read  # noqa: PLC0415  only where it is used
    from hexveil.records.select import Select  # noqa: PLC0415  only where it is used

    start = _cpu()
    found = read(
        str(folder / "records.parquet"),
        user="user_id",
        value="value",
        bounds=(0, 65),
        lat="lat",
        lon="lon",
        time="time",
        cells=Cells(RESOLUTION, "1h", "Asia/Kolkata"),
        select=Select(min_users=1),
        repeats="drop" if drop else "keep",
        memory=MEMORY,
    )
    return _report(start, found.occupancy.n_pairs)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _report(start: float, pairs: int) -> int:
    cpu = _cpu() - start
    # The process's own high-water mark: ru_maxrss would start from its parent's.
    status = Path("/proc/self/status").read_text("utf-8")
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    print(json.dumps({"cpu": cpu, "peak": peak, "pairs": pairs}))
    return 0


TASKS = {
    "floor keep": (floor, False),
    "read keep": (reading, False),
    "floor drop": (floor, True),
    "read drop": (reading, True),
}


def measure(task: str, folder: Path) -> dict[str, float]:
    """Return what one task needs, in a process of its own."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, __file__, "--task", task, "--folder", str(folder)],
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    print(
        f"  {task:10}  {found['cpu']:7.1f} s CPU  {time.monotonic() - began:7.1f} s wall  "
        f"{found['peak'] / 2**20:7.0f} MiB  {found['pairs']:>12,.0f} pairs",
        flush=True,
    )
    return found


def compare(rows: int, folder: Path) -> int:
    """Print the ratios and return 1 if a target is missed."""
    if not (folder / "ready.parquet").exists():
        generate(rows, folder)
    print(f"{rows:,} records, {USERS:,} users, resolution {RESOLUTION}, 1h calendar slots:")
    found = {task: measure(task, folder) for task in TASKS}
    missed = 0
    for kind, target in (("keep", KEEP_TARGET), ("drop", DROP_TARGET)):
        ratio = found[f"read {kind}"]["cpu"] / found[f"floor {kind}"]["cpu"]
        missed |= ratio > target
        print(f'repeats="{kind}": {ratio:.2f} times the floor (at most {target:g})')
    peak = max(found["read keep"]["peak"], found["read drop"]["peak"])
    missed |= peak >= MEMORY_TARGET
    print(f'peak memory with memory="{MEMORY}": {peak / 2**30:.2f} GiB (under 2)')
    if rows >= 20_000_000:
        missed |= found["read keep"]["pairs"] < PAIRS_TARGET
    return int(missed)


def main() -> int:
    """Run the comparison, or one task of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path, help="where the generated files are kept")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        run, drop = TASKS[given.task]
        return run(given.folder, drop=drop)
    if given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
        return compare(given.rows, given.folder)
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as folder:
        return compare(given.rows, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
