"""Reading CSV and newline JSON, beside two floors: merely reading, and the best way by hand.

``python benchmarks/text.py [--rows N] [--folder F] [--kinds csv ndjson csv.gz csv.zst small.csv]``.
Records and processes are those of aggregate.py, with as many records a user as 50 million have
there, so that pairs repeat about as often. The floors:

- Merely reading: every field that is needed comes out as text, with an aggregate over each, so that
  none is left out. No number or time is made of it; what that takes is measured as a plain cast.
- The same work by hand, as a skilled user of DuckDB writes it for files that are known to be clean:
  types declared to the engine's reader, hexagons by the vectorised library, one group-by. It checks
  nothing, drops no repeats and stops at the first field that does not fit.

Each with `memory="1GB"` and without a limit (``unlimited``); both ratios are printed for both.
``small.csv`` is a folder of files of 2,000 records. Exits 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aggregate
import measuring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

FIELDS = ("user_id", "lat", "lon", "time", "value")
TARGET, TIMES = 2.0, 3
SMALL = 2_000
"""Records of each file of a folder."""
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
    for ending, name in (("gz", "gzip"), ("zst", "zstd")):
        packed = f"(FORMAT csv, HEADER, COMPRESSION {name})"
        connection.execute(f"COPY (FROM '{folder}/records.csv') TO "
                           f"'{folder}/records.csv.{ending}' {packed}")  # fmt: skip
    connection.execute(f"COPY ({records}) TO '{folder}/records.ndjson' (FORMAT json)")
    connection.close()
    split(folder)


def split(folder: Path) -> None:
    """Write the records in files of a folder."""
    small = folder / "records.small.csv"
    small.mkdir()
    with (folder / "records.csv").open(encoding="utf-8") as file:
        header = next(file)
        for number, lines in enumerate(iter(lambda: list(islice(file, SMALL)), [])):
            (small / f"{number:06}.csv").write_text(header + "".join(lines), "utf-8")


def users(rows: int) -> int:
    """Return how many users have so many records."""
    return max(rows // A_USER, 1)


def opened(folder: Path, memory: str) -> Any:  # noqa: ANN401  the engine is imported where it is used
    """Return a connection of the engine."""
    import duckdb  # noqa: PLC0415  only where it is used

    connection = duckdb.connect(config={"memory_limit": memory, "temp_directory": str(folder)})
    connection.execute("SET preserve_insertion_order=false; SET TimeZone='UTC'")
    return connection


def scan(folder: Path, kind: str, types: dict[str, str]) -> str:
    """Return the engine's reading of delimited text with declared types."""
    columns = ", ".join(f"'{name}': '{types.get(name, 'VARCHAR')}'" for name in FIELDS)
    files = f"records.{kind}/*.csv" if kind == "small.csv" else f"records.{kind}"
    return (
        f"read_csv('{folder}/{files}', columns={{{columns}}}, auto_detect=false, header=true, "
        "delim=',')"
    )


TYPES = {"lat": "DOUBLE", "lon": "DOUBLE", "time": "TIMESTAMP", "value": "DOUBLE"}


def floor(folder: Path, memory: str, *, kind: str, cast: bool = False) -> int:
    """Return the records that DuckDB finds, all fields as text, or each cast to its type."""
    if kind == "ndjson":
        fields = {name: f"json_extract_string(json, '$.{name}')" for name in FIELDS}
        source = f"read_json_objects('{folder}/records.ndjson', format='newline_delimited')"
    else:
        fields = {name: f'"{name}"' for name in FIELDS}
        source = scan(folder, kind, {})
    start = aggregate.cpu()
    connection = opened(folder, memory)
    sums = ", ".join(
        f"max(TRY_CAST({field} AS {TYPES[name]}))"
        if cast and name in TYPES
        else f"sum(strlen({field}))"
        for name, field in fields.items()
    )
    found = connection.execute(f"SELECT count(*), {sums} FROM {source}").fetchone()
    assert found is not None
    connection.close()
    return aggregate.report(start, found[0])


