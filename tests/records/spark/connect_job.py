"""What a client does in the test of Spark Connect: read, with no JVM beside it.

Run as a program: the server's address, and the folder of `write`. What it found is written to
found.json.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np


def write(folder):
    """Write the records: several files, so that there are several tasks."""
    import pyarrow as pa  # noqa: PLC0415  the parent process needs little
    import pyarrow.parquet as pq  # noqa: PLC0415

    draw = np.random.default_rng(5)
    for number in range(4):
        columns = {
            "bus": [f"bus {i}" for i in draw.integers(0, 60, 2_000)],
            "route": [f"r{i}" for i in draw.integers(0, 9, 2_000)],
            "speed": draw.integers(0, 61, 2_000).astype(float),
        }
        pq.write_table(pa.table(columns), folder / f"part-{number}.parquet")


def read(folder, source=None, **engine):
    """Return the records as a data set."""
    import hexveil as hv  # noqa: PLC0415  slow to import

    return hv.read(
        str(folder / "part-*.parquet") if source is None else source,
        user="bus",
        value="speed",
        bounds=(0, 60),
        cells=hv.Labels("route"),
        **engine,
    )


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


def main(address, folder):
    """Do the job, and write what was found."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  what it is depends on its address

    warnings.simplefilter("ignore", FutureWarning)  # of pandas 3, which hexveil does not use
    spark = SparkSession.builder.remote(address).getOrCreate()
    frame = spark.read.parquet(str(folder / "part-*.parquet"))
    found = {
        "session": type(spark).__module__,
        "files": counted(read(folder, engine=spark)),
        "frame": counted(read(folder, source=frame)),
    }
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
