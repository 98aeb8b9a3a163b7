"""One Spark session for all tests of a process."""

import importlib.util
import os
import shutil
import sys
import warnings

import pytest

SMALL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    # What is compiled once for tiny data is not worth compiling well.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    # Arrow's local times stay local times in frames that tests make.
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}


@pytest.fixture(scope="session")
def spark_programs():
    """Skip where Spark, or the Java that it needs, is missing."""
    missing = [
        what
        for what, there in (
            ("pyspark (pip install -e .[spark])", importlib.util.find_spec("pyspark")),
            ("Java (Debian: apt-get install openjdk-17-jre-headless)", shutil.which("java")),
        )
        if not there
    ]
    if missing:
        reason = f"no {' and no '.join(missing)}"
        if os.environ.get("HEXVEIL_NO_SKIP"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def spark(spark_programs, tmp_path_factory):
    """Return a Spark session of two threads, which tries a failed task again."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  few tests need it

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2,3]").appName("tests")
    folder = tmp_path_factory.mktemp("spark")
    for name, value in (SMALL | {"spark.local.dir": str(folder)}).items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of pandas 3, which hexveil does not use
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
