"""What a client does in the test of Spark Connect: read, with no JVM beside it.

Run as a program: the server's address, and the folder of `cluster_job.write`. What it found is
written to found.json.
"""

import json
import sys
import warnings
from pathlib import Path

from records.spark import cluster_job


def main(address, folder):
    """Do the job, and write what was found."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  what it is depends on its address

    warnings.simplefilter("ignore", FutureWarning)  # of pandas 3, which hexveil does not use
    spark = SparkSession.builder.remote(address).getOrCreate()
    frame = spark.read.parquet(str(folder / "part-*.parquet"))
    found = {
        "session": type(spark).__module__,
        "files": cluster_job.counted(cluster_job.read(folder, engine=spark)),
        "frame": cluster_job.counted(cluster_job.read(folder, source=frame)),
    }
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
