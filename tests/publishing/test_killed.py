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
import hexveil.report.page, scipy.optimize  # once, for all children
from hexveil.mechanisms import noise
from hexveil.publishing import folder as folders
from publishing.setting import small_fleet

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def after(owner, name):
    real = getattr(owner, name)
    def killed(*args, **kwargs):
        real(*args, **kwargs)
        die()
    setattr(owner, name, killed)

def release(step, folder):
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
    book = hv.Ledger(folder / "ledger.sqlite", dataset="buses", budget=2)
    hv.release(dataset, plan, ledger=book, accept_noise=True).write(folder / "map")

for folder in map(Path, sys.argv[1:]):
    child = os.fork()
    if not child:
        try:
            release(folder.name, folder)
        finally:
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
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


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Return the folder of a release that was killed after each step, each in its own process."""
    folders = {step: tmp_path_factory.mktemp("killed") / step for step in STEPS}
    for folder in folders.values():
        folder.mkdir()
    tests = str(Path(__file__).parents[1])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": _paths(tests)}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *folders.values()],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.stdout.split() == [str(-signal.SIGKILL)] * len(folders), done.stderr
    return folders


def _paths(tests):
    return os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH", "")]))


def whole(folder: Path):
    """Return the published table of a folder, which has all files or is not there."""
    if not folder.exists():
        return None
    names = {"cells.parquet", "cells.csv", "report.html", "manifest.json", "README.txt"}
    assert names <= {file.name for file in folder.iterdir()}
    return pq.read_table(folder / "cells.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step(killed, step):
    """Whatever was reached, the cost is booked, the folder whole or absent, the answer one."""
    folder = killed[step]
    book = hv.Ledger(folder / "ledger.sqlite", dataset="buses", budget=2)
    (booking,) = book.entries()
    assert booking.state in STEPS[step]
    spent = book.spent
    assert spent == booking.cost > 0
    seen = whole(folder / "map")
    assert (seen is not None) == (step == "named")
    # The same request again, twice: one answer, and what was seen before is it.
    answers = [] if seen is None else [seen]
    dataset, plan = small_fleet()
    for out in ("again", "once more"):
        hv.release(dataset, plan, ledger=book, accept_noise=True).write(folder / out)
        answers.append(whole(folder / out))
    assert all(answer.equals(answers[0]) for answer in answers)
    # What was left under a temporary name goes with the next write to the same place.
    left = [path.name for path in folder.glob(".map.partial-*")]
    assert len(left) == (step in ("first file", "all files"))
    if seen is None:
        hv.release(dataset, plan, ledger=book, accept_noise=True).write(folder / "map")
        assert whole(folder / "map").equals(answers[0])
    assert list(folder.glob(".*.partial-*")) == []
    if booking.stages:
        assert book.find(booking.request).stages == booking.stages
    # A draw that began and was not stored is lost, and paid for once more.
    lost = step in ("begin_draw", "noise")
    assert book.spent == (2 if lost else 1) * spent
    assert len(book.entries()) == 1
