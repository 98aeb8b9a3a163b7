"""The default plan on a standalone cluster: two workers on loopback.

``python benchmarks/spark_cluster.py [--rows N ...] [--users N] [--no-floor]``. Needs Java and the
extra `spark`. For each size a day of records is written as Parquet, a file for each hour, as
lakes are partitioned. A master and two workers of a core each are started. They group the files
by cell and user with Spark's own functions (the floor), then hexveil reads them, plans with
`clipping_range="auto"`, and releases. The same job by the local engine runs in a process of its
own, after DuckDB's own group-by of the same files. Printed are seconds, CPU seconds of all
processes, records per second, the ratios to both floors, and the largest resident sizes of the
driver and of an executor. Everything is ended and removed afterwards.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKERS, START = 2, 120
PLACES, HOURS, NEAR = 100, 24, 12
"""Places, the hours of one day, and how many places are near a vehicle's home."""
RECORDS_PER_USER = 1_000
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
    # The package that the driver imports, should it not be the installed one.
    "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
}
FLOOR = """SELECT place, hour, vehicle, count(*) AS n, sum(quanta) AS total,
    sum(quanta * quanta) AS total_sq
    FROM (SELECT place, hour, vehicle, CAST(round(speed * 1000) AS BIGINT) AS quanta FROM {files})
    GROUP BY place, hour, vehicle"""
"""What a skilled user of either engine would write for the same sums."""


def generate(rows: int, users: int, folder: Path) -> None:
    """Write a day of records: each vehicle reports near its home, at any hour."""
    import duckdb  # noqa: PLC0415  only where it is used

    connection = duckdb.connect(config={"threads": 1, "memory_limit": "1GB"})
    connection.execute("SELECT setseed(0.25)")
    for hour in range(HOURS):
        connection.execute(
            f"""COPY (SELECT format('v{{:06d}}', who) AS vehicle,
                'r' || ((who * 7 + CAST(floor({NEAR} * random() * random()) AS INTEGER))
                    % {PLACES}) AS place,
                'h{hour}' AS hour, round(20 + who % 20 + 10 * random(), 1) AS speed
            FROM (SELECT CAST(floor(random() * {users}) AS INTEGER) AS who
                FROM range({rows // HOURS})))
            TO '{folder}/part-{hour:02d}.parquet' (FORMAT parquet, COMPRESSION zstd)"""
        )


# ---- the cluster ----


@contextmanager
def service(folder: Path, name: str, said: str, *arguments: str) -> Iterator[str]:
    """Run one of Spark's services in a process group of its own; yield what it said."""
    import pyspark  # noqa: PLC0415  only where it is used

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    own = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / name),
        "SPARK_LOCAL_DIRS": str(folder / f"{name}-local"),
        "PYSPARK_PYTHON": sys.executable,
    }
    log = folder / f"{name}.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [str(program), *arguments],
            env={"SPARK_DAEMON_MEMORY": "256m"} | os.environ | own,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield _waited(log, said)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _waited(log: Path, said: str) -> str:
    end = time.monotonic() + START
    while time.monotonic() < end:
        if found := re.search(said, log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.2)
    raise TimeoutError(f"{log.name} never said {said}")


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Run a master and its workers on loopback; yield the master's address."""
    asked = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as stack:
        said = r"Starting Spark master at (\S+)"
        master = service(folder, "master", said, f"{DEPLOY}.master.Master", *asked)
        address = stack.enter_context(master)
        for number in range(WORKERS):
            # What Spark's own book of a worker says: more than any `spark.executor.memory` asks.
            room = ("--cores", "1", "--memory", "1t", address)
            said = r"(Successfully registered with master)"
            worker = f"{DEPLOY}.worker.Worker"
            stack.enter_context(service(folder, f"w{number}", said, worker, *asked, *room))
        yield address


# ---- what is measured ----


def family() -> list[int]:
    """Return this process, and all that it and its children started."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [os.getpid()]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def cpu_seconds() -> float:
    """Return the CPU seconds of this process's family, the ended ones included."""
    ticks = 0
    for process in family():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_mb(process: int) -> int:
    """Return the largest resident size of a process so far."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]


@contextmanager
def largest_sizes() -> Iterator[dict[str, int]]:
    """Yield the largest resident sizes in MB of an executor's Java and Python processes so far."""
    found, ended = {"java": 0, "python": 0}, threading.Event()

    def look() -> None:
        while not ended.wait(1):
            for process in family():
                # A process may have ended since it was listed.
                with contextlib.suppress(OSError, TypeError):
                    command = Path(f"/proc/{process}/cmdline").read_text()
                    for kind, part in (("java", "ExecutorBackend"), ("python", "pyspark.daemon")):
                        if part in command:
                            found[kind] = max(found[kind], peak_mb(process))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


