"""What a client does in the test of Spark Connect: read, plan, release, with no JVM beside it.

Run as a program: the server's address, and the folder of `cluster_job.write`. What it found is
written to found.json.
"""

import json
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow.parquet as pq

import hexveil as hv
from hexveil.mechanisms import noise
from publishing.test_stored_releases import at_hand
from records.spark import cluster_job

EPSILON, RELEASED = 6, "released.table"


def counted(dataset):
    """Return the cells and the counts of a data set."""
    occupancy = dataset.occupancy
    return {
        "kind": type(occupancy).__name__,
        "cells": dataset.public.cells.names(),
        "ids": list(map(str, dataset.units.ids())),
        "rules": list(dataset.public.rules.items()),
        "users": occupancy.users_per_cell.tolist(),
        "records": occupancy.records_per_cell.tolist(),
        "of users": occupancy.records_per_user.tolist(),
    }


@contextmanager
def exactly():
    """Add no noise; yield the list that gets all whole numbers that it is for, with its scales."""
    given = []

    def add(values, scales):
        given.append([values.tolist(), np.broadcast_to(scales, values.shape).tolist()])
        return values

    def best(scores, scale):
        given.append([scores.tolist(), float(scale)])
        return int(np.argmax(scores))

    with mock.patch.multiple(noise, add_laplace=add, noisy_max=best):
        yield given


def released(dataset, plan, folder):
    """Release a plan without noise; return what is compared."""
    folder.mkdir()
    book = hv.Ledger(folder / "ledger.sqlite", dataset="buses", budget=10)
    with exactly() as given:
        shown = hv.release(dataset, plan, ledger=book, accept_noise=True)
    pq.write_table(shown.table, folder / RELEASED)
    return {
        "clipping": type(plan.allocation.clipping).__name__,
        "losses": plan.losses().tolist(),
        "given": given,
        "left": float(book.remaining),
    }


def main(address, folder):
    """Do the job, and write what was found."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  what it is depends on its address

    warnings.simplefilter("ignore", FutureWarning)  # of pandas 3, which hexveil does not use
    spark = SparkSession.builder.remote(address).getOrCreate()
    files = str(folder / "part-*.parquet")
    fetched = cluster_job.read(folder, engine=spark)
    spark.conf.set("spark.hexveil.pairsOnDriver", "100")
    here = cluster_job.read(folder)
    frame = cluster_job.read(folder, source=spark.read.parquet(files))
    plan = hv.plan(frame, epsilon=EPSILON, advise=False)
    found = {
        "session": type(spark).__module__,
        "files": counted(fetched),
        "sums": fetched.sums.total.tolist(),
        "frame": counted(frame),
        "released": released(frame, plan, folder / "there"),
        # The same plan: a sum over blocks may differ from a sum of pairs in its last digit.
        "at hand": released(here, at_hand(plan, here), folder / "here"),
    }
    frame.close()
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