def by_hand(folder: Path, memory: str, *, kind: str) -> int:
    """Return the pairs that DuckDB finds in clean files of declared types."""
    import duckdb  # noqa: PLC0415  only where it is used
    from duckdb.func import PythonUDFType  # noqa: PLC0415  as above

    from hexveil.base import hexagons  # noqa: PLC0415  only where it is used

    start = aggregate.cpu()
    connection = opened(folder, memory)
    double = duckdb.sqltypes.DOUBLE
    connection.create_function(
        "hexagon",
        lambda lat, lon: hexagons.of_places(lat, lon, aggregate.RESOLUTION),
        [double, double],
        duckdb.sqltypes.UBIGINT,
        type=PythonUDFType.ARROW,
    )
    source = scan(folder, kind, TYPES)
    if kind == "ndjson":
        columns = ", ".join(f"'{name}': '{TYPES.get(name, 'VARCHAR')}'" for name in FIELDS)
        source = f"read_json('{folder}/records.ndjson', columns={{{columns}}})"
    connection.execute(
        "CREATE TEMP TABLE pairs AS SELECT hexagon(lat, lon) AS cell, "
        "(epoch_us(time) // 1000000 + 19800) // 3600 AS slot, user_id, count(*) AS n, "
        f"sum(value) AS total FROM {source} GROUP BY ALL"
    )
    found = connection.execute("SELECT count(*) FROM pairs").fetchone()
    assert found is not None
    connection.close()
    return aggregate.report(start, found[0])


def reading(folder: Path, memory: str, *, kind: str, repeats: str) -> int:
    """Return the pairs that `hexveil.read` finds."""
    return aggregate.reading(folder, memory, drop=repeats == "drop", name=f"records.{kind}")


KINDS = ("csv", "ndjson", "csv.gz", "csv.zst", "small.csv")
FLOORS = ("floor", "by hand")


def tasks(kinds: Iterable[str] = KINDS) -> dict[str, Callable[[Path], int]]:
    """Return what is measured: each kind's floors and readings, with a limit of memory and without.

    With another floor, a cast of each field, for the first kinds.
    """
    found: dict[str, Callable[[Path], int]] = {}
    for kind in kinds:
        for ending, memory in aggregate.LIMITS.items():
            works: dict[str, Callable[..., int]] = {
                f"floor {kind}": partial(floor, kind=kind),
                f"by hand {kind}": partial(by_hand, kind=kind),
                f"read {kind} keep": partial(reading, kind=kind, repeats="keep"),
            }
            if not ending:
                works[f"cast {kind}"] = partial(floor, kind=kind, cast=True)
                works[f"read {kind} drop"] = partial(reading, kind=kind, repeats="drop")
            found |= {name + ending: partial(work, memory=memory) for name, work in works.items()}
    return found


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


def compare(
    rows: int, folder: Path, times: int, kinds: Sequence[str], file: Path | None = None
) -> int:
    """Print the ratios and return 1 if a target is missed."""
    if not (folder / "records.small.csv").exists():
        generate(rows, folder)
    print(
        f"{rows:,} records, seed {aggregate.SEED}, {users(rows):,} users, {aggregate.DAYS} days, "
        f"resolution {aggregate.RESOLUTION}, 1h calendar slots, as text:",
        flush=True,
    )
    # In turn, so that a busy machine slows all of them alike.
    turns = [{task: measure(task, folder) for task in tasks(kinds)} for _ in range(times)]
    least = {task: min(turn[task]["cpu"] for turn in turns) for task in turns[0]}
    found = []
    for task, cpu in least.items():
        kind = next(kind for kind in sorted(kinds, key=len, reverse=True) if f" {kind}" in task)
        ending = " unlimited" * task.endswith(" unlimited")
        peak = int(max(turn[task]["peak"] for turn in turns))
        ratios = []
        for base in FLOORS:
            # Dropping repeats reads twice, to find out whose twin is where: it has no target.
            wanted = base == "floor" and task == f"read {kind} keep" and kind in ("csv", "ndjson")
            limits = {"ratio": TARGET} if wanted else {}
            part = task if base == "floor" else f"{task}, over the same by hand"
            under, sizes = least[f"{base} {kind}{ending}"], {"rows": rows}
            one = measuring.Measured("text", part, sizes, cpu, under, peak, limits=limits)
            found += [one] * task.startswith("read")
            ratios.append(f"{one.ratio:.2f} times {'reading' if base == 'floor' else 'by hand'}")
        print(
            f"  {task:30} {cpu:6.2f} s CPU, {', '.join(ratios)}, "
            f"{cpu / rows * 1e9:.0f} ns a record, {peak / 2**20:,.0f} MiB, "
            f"{turns[0][task]['rows']:,.0f} rows found",
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
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS[:2])
    parser.add_argument("--task", choices=tasks(), help=argparse.SUPPRESS)
    measuring.add_json(parser)
    given = parser.parse_args()
    if given.task:
        return tasks()[given.task](given.folder)
    if given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
        return compare(given.rows, given.folder, given.times, given.kinds, given.json)
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as folder:
        return compare(given.rows, Path(folder), given.times, given.kinds, given.json)


if __name__ == "__main__":
    sys.exit(main())
