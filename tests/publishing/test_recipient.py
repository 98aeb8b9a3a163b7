"""A recipient has none of the libraries that publish: folders are checked without them.

tests/absent hides them from a process, as if they were not installed.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hexveil as hv
from attack import folder_kinds

ABSENT = Path(__file__).resolve().parents[1] / "absent"
PUBLISHERS = "duckdb h3ronpy arro3 opendp scipy sqlalchemy"
KINDS = ("interval", "mechanism", "distribution", "presence-shapes", "columns")
"""With smoothed estimates, ranges, areas and names of places among them."""


def run(*arguments):
    """Run Python without the libraries of publishers."""
    path = os.pathsep.join([str(ABSENT), str(Path(hv.__file__).parents[1])])
    environment = os.environ | {"HEXVEIL_ABSENT": PUBLISHERS, "PYTHONPATH": path}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


CHILD = """\
import sys
import hexveil as hv
from hexveil.cli import main
for folder in sys.argv[1:]:
    hv.load(folder)._repr_html_()
    assert main(["verify", folder]) == main(["dossier", folder]) == 0, folder
    print(folder)
assert main(["roll-up", sys.argv[2], "--resolution", "all", "--timeslot", "all"]) == 0
hv.compare_releases(hv.load(sys.argv[1]), hv.load(sys.argv[2]))
"""


@pytest.mark.slow
def test_folders_of_all_kinds_are_checked_and_shown(tmp_path):
    """`load`, `verify`, `dossier`, `compare`, `roll-up` and a notebook's display."""
    made = [folder_kinds.make(tmp_path, kind) for kind in KINDS]
    done = run("-c", CHILD, *made)
    assert done.returncode == 0, done.stderr
    assert all(str(folder) in done.stdout for folder in made)


@pytest.mark.parametrize(
    "asked", ["plan run.toml", "map records.csv", "simulate --users 20 --days 1 --out r.parquet"]
)
def test_publishing_names_its_extra(tmp_path, monkeypatch, asked):
    """Whatever is missing, one sentence says what to install."""
    monkeypatch.chdir(tmp_path)
    Path("records.csv").write_text("bus,speed,ward\na,3,x\n")
    run_file = 'source = "records.csv"\n[columns]\nuser = "bus"\nvalue = "speed"\n[values]\n'
    Path("run.toml").write_text(
        run_file + 'bounds = [0, 65]\n[cells]\nlabels = ["ward"]\n[plan]\nepsilon = 3\n'
    )
    done = run("-m", "hexveil", *asked.split())
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert 'is not installed: pip install "hexveil[publish]".' in done.stderr


def test_functions_name_the_extra_too():
    """What reads, counts and plans, before it looks at anything."""
    code = """\
import pyarrow as pa
import hexveil as hv
table, grid = pa.table({"u": ["a"]}), hv.Labels("w")
crowd = hv.Occupancy.from_dense([[1]] * 100)
for work in (
    lambda: hv.read(table, user="u", value="v", bounds=(0, 1), cells=grid),
    lambda: hv.from_sums(table, bounds=(0, 1)),
    lambda: hv.plan(crowd, bounds=(0, 1), epsilon=1),
    lambda: hv.capacity(crowd, epsilon=1),
    lambda: hv.Ledger, lambda: hv.release, lambda: hv.publish, lambda: hv.example("buses"),
):
    try:
        work()
    except hv.InputError as error:
        print(error)
"""
    done = run("-c", code)
    assert done.stderr == ""
    assert done.stdout.count('pip install "hexveil[publish]".') == 8, done.stdout
