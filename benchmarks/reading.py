"""Reading records from Parquet, CSV and newline JSON, beside floors of the same work.

``python benchmarks/reading.py [--rows N] [--users N] [--kinds parquet csv ndjson csv.gz csv.zst]
[--folder F]``. Every measurement runs in a process of its own, on the same records, with
`memory="1GB"`, which floors have as well. CPU seconds count all threads of that process between
opening the file and having the result; the interpreter's start and imports do not count. Each is
measured several times in turn with the others, and the least is taken. The floors of Parquet:

- DuckDB's bare scan of the five columns, with an aggregate over each;
- its group-by, with and without its own DISTINCT ON (user, time), on a file that already holds each
  record's cell and slot. That DISTINCT ON keeps any of several records, so that its result changes
  from run to run; reading keeps the one of smallest place and value.

Those of text:

- Merely reading: every field that is needed comes out as text, with an aggregate over each.
- The same work by hand, as a skilled user of DuckDB writes it for files that are known to be clean:
  types declared to the engine's reader, hexagons by the vectorised library, one group-by. It checks
  nothing, drops no repeats and stops at the first field that does not fit.

Parquet is read with counts by bin for a histogram as well: the floor is reading for the mean alone.

``--alone --memory 2GB --rows 500000000`` reads so many records, without any floor. Exits 1 if a
target is missed.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from duckdb.func import PythonUDFType

from hexveil.base import hexagons

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one

import measuring  # beside this file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Task = Callable[[Path, str], dict[str, float]]

USERS, DAYS, RESOLUTION, MEMORY = 20_000, 7, 8, "1GB"
SEED, ROW_GROUP, TIMES = 0.5, 122_880, 3
A_USER = 2_500
"""Records of a user on average, as 50 million have them: so text repeats pairs about as often."""
START = 1_708_300_800  # a Monday at midnight in Asia/Kolkata, on the hour in UTC
FIELDS = ("user_id", "lat", "lon", "time", "value")
TYPES = {"lat": "DOUBLE", "lon": "DOUBLE", "time": "TIMESTAMP", "value": "DOUBLE"}
PARQUET, JSON = "parquet", "ndjson"
KINDS = (PARQUET, "csv", JSON, "csv.gz", "csv.zst")
SCAN, GROUP, DISTINCT = "a bare scan", "a group-by", "a deduplication and group-by"
PLAIN, BY_HAND = "merely reading", "the same by hand"
BINS = "histogram"
TARGETS = {
    (PARQUET, "keep", GROUP): 2.0,
    (PARQUET, "keep", SCAN): 6.0,
    (PARQUET, "drop", DISTINCT): 1.5,
    ("csv", "keep", PLAIN): 2.0,
    (JSON, "keep", PLAIN): 2.0,
    (PARQUET, BINS, "keep"): 1.5,
}
"""How many times a floor each reading may take. Dropping repeats of text has no target."""
PEAK = 2 * 2**30


def opened(folder: Path, memory: str, *, hexagon: bool = False) -> duckdb.DuckDBPyConnection:
    """Return a connection of the engine, with a function for hexagons if it is asked for."""
    connection = duckdb.connect(config={"memory_limit": memory, "temp_directory": str(folder)})
    connection.execute("SET preserve_insertion_order=false; SET TimeZone='UTC'")
    if hexagon:
        double, found = duckdb.sqltypes.DOUBLE, duckdb.sqltypes.UBIGINT
        connection.create_function(
            "hexagon",
            lambda lat, lon: hexagons.of_places(lat, lon, RESOLUTION),
            [double, double],
            found,
            type=PythonUDFType.ARROW,
        )
    return connection


def generate(rows: int, users: int, folder: Path, kinds: Sequence[str]) -> None:
    """Write the records in each kind of file, and with their cells and slots computed."""
    connection = opened(folder, MEMORY, hexagon=True)
    # One thread: with more, who draws which random number changes from run to run.
    connection.execute(f"SET threads=1; SELECT setseed({SEED})")
    groups = f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
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
        FROM placed) TO '{folder}/records.parquet' {groups}"""
    )
    made = {"csv": "csv, HEADER", JSON: "json"}
    made |= {f"csv.{end}": f"csv, HEADER, COMPRESSION {name}" for end, name in PACKED.items()}
    for kind in set(kinds) - {PARQUET}:
        connection.execute(
            """COPY (SELECT * REPLACE (strftime("time", '%Y-%m-%dT%H:%M:%SZ') AS "time") """
            f"FROM '{folder}/records.parquet') TO '{folder}/records.{kind}' (FORMAT {made[kind]})"
        )
    if PARQUET in kinds:
        connection.execute(
            f"""COPY (SELECT hexagon(lat, lon) AS cell, (epoch_us("time") // 1000000 + 19800)
                // 3600 * 3600 AS slot, user_id, "time", value FROM '{folder}/records.parquet')
            TO '{folder}/ready.parquet' {groups}"""
        )
    connection.close()


