"""What a driver does in the test of a cluster: read, plan, release, while a worker is killed.

Run as a program: master's address, folder, and the process groups of the three workers: one is
killed while records are read, another while they are released. What it found is written to
found.json.
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
    # The third worker takes the place of the first that is killed.
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.files.maxPartitionBytes": "50k",
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


def planned(dataset):
    """Return the plan that is released."""
    import hexveil as hv  # noqa: PLC0415  slow to import

    return hv.plan(dataset, epsilon=2, method="per-cell", advise=False)


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

    def freeze(self):
        """Stop all executors where they stand: none can end a task that it is given."""
        for folder in self.busy():
            os.killpg(self._workers[folder], signal.SIGSTOP)

    def run(self):
        """Wait, kill, and note how many tasks ran then."""
        running = 0
        while running < self._enough:
            stages = map(self._tracker.getStageInfo, self._tracker.getActiveStageIds())
            running = sum(stage.numActiveTasks for stage in stages if stage is not None)
            time.sleep(0.005)
        killed, *others = self.busy()
        os.killpg(self._workers.pop(killed), signal.SIGKILL)
        for folder in others:
            os.killpg(self._workers[folder], signal.SIGCONT)
        self.tasks = running


def main(master, folder, *workers):
    """Do the job, and write what was found."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    import hexveil as hv  # noqa: PLC0415  slow to import
    from hexveil.planning.allocation import allocation_of  # noqa: PLC0415
    from hexveil.publishing.pipeline import private_sums  # noqa: PLC0415

    warnings.simplefilter("ignore", FutureWarning)  # of pandas 3, which hexveil does not use
    builder = SparkSession.builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    workers = {folder / f"worker-{number}": int(group) for number, group in enumerate(workers)}
    reading = Killer(spark.sparkContext, workers, tasks=2)
    reading.start()
    dataset = read(folder, engine=spark)
    killed = {"reading": reading.tasks}
    plan = planned(dataset)
    book = hv.Ledger(folder / "ledger.sqlite", dataset="buses", budget=10)
    releasing = Killer(spark.sparkContext, workers, tasks=1)
    releasing.freeze()
    releasing.start()
    shown = hv.release(dataset, plan, ledger=book, accept_noise=True)
    killed["release"] = releasing.tasks
    again = hv.release(dataset, plan, ledger=book, accept_noise=True)
    (mean,) = allocation_of(plan, dataset.public.lattice).statistics
    found = {
        "killed while tasks ran": killed,
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
