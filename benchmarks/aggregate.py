"""Reading 50 million records, beside the floors of the same work on cells computed beforehand.

``python benchmarks/aggregate.py [--rows N] [--folder F]``. Every measurement runs in a process
of its own, on the same file, with `memory="1GB"` and without a limit (``unlimited``), which floors
have as well. CPU seconds count all threads of that process
between opening the file and having the result; the interpreter's start and imports do not count.
Each is measured several times in turn with the others, and the least is taken.

The floors: DuckDB's bare scan of the five columns, with an aggregate over each; and its group-by,
with and without its own DISTINCT ON (user, time), on a file that already holds each record's cell
and slot. That DISTINCT ON keeps any of several records, so that its result changes from run to
run; reading keeps the one of smallest place and value. Exits 1 if a target is missed.

``--alone --memory 2GB --rows 500000000`` reads so many records, without any floor.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one

import measuring  # beside this file

if TYPE_CHECKING:
    from collections.abc import Callable

USERS, DAYS, RESOLUTION, MEMORY = 20_000, 7, 8, "1GB"
SEED, ROW_GROUP, TIMES = 0.5, 122_880, 3
TARGETS = {
    ("read keep", "floor keep"): 2.0,
    ("read keep", "scan"): 6.0,
    ("read drop", "floor drop"): 1.5,
}
BASES = {
    "floor keep": "a group-by",
    "scan": "a bare scan",
    "floor drop": "a deduplication and group-by",
}
LIMITS = {"": MEMORY, " unlimited": "1000GB"}
"""What a task may use of memory, by the end of its name; no machine has the second."""
MEMORY_TARGET, PAIRS_TARGET = 2 * 2**30, 5_000_000
START = 1_708_300_800  # a Monday at midnight in Asia/Kolkata, on the hour in UTC


def generate(rows: int, folder: Path, users: int = USERS) -> None:
    """Write records.parquet."""
    import duckdb  # noqa: PLC0415  only where it is used

    # One thread: with more, who draws which random number changes from run to run.
    connection = duckdb.connect(
        config={"memory_limit": MEMORY, "temp_directory": str(folder), "threads": 1}
    )
    connection.execute("SET TimeZone='UTC'")
    connection.execute(f"SELECT setseed({SEED})")
    # Few users drive much, most little; a place is held for half an hour, give or take 200 metres.
    connection.execute(
        f"""COPY (
        WITH drawn AS (SELECT CAST(floor({users} * pow(random(), 2)) AS INTEGER) AS bus,
            CAST(floor(random() * {DAYS * 86_400}) AS BIGINT) AS second,
            random() AS a, random() AS b, random() AS c FROM range({rows})),
        placed AS (SELECT *, hash(bus, second // 1800) AS block FROM drawn)
        SELECT format('bus-{{:05d}}', bus) AS user_id,
            21.05 + 0.3 * (block % 100003) / 100003 + 0.004 * (a - 0.5) AS lat,
            72.65 + 0.35 * (block % 99991) / 99991 + 0.004 * (b - 0.5) AS lon,
            make_timestamptz(({START} + second) * 1000000) AS "time", 65 * c AS value
        FROM placed) TO '{folder}/records.parquet'
        (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"""
    )
    connection.close()


def prepare(folder: Path) -> None:
    """Write ready.parquet: the records with their cells and slots computed."""
    import duckdb  # noqa: PLC0415  only where it is used
    from duckdb.func import PythonUDFType  # noqa: PLC0415  as above

    from hexveil.base import hexagons  # noqa: PLC0415  only where it is used

    connection = duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": str(folder)})
    connection.execute("SET TimeZone='UTC'")
    connection.create_function(
        "hexagon",
        lambda lat, lon: hexagons.of_places(lat, lon, RESOLUTION),
        [duckdb.sqltypes.DOUBLE, duckdb.sqltypes.DOUBLE],
        duckdb.sqltypes.UBIGINT,
        type=PythonUDFType.ARROW,
    )
    connection.execute(
        f"""COPY (SELECT hexagon(lat, lon) AS cell, (epoch_us("time") // 1000000 + 19800)
            // 3600 * 3600 AS slot, user_id, "time", value FROM '{folder}/records.parquet')
        TO '{folder}/ready.parquet'
        (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"""
    )
    connection.close()


def scan(folder: Path, memory: str) -> int:
    """Return the records that DuckDB finds in reading all five columns."""
    import duckdb  # noqa: PLC0415  only where it is used

    start = cpu()
    connection = duckdb.connect(config={"memory_limit": memory, "temp_directory": str(folder)})
    # Aggregates that need every value, and that no statistics of the file can answer.
    found = connection.execute(
        'SELECT count(*), sum(strlen(user_id)), sum(lat), sum(lon), max(epoch_us("time")), '
        f"sum(value) FROM '{folder}/records.parquet'"
    ).fetchone()
    assert found is not None
    connection.close()
    return report(start, found[0])


def floor(folder: Path, memory: str, *, drop: bool) -> int:
    """Return the pairs that DuckDB finds on ready cells."""
    import duckdb  # noqa: PLC0415  only where it is used

    start = cpu()
    connection = duckdb.connect(config={"memory_limit": memory, "temp_directory": str(folder)})
    connection.execute("SET preserve_insertion_order=false")
    records = f"SELECT cell, slot, user_id, value FROM '{folder}/ready.parquet'"
    if drop:
        records = records.replace("SELECT", 'SELECT DISTINCT ON (user_id, "time")', 1)
    connection.execute(
        "CREATE TEMP TABLE pairs AS SELECT cell, slot, user_id, count(*) AS n, sum(value) AS total "
        f"FROM ({records}) GROUP BY ALL"
    )
    found = connection.execute("SELECT count(*) FROM pairs").fetchone()
    assert found is not None
    connection.close()
    return report(start, found[0])


def reading(folder: Path, memory: str, *, drop: bool, name: str = "records.parquet") -> int:
    """Return the pairs that `hexveil.read` finds."""
    import hexveil.records.duckdb.reading  # noqa: F401, PLC0415  imported before the clock starts
    from hexveil.model.cells import Cells  # noqa: PLC0415  only where it is used
    from hexveil.records.read import read  # noqa: PLC0415  only where it is used
    from hexveil.records.select import Select  # noqa: PLC0415  only where it is used

    start = cpu()
    found = read(
        str(folder / name),
        user="user_id",
        value="value",
        bounds=(0, 65),
        lat="lat",
        lon="lon",
        time="time",
        cells=Cells(RESOLUTION, "1h", "Asia/Kolkata"),
        select=Select(min_users=1),
        repeats="drop" if drop else "keep",
        memory=memory,
    )
    return report(start, found.occupancy.n_pairs)


def cpu() -> float:
    """Return the CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def report(start: float, rows: int) -> int:
    """Print what was needed since the start, and what was found."""
    used = cpu() - start
    # The process's own high-water mark: ru_maxrss would start from its parent's.
    status = Path("/proc/self/status").read_text("utf-8")
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    print(json.dumps({"cpu": used, "peak": peak, "rows": rows}))
    return 0


TASKS: dict[str, Callable[[Path, str], int]] = {
    "scan": scan,
    "floor keep": partial(floor, drop=False),
    "read keep": partial(reading, drop=False),
    "floor drop": partial(floor, drop=True),
    "read drop": partial(reading, drop=True),
}


def measure(task: str, folder: Path, memory: str, ending: str = "") -> dict[str, float]:
    """Return what one task needs, in a process of its own."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, __file__, "--task", task, "--folder", str(folder), "--memory", memory],
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    print(
        f"  {task + ending:20}  {found['cpu']:7.1f} s CPU  {time.monotonic() - began:7.1f} s wall  "
        f"{found['peak'] / 2**20:7.0f} MiB  {found['rows']:>12,.0f} rows found",
        flush=True,
    )
    return found


def lines(rows: int, runs: list[dict[str, dict[str, float]]]) -> list[measuring.Measured]:
    """Return what was measured, each beside its floor; targets are for limited memory."""
    return [
        measuring.Measured(
            "aggregate",
            f"{task}{ending}, over {BASES[base]}",
            {"rows": rows},
            min(run[task + ending]["cpu"] for run in runs),
            min(run[base + ending]["cpu"] for run in runs),
            int(max(run[task + ending]["peak"] for run in runs)),
            limits={} if ending else {"ratio": target, "peak": MEMORY_TARGET},
        )
        for ending in LIMITS
        for (task, base), target in TARGETS.items()
    ]


def compare(rows: int, folder: Path, times: int, file: Path | None = None) -> int:
    """Print the ratios and return 1 if a target is missed."""
    if not (folder / "ready.parquet").exists():
        prepare(folder)
    # In turn, so that a busy machine slows all of them alike.
    runs = [
        {
            task + ending: measure(task, folder, memory, ending)
            for task in TASKS
            for ending, memory in LIMITS.items()
        }
        for _ in range(times)
    ]
    found = lines(rows, runs)
    measuring.save(file, found)
    for one in found:
        wanted = f" (at most {one.limits['ratio']:g})" if one.limits else ""
        print(f"{one.part}: {one.ratio:.2f} times{wanted}; {one.cpu / rows * 1e9:.0f} ns a record")
    missed = any(one.ratio > one.limits["ratio"] for one in found if one.limits)
    peak = max(run[task]["peak"] for run in runs for task in ("read keep", "read drop"))
    missed |= peak >= MEMORY_TARGET
    print(f'peak memory with memory="{MEMORY}": {peak / 2**30:.2f} GiB (under 2)')
    if rows >= 20_000_000:
        missed |= runs[0]["read keep"]["rows"] < PAIRS_TARGET
    return int(missed)


def run(given: argparse.Namespace, folder: Path) -> int:
    """Make the records if they are not there, and measure."""
    if not (folder / "records.parquet").exists():
        generate(given.rows, folder)
    print(
        f"{given.rows:,} records, seed {SEED}, row groups of {ROW_GROUP:,}, {USERS:,} users, "
        f"resolution {RESOLUTION}, 1h calendar slots:",
        flush=True,
    )
    if given.alone:
        peaks = [measure(f"read {kind}", folder, given.memory)["peak"] for kind in ("keep", "drop")]
        print(f'peak memory with memory="{given.memory}": {max(peaks) / 2**30:.2f} GiB')
        return 0
    return compare(given.rows, folder, given.times, given.json)


def main() -> int:
    """Run the comparison, or one task of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--times", type=int, default=TIMES, help="how often each is measured")
    parser.add_argument("--folder", type=Path, help="where the generated files are kept")
    parser.add_argument("--memory", default=MEMORY, help="what reading alone may use")
    parser.add_argument("--alone", action="store_true", help="read only, without the floors")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    measuring.add_json(parser)
    given = parser.parse_args()
    if given.task:
        return TASKS[given.task](given.folder, given.memory)
    if given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
        return run(given, given.folder)
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as folder:
        return run(given, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