PACKED = {"gz": "gzip", "zst": "zstd"}


def answered(query: str, folder: Path, memory: str, *, hexagon: bool = False) -> dict[str, float]:
    """Return what a query that counts rows took."""
    before = measuring.cpu()
    with opened(folder, memory, hexagon=hexagon) as connection:
        found = connection.execute(query).fetchone()
        if query.startswith("CREATE"):
            found = connection.execute("SELECT count(*) FROM pairs").fetchone()
        assert found is not None
    return measuring.since(before) | {"rows": found[0]}


def scan(folder: Path, memory: str) -> dict[str, float]:
    """Find the records in reading all five columns of Parquet."""
    # Aggregates that need every value, and that no statistics of the file can answer.
    sums = 'sum(strlen(user_id)), sum(lat), sum(lon), max(epoch_us("time")), sum(value)'
    return answered(f"SELECT count(*), {sums} FROM '{folder}/records.parquet'", folder, memory)


def grouped(cell: str, slot: str, records: str) -> str:
    """Return the query for the sums of pairs."""
    return (
        f"CREATE TEMP TABLE pairs AS SELECT {cell} AS cell, {slot} AS slot, user_id, "
        f"count(*) AS n, sum(value) AS total FROM {records} GROUP BY ALL"
    )


def grouping(folder: Path, memory: str, *, drop: bool) -> dict[str, float]:
    """Find the pairs on ready cells."""
    records = f"'{folder}/ready.parquet'"
    if drop:
        records = f'(SELECT DISTINCT ON (user_id, "time") * EXCLUDE ("time") FROM {records})'
    return answered(grouped("cell", "slot", records), folder, memory)


def text(folder: Path, kind: str, types: dict[str, str]) -> str:
    """Return the engine's reading of text with declared types."""
    columns = ", ".join(f"'{name}': '{types.get(name, 'VARCHAR')}'" for name in FIELDS)
    file = f"'{folder}/records.{kind}', columns={{{columns}}}"
    if kind == JSON:
        return f"read_json({file})"
    return f"read_csv({file}, auto_detect=false, header=true, delim=',')"


def merely_reading(folder: Path, memory: str, *, kind: str) -> dict[str, float]:
    """Find the records, all fields as text."""
    source, fields = text(folder, kind, {}), [f'"{name}"' for name in FIELDS]
    if kind == JSON:
        source = f"read_json_objects('{folder}/records.ndjson', format='newline_delimited')"
        fields = [f"json_extract_string(json, '$.{name}')" for name in FIELDS]
    sums = ", ".join(f"sum(strlen({field}))" for field in fields)
    return answered(f"SELECT count(*), {sums} FROM {source}", folder, memory)


def by_hand(folder: Path, memory: str, *, kind: str) -> dict[str, float]:
    """Find the pairs in clean files of declared types."""
    slot = "(epoch_us(time) // 1000000 + 19800) // 3600"
    query = grouped("hexagon(lat, lon)", slot, text(folder, kind, TYPES))
    return answered(query, folder, memory, hexagon=True)


