"""A client of Spark Connect: a server on loopback gives what one machine gives."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
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
START = 240


@contextmanager
def service(folder, name, said, *arguments, memory="256m"):
    """Run one of Spark's services in a process group of its own; yield it and what it said."""
    import pyspark  # noqa: PLC0415  where it is installed

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    log = folder / f"{name}.log"
    own = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / name),
        "SPARK_LOCAL_DIRS": str(folder / f"{name}-local"),
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_DAEMON_JAVA_OPTS": JAVA,
        "SPARK_LAUNCHER_OPTS": JAVA,
        "PYSPARK_PYTHON": sys.executable,
    }
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [program, *arguments],
            env=os.environ | own,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process, _waited(log, said)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _waited(log, said):
    """Return what a service's log says, once it does."""
    end = time.monotonic() + START
    while time.monotonic() < end:
        if found := re.search(said, log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{log.name} never said {said}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder of records."""
    folder = tmp_path_factory.mktemp("connect")
    connect_job.write(folder)
    return folder


@pytest.mark.usefixtures("spark_programs")
def test_a_client_reads_what_one_machine_reads(folder):
    """Files, and a frame; the server runs as long as the client's process does."""
    if not all(importlib.util.find_spec(name) for name in ("grpc", "grpc_status", "zstandard")):
        reason = 'no client of Spark Connect (pip install "pyspark[connect]")'
        (pytest.fail if os.environ.get("HEXVEIL_NO_SKIP") else pytest.skip)(reason)
    main = "org.apache.spark.sql.connect.service.SparkConnectServer"
    settings = [part for pair in SERVER.items() for part in ("--conf", "=".join(pair))]
    asked = ("--class", main, "--master", "local[2]", "--driver-java-options", JAVA)
    submit = ("org.apache.spark.deploy.SparkSubmit", *asked, *settings, "spark-internal")
    said = r"Connect server started at: (127\S+)"
    with service(folder, "server", said, *submit, memory="600m") as (_, address):
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
