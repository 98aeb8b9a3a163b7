"""A client of Spark Connect: a server on loopback gives what one machine gives."""

import importlib.util
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from records.spark import connect_job

pytestmark = pytest.mark.slow
SERVER = {
    "spark.ui.enabled": "false",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What is compiled once for tiny data is not worth compiling well."""
SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "spark_cluster.py"
"""The benchmark that starts services of Spark, too."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder of records."""
    folder = tmp_path_factory.mktemp("connect")
    connect_job.write(folder)
    return folder


@pytest.mark.usefixtures("spark_programs")
def test_a_client_reads_what_one_machine_reads(folder, monkeypatch):
    """Files, and a frame; the server runs as long as the client's process does."""
    if not all(importlib.util.find_spec(name) for name in ("grpc", "grpc_status", "zstandard")):
        reason = 'no client of Spark Connect (pip install "pyspark[connect]")'
        (pytest.fail if os.environ.get("HEXVEIL_NO_SKIP") else pytest.skip)(reason)
    main = "org.apache.spark.sql.connect.service.SparkConnectServer"
    settings = [part for pair in SERVER.items() for part in ("--conf", "=".join(pair))]
    asked = ("--class", main, "--master", "local[2]", "--driver-java-options", JAVA)
    submit = ("org.apache.spark.deploy.SparkSubmit", *asked, *settings, "spark-internal")
    said = r"Connect server started at: (127\S+)"
    monkeypatch.setenv("SPARK_DAEMON_MEMORY", "600m")
    for name in ("SPARK_DAEMON_JAVA_OPTS", "SPARK_LAUNCHER_OPTS"):
        monkeypatch.setenv(name, JAVA)
    service = runpy.run_path(str(SCRIPT))["service"]
    with service(folder, "server", said, *submit) as address:
        tests = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [sys.executable, connect_job.__file__, f"sc://{address}", str(folder)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, tests))},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    assert found["session"].startswith("pyspark.sql.connect")
    here = connect_job.counted(connect_job.read(folder))
    assert found["files"] == found["frame"] == here