def reading(folder: Path, memory: str, *, kind: str, repeats: str) -> dict[str, float]:
    """Find the pairs by `hexveil.read`."""
    import hexveil.records.duckdb.reading  # noqa: F401, PLC0415  imported before the clock starts
    from hexveil import Cells, Select, read  # noqa: PLC0415  only where it is used

    before = measuring.cpu()
    found: Any = read(
        str(folder / f"records.{kind}"),
        user="user_id",
        value="value",
        bounds=(0, 65),
        lat="lat",
        lon="lon",
        time="time",
        cells=Cells(RESOLUTION, "1h", "Asia/Kolkata"),
        select=Select(min_users=1),
        repeats="drop" if repeats == "drop" else "keep",
        statistics=("mean", BINS) if repeats == BINS else ("mean",),
        memory=memory,
    )
    return measuring.since(before) | {"rows": found.occupancy.n_pairs}


def tasks(kind: str) -> dict[str, Task]:
    """Return what is measured of a kind of file: its floors, then its readings."""
    floors: dict[str, Task] = {
        PLAIN: partial(merely_reading, kind=kind),
        BY_HAND: partial(by_hand, kind=kind),
    }
    if kind == PARQUET:
        floors = {
            SCAN: scan,
            GROUP: partial(grouping, drop=False),
            DISTINCT: partial(grouping, drop=True),
        }
    return floors | {one: partial(reading, kind=kind, repeats=one) for one in readings(kind)}


def readings(kind: str) -> tuple[str, ...]:
    """Return how a kind of file is read."""
    return ("keep", "drop", BINS) if kind == PARQUET else ("keep", "drop")


def beside(kind: str, repeats: str) -> tuple[str, ...]:
    """Return the floors of a reading."""
    if kind != PARQUET:
        return PLAIN, BY_HAND
    return {"keep": (GROUP, SCAN), "drop": (DISTINCT,), BINS: ("keep",)}[repeats]


def measure(kind: str, task: str, folder: Path, memory: str) -> dict[str, float]:
    """Return what one task takes, in a process of its own."""
    told = ("--kinds", kind, "--task", task, "--folder", folder, "--memory", memory)
    return measuring.in_process(f"{kind}: {task}", __file__, *told)


def compare(rows: int, kinds: Sequence[str], folder: Path, times: int) -> list[measuring.Measured]:
    """Return what readings take, each beside its floors."""
    found = []
    for kind in kinds:
        # In turn, so that a busy machine slows all of them alike.
        runs = [
            {task: measure(kind, task, folder, MEMORY) for task in tasks(kind)}
            for _ in range(times)
        ]
        for repeats in readings(kind):
            for floor in beside(kind, repeats):
                target = TARGETS.get((kind, repeats, floor))
                limits = {} if target is None else {"ratio": target}
                found.append(
                    measuring.Measured(
                        "reading",
                        f"{kind} {repeats}, over {floor}",
                        {"rows": rows},
                        min(run[repeats]["cpu"] for run in runs),
                        min(run[floor]["cpu"] for run in runs),
                        int(max(run[repeats]["peak"] for run in runs)),
                        limits=limits | ({"peak": PEAK} if kind == PARQUET else {}),
                    )
                )
    return found


def run(given: argparse.Namespace, folder: Path) -> int:
    """Make the records if they are not there, and measure."""
    users = given.users or max(given.rows // A_USER, 1)
    if not all((folder / f"records.{kind}").exists() for kind in given.kinds):
        generate(given.rows, users, folder, given.kinds)
    print(
        f"{given.rows:,} records, seed {SEED}, row groups of {ROW_GROUP:,}, {users:,} users, "
        f"{DAYS} days, resolution {RESOLUTION}, 1h calendar slots:",
        flush=True,
    )
    if given.alone:
        for kind in given.kinds:
            for repeats in readings(kind):
                measure(kind, repeats, folder, given.memory)
        return 0
    return measuring.told(compare(given.rows, given.kinds, folder, given.times), given.json)


def main() -> int:
    """Run the comparison, or one task of it."""
    parser = measuring.arguments(__doc__, rows=50_000_000, times=TIMES)
    parser.add_argument("--users", type=int, help=f"a user for {A_USER:,} records without it")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS[:3])
    parser.add_argument("--memory", default=MEMORY, help="what reading alone may use")
    parser.add_argument("--alone", action="store_true", help="read only, without the floors")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        return measuring.report(tasks(given.kinds[0])[given.task](given.folder, given.memory))
    return measuring.in_folder(given, run)


if __name__ == "__main__":
    sys.exit(main())
