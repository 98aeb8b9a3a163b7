"""The default plan on a standalone cluster: two workers on loopback, pairs that stay there.

``python benchmarks/spark_cluster.py [--rows N] [--users N]``. Needs Java and the extra `spark`. A
master and two workers of a core each are started, records are written as Parquet, read with every
pair kept in Spark, planned with `clipping_range="auto"`, and released. Printed are the sizes, the
seconds of each step, and what the driver's process held at its largest. Everything is ended and
removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKERS, FILES, START = 2, 8, 120
CELLS, SLOTS = 1_000, 24
"""Places, and the hours of one day."""
EPSILON = 1
DEPLOY = "org.apache.spark.deploy"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.cores": "1",
    "spark.executor.memory": "1g",
    "spark.cores.max": str(WORKERS),
    "spark.sql.shuffle.partitions": "4",
    # Nothing may come to the driver because it would fit there.
    "spark.hexveil.pairsOnDriver": "0",
    # The package that the driver imports, should it not be the installed one.
    "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
}


def generate(rows: int, users: int, folder: Path) -> None:
    """Write a day of records: each vehicle reports near its home, at any hour."""
    import duckdb  # noqa: PLC0415  only where it is used

    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SELECT setseed(0.25)")
    for number in range(FILES):
        connection.execute(
            f"""COPY (SELECT format('v{{:06d}}', who) AS vehicle,
                'r' || ((who * 7 + CAST(floor(12 * random() * random()) AS INTEGER)) % {CELLS})
                    AS place,
                'h' || CAST(floor({SLOTS} * random()) AS INTEGER) AS hour,
                round(20 + who % 20 + 10 * random(), 1) AS speed
            FROM (SELECT CAST(floor(random() * {users}) AS INTEGER) AS who
                FROM range({rows // FILES})))
            TO '{folder}/part-{number}.parquet' (FORMAT parquet, COMPRESSION zstd)"""
        )


@contextmanager
def service(folder: Path, name: str, said: str, *arguments: str) -> Iterator[str]:
    """Run one of Spark's services in a process group of its own; yield what it said."""
    import pyspark  # noqa: PLC0415  only where it is used

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    own = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / name),
        "SPARK_LOCAL_DIRS": str(folder / f"{name}-local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    log = folder / f"{name}.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [str(program), *arguments],
            env=os.environ | own,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield _waited(log, said)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _waited(log: Path, said: str) -> str:
    end = time.monotonic() + START
    while time.monotonic() < end:
        if found := re.search(said, log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.2)
    raise SystemExit(f"{log.name} never said {said}")


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Run a master and its workers on loopback; yield the master's address."""
    asked = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as stack:
        said = r"Starting Spark master at (\S+)"
        master = service(folder, "master", said, f"{DEPLOY}.master.Master", *asked)
        address = stack.enter_context(master)
        for number in range(WORKERS):
            room = ("--cores", "1", "--memory", "1500m", address)
            said = r"(Successfully registered with master)"
            worker = f"{DEPLOY}.worker.Worker"
            stack.enter_context(service(folder, f"w{number}", said, worker, *asked, *room))
        yield address


def run(address: str, folder: Path) -> dict[str, float]:
    """Read, plan and release; return sizes and seconds."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  only where it is used

    import hexveil as hv  # noqa: PLC0415

    os.environ["PYSPARK_PYTHON"] = sys.executable  # executors run what the driver names
    builder = SparkSession.builder.master(address)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    marks = [time.monotonic()]
    dataset = hv.read(
        f"{folder}/part-*.parquet", engine=spark, user="vehicle", value="speed", bounds=(0, 65),
        cells=hv.Labels("place", "hour"), repeats="keep", select=hv.Select(min_users=10),
    )  # fmt: skip
    marks.append(time.monotonic())
    print(f"read in {marks[-1] - marks[0]:.0f} s", flush=True)
    plan = hv.plan(dataset, epsilon=EPSILON, advise=False)
    marks.append(time.monotonic())
    print(f"planned in {marks[-1] - marks[-2]:.0f} s", flush=True)
    book = hv.Ledger(folder / "ledger.sqlite", dataset="fleet", budget=10)
    released = hv.release(dataset, plan, ledger=book, accept_noise=True)
    marks.append(time.monotonic())
    occupancy = dataset.occupancy
    seconds = [round(late - soon, 1) for soon, late in pairwise(marks)]
    figures = {
        "records": occupancy.n_records,
        "pairs": occupancy.n_pairs,
        "cells": occupancy.n_cells,
        "users": occupancy.n_users,
        "clipping": type(plan.allocation.clipping).__name__,
        "distributed": not occupancy.is_local,
        "epsilon": float(plan.epsilon),
        "expected error": plan.expected_error,
        "released cells": released.table.num_rows,
        **dict(zip(("read_s", "plan_s", "release_s"), seconds, strict=True)),
        "driver_python_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    spark.stop()
    return figures


def main() -> None:
    """Run the cluster and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--users", type=int, default=20_000)
    asked = parser.parse_args()
    # Whoever ends this ends the master and the workers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(asked.rows, asked.users, folder)
        with cluster(folder) as address:
            print(json.dumps(run(address, folder), indent=2))


if __name__ == "__main__":
    main()
