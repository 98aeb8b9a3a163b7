"""What a driver does in the test of a cluster: read, while a worker is killed.

Run as a program: master's address, folder, and the process groups of the workers. What it found is
written to found.json.
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

BOUNDS, SEED, FILES, ROWS = (0, 60), 5, 4, 2_000
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What is compiled once for tiny data is not worth compiling well."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "600m",
    "spark.executor.extraJavaOptions": JAVA,
    "spark.driver.extraJavaOptions": JAVA,
    # The third worker takes the place of the one that is killed.
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.files.maxPartitionBytes": "50k",
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


def read(folder, source=None, **engine):
    """Return the records as a data set."""
    import hexveil as hv  # noqa: PLC0415  slow to import

    return hv.read(
        str(folder / "part-*.parquet") if source is None else source,
        user="bus",
        value="speed",
        bounds=BOUNDS,
        cells=hv.Labels("route"),
        **engine,
    )


class Killer(threading.Thread):
    """Kills a worker as soon as tasks run.

    Parameters
    ----------
    context : SparkContext
    workers : dict
        The process group of each worker that lives, by its folder. One that has an executor is
        killed.
    tasks : int
        How many tasks must run: 2 are on both executors, so that any kill takes one.
    """

    def __init__(self, context, workers, tasks):
        super().__init__(daemon=True)
        self._tracker, self._workers, self._enough = context.statusTracker(), workers, tasks
        self.tasks = 0

    def busy(self):
        """Return the folders of the workers that have an executor."""
        return [folder for folder in self._workers if any(folder.glob("app-*/*"))]

    def run(self):
        """Wait, kill, and note how many tasks ran then."""
        running = 0
        while running < self._enough:
            stages = map(self._tracker.getStageInfo, self._tracker.getActiveStageIds())
            running = sum(stage.numActiveTasks for stage in stages if stage is not None)
            time.sleep(0.005)
        os.killpg(self._workers.pop(self.busy()[0]), signal.SIGKILL)
        self.tasks = running


def counted(dataset):
    """Return the cells, counts and sums of a data set."""
    occupancy = dataset.occupancy
    return {
        "cells": list(dataset.public.cells.names()),
        "ids": list(map(str, dataset.units.ids())),
        "rules": [list(rule) for rule in dataset.public.rules.items()],
        "records": occupancy.records_per_cell.tolist(),
        "sums": dataset.sums.total.tolist(),
    }


def main(master, folder, *workers):
    """Do the job, and write what was found."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    warnings.simplefilter("ignore", FutureWarning)  # of pandas 3, which hexveil does not use
    builder = SparkSession.builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    workers = {folder / f"worker-{number}": int(group) for number, group in enumerate(workers)}
    reading = Killer(spark.sparkContext, workers, tasks=2)
    reading.start()
    found = counted(read(folder, engine=spark)) | {"tasks when killed": reading.tasks}
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
