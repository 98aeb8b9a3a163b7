"""A release killed at each step: paid before it is published, whole or absent, one answer."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import hexveil as hv
from publishing.setting import small_fleet

CHILD = """
import os, signal, sys
from pathlib import Path
import hexveil as hv
from hexveil.base import atomic_files
from hexveil.mechanisms import noise
from hexveil.publishing import folder as folders
from publishing.setting import small_fleet

step, ledger, out = sys.argv[1:4]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def after(owner, name):
    real = getattr(owner, name)
    def killed(*args, **kwargs):
        real(*args, **kwargs)
        die()
    setattr(owner, name, killed)

if step in ("reserve", "begin_draw", "store", "complete"):
    after(hv.Ledger, step)
elif step == "noise":
    after(noise, "add_laplace")
elif step == "first file":
    after(folders.pa.parquet, "write_table")
elif step == "all files":
    after(folders, "_write_files")
elif step == "named":
    after(Path, "rename")

dataset, plan = small_fleet()
book = hv.Ledger(ledger, dataset="buses", budget=2)
hv.release(dataset, plan, ledger=book, accept_noise=True).write(out)
"""
STEPS = {
    "reserve": ("reserved",),
    "begin_draw": ("marked",),
    "noise": ("marked",),
    "store": ("measured",),
    "complete": ("stored", "committed"),
    "first file": ("stored", "committed"),
    "all files": ("stored", "committed"),
    "named": ("stored", "committed"),
}
"""Where a release is killed, and the states that its request may be in then."""


def kill_after(step, folder):
    """Run a release in a process of its own, which is killed after a step."""
    program = [sys.executable, "-c", CHILD, step, folder / "ledger.sqlite", folder / "map"]
    tests = str(Path(__file__).parents[1])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": tests}
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == -signal.SIGKILL, done.stderr


def whole(folder: Path):
    """Return the published table of a folder, which has all files or is not there."""
    if not folder.exists():
        return None
    names = {"cells.parquet", "cells.csv", "report.html", "manifest.json", "README.txt"}
    assert names <= {file.name for file in folder.iterdir()}
    return pq.read_table(folder / "cells.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step(tmp_path, step):
    """Whatever was reached, the cost is booked, the folder whole or absent, the answer one."""
    kill_after(step, tmp_path)
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=2)
    (booking,) = book.entries()
    assert booking.state in STEPS[step]
    spent = book.spent
    assert spent == booking.cost > 0
    seen = whole(tmp_path / "map")
    assert (seen is not None) == (step == "named")
    # The same request again, twice: one answer, and what was seen before is it.
    answers = [] if seen is None else [seen]
    dataset, plan = small_fleet()
    for out in ("again", "once more"):
        hv.release(dataset, plan, ledger=book, accept_noise=True).write(tmp_path / out)
        answers.append(whole(tmp_path / out))
    assert all(answer.equals(answers[0]) for answer in answers)
    # What was left under a temporary name goes with the next write to the same place.
    left = [path.name for path in tmp_path.glob(".map.partial-*")]
    assert len(left) == (step in ("first file", "all files"))
    if seen is None:
        hv.release(dataset, plan, ledger=book, accept_noise=True).write(tmp_path / "map")
        assert whole(tmp_path / "map").equals(answers[0])
    assert list(tmp_path.glob(".*.partial-*")) == []
    if booking.stages:
        assert book.find(booking.request).stages == booking.stages
    # A draw that began and was not stored is lost, and paid for once more.
    lost = step in ("begin_draw", "noise")
    assert book.spent == (2 if lost else 1) * spent
    assert len(book.entries()) == 1