class Steps:
    """Seconds and CPU seconds of steps, printed as they end."""

    def __init__(self, engine: str, rows: int) -> None:
        self._engine, self._rows = engine, rows
        self.told: dict[str, dict[str, float]] = {"seconds": {}, "cpu": {}}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure the body."""
        began, cpu = time.monotonic(), cpu_seconds()
        yield
        seconds, taken = time.monotonic() - began, cpu_seconds() - cpu
        self.told["seconds"][name], self.told["cpu"][name] = seconds, taken
        print(
            f"{self._engine:5} {name:8} {seconds:7.1f} s  {taken:7.1f} CPU s"
            f"  {self._rows / seconds:12,.0f} records/s",
            flush=True,
        )


def job(steps: Steps, folder: Path, ledger: Path, engine: Any) -> dict[str, Any]:  # noqa: ANN401
    """Read, plan and release; return sizes."""
    import hexveil as hv  # noqa: PLC0415  only where it is used

    with steps.step("read"):
        dataset = hv.read(
            f"{folder}/part-*.parquet", engine=engine, user="vehicle", value="speed",
            bounds=(0, 65), cells=hv.Labels("place", "hour"), repeats="keep",
            select=hv.Select(min_users=10), memory="3GB",
        )  # fmt: skip
    with steps.step("plan"):
        plan = hv.plan(dataset, epsilon=EPSILON, advise=False)
    with steps.step("release"):
        book = hv.Ledger(ledger, dataset="fleet", budget=10)
        released = hv.release(dataset, plan, ledger=book, accept_noise=True)
    occupancy = dataset.occupancy
    return {
        "pairs": occupancy.n_pairs,
        "cells": occupancy.n_cells,
        "users": occupancy.n_users,
        "clipping": type(plan.allocation.clipping).__name__,
        "distributed": not occupancy.is_local,
        "expected error": plan.expected_error,
        "released cells": released.table.num_rows,
    }


def by_spark(address: str, folder: Path, rows: int, *, floor: bool) -> dict[str, Any]:
    """Run the floor, unless left out, and the job on the cluster; return sizes and times."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  only where it is used

    os.environ["PYSPARK_PYTHON"] = sys.executable  # executors run what the driver names
    builder = SparkSession.builder.master(address)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    steps = Steps("spark", rows)
    files = f"parquet.`{folder}/part-*.parquet`"
    # Once with one file, so that what starts with the first job is no part of the floor.
    spark.sql(FLOOR.format(files=f"parquet.`{folder}/part-00.parquet`")).count()
    if floor:
        with steps.step("floor"):
            spark.sql(FLOOR.format(files=files)).write.format("noop").mode("overwrite").save()
    with largest_sizes() as of_executors:
        sizes = job(steps, folder, folder / "spark.sqlite", spark)
    gateway = spark.sparkContext._gateway  # noqa: SLF001  whose process is the driver's own Java
    assert gateway is not None
    java = gateway.proc.pid
    sizes |= {"driver MB": {"python": peak_mb(os.getpid()), "java": peak_mb(java)}}
    sizes |= {"executor MB": of_executors}
    spark.stop()
    return sizes | steps.told


def by_local_engine(folder: Path, rows: int) -> dict[str, Any]:
    """Run the floor and the job on one machine; return sizes and times."""
    import duckdb  # noqa: PLC0415  only where it is used

    steps = Steps("local", rows)
    query = FLOOR.format(files=f"'{folder}/part-*.parquet'")
    with steps.step("floor"):
        connection = duckdb.connect(config={"threads": WORKERS, "memory_limit": "3GB"})
        connection.execute(f"SELECT count(*), sum(n), sum(total), sum(total_sq) FROM ({query})")
        connection.close()
    sizes = job(steps, folder, folder / "local.sqlite", None)
    return sizes | {"process MB": peak_mb(os.getpid())} | steps.told


def measured(rows: int, users: int, options: list[str]) -> dict[str, Any]:
    """Return what both engines took for records of a size."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(rows, users, folder)
        print(f"{rows:,} records of {users:,} vehicles", flush=True)
        # Each in a process of its own, whose largest size is then that of the job.
        engines = ("local", "spark")
        return {"rows": rows} | {one: _in_process(one, rows, folder, options) for one in engines}


def _in_process(engine: str, rows: int, folder: Path, options: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", __file__, "--rows", str(rows), "--engine", engine]
    subprocess.run([*command, *options, "--folder", str(folder)], check=True)
    return dict(json.loads((folder / f"{engine}.json").read_text()))


def show(found: dict[str, Any]) -> None:
    """Print what was found at a size, and what each step took in CPU seconds beside its floors."""
    print(json.dumps(found, indent=2), flush=True)
    spark, local = found["spark"]["cpu"], found["local"]["cpu"]
    for name in spark:
        over = spark[name] / spark.get("floor", math.nan), spark[name] / local[name]
        print(
            f"{name:8} {over[0]:6.1f} times Spark's group-by; {over[1]:.1f} times the local engine"
        )


def main() -> None:
    """Run every size and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--users", type=int, help=f"rows / {RECORDS_PER_USER} unless given")
    parser.add_argument("--no-floor", action="store_true", help="leave out Spark's own group-by")
    parser.add_argument("--engine", choices=("spark", "local"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    # Whoever ends this ends the master and the workers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if asked.engine:
        (rows,) = asked.rows
        with ExitStack() as stack:
            if asked.engine == "spark":
                services = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                address = stack.enter_context(cluster(services))
                found = by_spark(address, asked.folder, rows, floor=not asked.no_floor)
            else:
                found = by_local_engine(asked.folder, rows)
        (asked.folder / f"{asked.engine}.json").write_text(json.dumps(found))
        return
    for rows in asked.rows:
        users, options = asked.users or rows // RECORDS_PER_USER, ["--no-floor"] * asked.no_floor
        show(measured(rows, users, options))


if __name__ == "__main__":
    main()
