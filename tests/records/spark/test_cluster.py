"""A standalone cluster of three workers on loopback, two of which are killed while tasks run."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from records.spark import cluster_job

START = 240
"""Seconds that a master or worker may take to say that it is there."""


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
        "SPARK_DAEMON_JAVA_OPTS": cluster_job.JAVA,
        "SPARK_LAUNCHER_OPTS": cluster_job.JAVA,
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


@contextmanager
def cluster(folder):
    """Run a master and three workers of one core each; yield its address and the workers."""
    deploy = "org.apache.spark.deploy"
    with ExitStack() as stack:
        asked = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        started = service(
            folder, "master", r"Starting Spark master at (\S+)", f"{deploy}.master.Master", *asked
        )
        _, address = stack.enter_context(started)
        workers = []
        for number in range(3):
            one = service(
                folder,
                f"worker-{number}",
                r"(Successfully registered with master)",
                f"{deploy}.worker.Worker",
                *(*asked, "--cores", "1", "--memory", "1g", address),
            )
            workers.append(stack.enter_context(one)[0])
        yield address, workers


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Return a folder of records."""
    folder = tmp_path_factory.mktemp("cluster")
    cluster_job.write(folder)
    return folder


@pytest.mark.usefixtures("spark_programs")
def test_workers_killed_in_mid_job_change_nothing(records, tmp_path):
    """Others do its part: the same counts and sums as on one machine."""
    for file in records.glob("*.parquet"):
        (tmp_path / file.name).symlink_to(file)
    with cluster(tmp_path) as (address, workers):
        job = [sys.executable, cluster_job.__file__, address, tmp_path]
        done = subprocess.run(
            [*map(str, job), *(str(worker.pid) for worker in workers)],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        ended = [worker.poll() for worker in workers]
        assert sorted(ended, key=str) == [-signal.SIGKILL, None, None]
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found.pop("tasks when killed") >= 2
    assert found == cluster_job.counted(cluster_job.read(records))
