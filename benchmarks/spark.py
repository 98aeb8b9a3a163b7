"""What Spark takes for a record: reading, counting and summing in local[2], beside a bare scan.

``python benchmarks/spark.py [--rows N]``. Needs Java and the extra `spark`. Each thing is measured
in a session of its own: done once with N records, so that Java has compiled what it runs, then with
N and with 4 N of the same users and cells. What a record takes is the slope between these two. CPU
seconds are those of all processes of the session, Java's and Python's. Pairs are few, as in records
of weeks: some 50,000.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexveil.records.read_request import Repeats

USERS, CELLS, RESOLUTION, ROW_GROUP = 400, 100, 7, 250_000
TIMES = 4
"""How many times as many records the second measurement has."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "2g",
}


def generate(rows: int, path: Path) -> None:
    """Write records of buses, each at one of some places, at a time of one week."""
    import duckdb  # noqa: PLC0415  only where it is used

    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SELECT setseed(0.25)")
    connection.execute(
        f"""COPY (SELECT format('bus-{{:04d}}', CAST(floor(random() * {USERS}) AS INTEGER)) AS bus,
            21.0 + 0.03 * (place % 10) + 0.004 * random() AS lat,
            72.6 + 0.03 * (place // 10) + 0.004 * random() AS lon,
            make_timestamptz((1708300800 + CAST(floor(random() * 604800) AS BIGINT)) * 1000000)
                AS at, 65 * random() AS speed
        FROM (SELECT CAST(floor(random() * {CELLS}) AS INTEGER) AS place FROM range({rows})))
        TO '{path}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"""
    )


def scan(spark: object, path: str) -> int:
    """Look at every column of every record."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    frame = spark.read.parquet(path)  # type: ignore[attr-defined]
    looked = [F.sum(F.length("bus")), F.sum("lat"), F.sum("lon"), F.max("at"), F.sum("speed")]
    return len(frame.agg(*looked).collect())


def read(spark: object, path: str, repeats: Repeats) -> int:
    """Return how many pairs hexveil finds."""
    import hexveil as hv  # noqa: PLC0415  only where it is used

    dataset = hv.read(
        path,
        engine=spark,
        user="bus",
        value="speed",
        bounds=(0, 65),
        lat="lat",
        lon="lon",
        time="at",
        cells=hv.Cells(RESOLUTION, None, "Asia/Kolkata"),
        repeats=repeats,
    )
    return dataset.occupancy.n_pairs


def task(name: str, paths: list[str]) -> None:
    """Do one thing in a session of its own; print CPU seconds with few and many records, pairs."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  only where it is used

    builder = SparkSession.builder.master("local[2]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    taken = []
    for path in (paths[0], *paths):
        before = session_cpu()
        pairs = (
            scan(spark, path)
            if name == "scan"
            else read(spark, path, "drop" if name == "drop" else "keep")
        )
        taken.append(session_cpu() - before)
    print(*taken, pairs)
    spark.stop()


def session_cpu() -> float:
    """Return the CPU seconds of all processes of this session, and of those that they waited for.

    Java is not waited for by Python, so that it is not in what `resource` says of children.
    """
    ticks, own = 0, os.getsid(0)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == own:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(name: str, paths: list[Path]) -> tuple[float, float, int]:
    """Return the CPU seconds of one thing with few and many records, and how many pairs."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--task", name, *map(str, paths)],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        start_new_session=True,
    )
    few, many, pairs = done.stdout.split()[-3:]
    return float(few), float(many), int(pairs)


def main() -> None:
    """Print what a record takes, and how that compares with a bare scan by Spark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.task:
        task(asked.task, asked.files)
        return
    lacks = [
        what
        for what, there in (("Java", shutil.which("java")), ("pyspark", find_spec("pyspark")))
        if not there
    ]
    if lacks:
        print(f"not measured: no {' and no '.join(lacks)} here")
        return
    rows, more = asked.rows, (TIMES - 1) * asked.rows
    print(f"{rows:,} and {rows + more:,} records, row groups of {ROW_GROUP:,}, local[2]")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{n}.parquet" for n in (1, TIMES)]
        for times, path in zip((1, TIMES), paths, strict=True):
            generate(times * rows, path)
        floor = 0.0
        for name in ("scan", "keep", "drop"):
            few, many, pairs = measured(name, paths)
            taken = (many - few) / more * 1e9
            floor = floor or taken
            beside = ""
            if name != "scan":
                beside = f", {taken / floor:.1f} times the scan, {pairs:,} pairs"
            print(f"{name:5} {taken:7.0f} ns of CPU a record{beside}")


if __name__ == "__main__":
    main()
