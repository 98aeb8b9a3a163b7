"""What a driver does in the test of a cluster: read, plan, release, while a worker is killed.

Run as a program: master's address, folder, the process groups of the worker that is killed and of
the other, and when to kill it: "reading" or "release". What it found is written to found.json.
"""

import json
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np

BOUNDS, SEED, FILES, ROWS = (0, 60), 5, 6, 30_000
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "600m",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.maxPartitionBytes": "300k",
    "spark.hexveil.pairsOnDriver": "100",
}


def write(folder):
    """Write the records: several files, so that there are several tasks."""
    import pyarrow as pa  # noqa: PLC0415  the parent process needs little
    import pyarrow.parquet as pq  # noqa: PLC0415

    draw = np.random.default_rng(SEED)
    for number in range(FILES):
        columns = {
            "bus": [f"bus {i}" for i in draw.integers(0, 60, ROWS)],
            "route": [f"r{i}" for i in draw.integers(0, 9, ROWS)],
            "speed": draw.integers(0, 61, ROWS).astype(float),
        }
        pq.write_table(pa.table(columns), folder / f"part-{number}.parquet")


def read(folder, **engine):
    """Return the records as a data set."""
    import hexveil as hv  # noqa: PLC0415  slow to import

    return hv.read(
        str(folder / "part-*.parquet"),
        user="bus",
        value="speed",
        bounds=BOUNDS,
        cells=hv.Labels("route"),
        **engine,
    )


def planned(dataset):
    """Return the plan that is released."""
    import hexveil as hv  # noqa: PLC0415  slow to import

    return hv.plan(dataset, epsilon=2, method="per-cell", advise=False)


class Killer(threading.Thread):
    """Kills a worker as soon as the armed session has tasks that run.

    Workers that are frozen before cannot end a task that they are given, so that none is missed.
    """

    def __init__(self, context, group, other):
        super().__init__(daemon=True)
        self._tracker, self._group, self._other = context.statusTracker(), group, other
        self.armed, self.tasks = threading.Event(), 0

    def freeze(self):
        """Stop all workers where they stand, and look for tasks from now on."""
        for group in (self._group, self._other):
            os.killpg(group, signal.SIGSTOP)
        self.armed.set()

    def run(self):
        """Wait, kill, and say how many tasks ran then."""
        self.armed.wait()
        while not self.tasks:
            stages = map(self._tracker.getStageInfo, self._tracker.getActiveStageIds())
            self.tasks = sum(stage.numActiveTasks for stage in stages if stage is not None)
            time.sleep(0.005)
        os.killpg(self._group, signal.SIGKILL)
        os.killpg(self._other, signal.SIGCONT)


def main(master, folder, group, other, when):
    """Do the job, and write what was found."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    import hexveil as hv  # noqa: PLC0415  slow to import
    from hexveil.planning.release_allocation import allocation_of  # noqa: PLC0415
    from hexveil.publishing.private_sums import private_sums  # noqa: PLC0415

    warnings.simplefilter("ignore", FutureWarning)  # of pandas 3, which hexveil does not use
    builder = SparkSession.builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    killer = Killer(spark.sparkContext, int(group), int(other))
    killer.start()
    if when == "reading":
        killer.armed.set()
    dataset = read(folder, engine=spark)
    plan = planned(dataset)
    book = hv.Ledger(folder / "ledger.sqlite", dataset="buses", budget=10)
    if when == "release":
        killer.freeze()
    shown = hv.release(dataset, plan, ledger=book, accept_noise=True)
    again = hv.release(dataset, plan, ledger=book, accept_noise=True)
    (mean,) = allocation_of(plan, dataset.public.lattice).stage.statistics
    found = {
        "killed while tasks ran": killer.tasks,
        "kind": type(dataset.occupancy).__name__,
        "records": dataset.occupancy.records_per_cell.tolist(),
        "losses": plan.losses().tolist(),
        "statistic": mean.measure(private_sums(dataset))[0].tolist(),
        "noisy": shown.table["mean_noisy"].to_pylist(),
        "again": again.table["mean_noisy"].to_pylist(),
        "replayed": [shown.replayed, again.replayed],
        "left": float(book.remaining),
        "epsilon": float(plan.epsilon),
    }
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
