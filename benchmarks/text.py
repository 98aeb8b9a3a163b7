"""Reading CSV and newline JSON, beside DuckDB merely reading the same files.

``python benchmarks/text.py [--rows N] [--folder F]``. Records and processes are those of
aggregate.py, with as many records a user as 50 million have there, so that pairs repeat about as
often. Merely reading: every field that is needed comes out as text, with an aggregate over each, so
that none is left out. No number or time is made of it, which reading cannot do without: what that
takes is measured, too, as a plain cast of each field. Exits 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import aggregate
import measuring

FIELDS = ("user_id", "lat", "lon", "time", "value")
TARGET, TIMES = 2.0, 3
A_USER = 50_000_000 // aggregate.USERS
"""Records of a user on average."""


def generate(rows: int, folder: Path) -> None:
    """Write records.csv and records.ndjson."""
    import duckdb  # noqa: PLC0415  only where it is used

    aggregate.generate(rows, folder, users(rows))
    connection = duckdb.connect(config={"temp_directory": str(folder), "threads": 1})
    connection.execute("SET TimeZone='UTC'")
    records = (
        """SELECT * REPLACE (strftime("time", '%Y-%m-%dT%H:%M:%SZ') AS "time") """
        f"FROM '{folder}/records.parquet'"
    )
    connection.execute(f"COPY ({records}) TO '{folder}/records.csv' (FORMAT csv, HEADER)")
    connection.execute(f"COPY ({records}) TO '{folder}/records.ndjson' (FORMAT json)")
    connection.close()


def users(rows: int) -> int:
    """Return how many users have so many records."""
    return max(rows // A_USER, 1)


def floor(folder: Path, *, kind: str, cast: bool = False) -> int:
    """Return the records that DuckDB finds, all fields as text, or each cast to its type."""
    import duckdb  # noqa: PLC0415  only where it is used

    if kind == "csv":
        columns = ", ".join(f"'{name}': 'VARCHAR'" for name in FIELDS)
        fields = {name: f'"{name}"' for name in FIELDS}
        source = (
            f"read_csv('{folder}/records.csv', columns={{{columns}}}, auto_detect=false, "
            "header=true, delim=',')"
        )
    else:
        fields = {name: f"json_extract_string(json, '$.{name}')" for name in FIELDS}
        source = f"read_json_objects('{folder}/records.ndjson', format='newline_delimited')"
    start = aggregate.cpu()
    connection = duckdb.connect(
        config={"memory_limit": aggregate.MEMORY, "temp_directory": str(folder)}
    )
    connection.execute("SET preserve_insertion_order=false")
    types = {"lat": "DOUBLE", "lon": "DOUBLE", "time": "TIMESTAMP", "value": "DOUBLE"}
    sums = ", ".join(
        f"max(TRY_CAST({field} AS {types[name]}))"
        if cast and name in types
        else f"sum(strlen({field}))"
        for name, field in fields.items()
    )
    found = connection.execute(f"SELECT count(*), {sums} FROM {source}").fetchone()
    assert found is not None
    connection.close()
    return aggregate.report(start, found[0])


def reading(folder: Path, *, kind: str, repeats: str) -> int:
    """Return the pairs that `hexveil.read` finds."""
    return aggregate.reading(
        folder, aggregate.MEMORY, drop=repeats == "drop", name=f"records.{kind}"
    )


KINDS = ("csv", "ndjson")
FLOORS = {f"floor {kind}": partial(floor, kind=kind) for kind in KINDS} | {
    f"cast {kind}": partial(floor, kind=kind, cast=True) for kind in KINDS
}
TASKS = FLOORS | {
    f"read {kind} {repeats}": partial(reading, kind=kind, repeats=repeats)
    for kind in KINDS
    for repeats in ("keep", "drop")
}


def measure(task: str, folder: Path) -> dict[str, float]:
    """Return what one task needs, in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--task", task, "--folder", str(folder)],
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(rows: int, folder: Path, times: int, file: Path | None = None) -> int:
    """Print the ratios and return 1 if a target is missed."""
    if not (folder / "records.ndjson").exists():
        generate(rows, folder)
    print(
        f"{rows:,} records, seed {aggregate.SEED}, {users(rows):,} users, {aggregate.DAYS} days, "
        f"resolution {aggregate.RESOLUTION}, 1h calendar slots, as text:",
        flush=True,
    )
    runs = {task: [measure(task, folder) for _ in range(times)] for task in TASKS}
    least = {task: min(run["cpu"] for run in of) for task, of in runs.items()}
    found = []
    for task in TASKS:
        _, kind, *repeats = task.split()
        base, peak = least[f"floor {kind}"], int(max(run["peak"] for run in runs[task]))
        # Dropping repeats reads twice, to find out whose twin is where: it has no target.
        limits = {"ratio": TARGET} if repeats == ["keep"] else {}
        sizes = {"rows": rows}
        one = measuring.Measured("text", task, sizes, least[task], base, peak, limits=limits)
        found += [one] * bool(repeats)
        wanted = f" (at most {TARGET:g})" if limits else ""
        print(
            f"  {task:18} {least[task]:6.2f} s CPU, {one.ratio:.2f} times reading{wanted}, "
            f"{least[task] / rows * 1e9:.0f} ns a record, {runs[task][0]['rows']:,.0f} rows found",
            flush=True,
        )
    measuring.save(file, found)
    return int(any(one.missed() for one in found))


def main() -> int:
    """Run the comparison, or one task of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--times", type=int, default=TIMES, help="how often each is measured")
    parser.add_argument("--folder", type=Path, help="where the generated files are kept")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    measuring.add_json(parser)
    given = parser.parse_args()
    if given.task:
        return TASKS[given.task](given.folder)
    if given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
        return compare(given.rows, given.folder, given.times, given.json)
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as folder:
        return compare(given.rows, Path(folder), given.times, given.json)


if __name__ == "__main__":
    sys.exit(main())
