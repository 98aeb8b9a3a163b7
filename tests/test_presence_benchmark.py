"""Benchmark of maps with private presence: its division of sets, and figures of small ones."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).resolve().parents[1] / "benchmarks" / "presence.py"


@pytest.fixture(scope="module")
def benchmark():
    """Return the benchmark as a module."""
    spec = importlib.util.spec_from_file_location("presence_benchmark", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    path = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


@pytest.fixture
def small(benchmark):
    """Return pairs of 3,000 users in 12 cells."""
    rng = np.random.default_rng(5)
    user = np.repeat(np.arange(3000), 4)
    cell = rng.integers(0, 12, user.size)
    quanta = np.clip(20_000 + 1000 * cell + rng.normal(0, 2000, user.size), 0, 60_000)
    records = cell, user, quanta.astype(np.int64)
    return benchmark.PairTable.of_records(*records, 12, (0.0, 60.0))


def test_judging_sets_are_not_tuned_on(benchmark):
    """What was seen before a change judges no more; several sets judge."""
    purposes = {name: chosen.purpose for name, chosen in benchmark.SETS.items()}
    judging = {name for name, purpose in purposes.items() if purpose == "judging"}
    assert not judging & set(benchmark.SEEN)
    assert len(judging) >= 2
    assert purposes["big"] == purposes["city of cars"] == "seen"
    assert purposes["flights"] == purposes["surat, res 6"] == "tuning"


def test_a_row_has_the_errors_of_its_runs(benchmark, small):
    """A fleet like this has averages far better than one constant, and honest intervals."""
    chosen = benchmark.PresenceSet("small", "tuning", lambda: small)
    row = benchmark.measure(chosen, small, "2", 4)
    assert row.users == 3000
    assert row.constant == pytest.approx(3.0, abs=0.3)
    assert 0 < row.error < 0.3 * row.constant
    assert row.open_records == pytest.approx(1.0)
    assert 0.85 <= row.coverage <= 1
    assert (
        sys.modules["measuring"]
        .csv_of_rows([row])
        .decode()
        .splitlines()[0]
        .startswith("set,purpose,users,cells")
    )


def test_truth_is_that_of_the_records(benchmark, small):
    """True averages are record sums over record counts, in value units."""
    truth = benchmark.Truth.of(small)
    inside = small.cell == 3
    assert truth.mean[3] == pytest.approx(small.total[inside].sum() / small.n[inside].sum() / 1000)
    assert truth.records.sum() == 12_000


def test_cars_stay_in_their_city(benchmark, monkeypatch):
    """A small city has pairs inside its declared grid, more of them by day than by night."""
    monkeypatch.setattr(benchmark, "CITY_CARS", 60)
    monkeypatch.setattr(benchmark, "CARS_AT_ONCE", 30)
    city = benchmark.city_of_cars()
    assert 0 <= city.cell.min() <= city.cell.max() < city.n_cells
    assert np.unique(city.user).size == 60
    assert (city.total <= city.n * 130_000).all()
    hour = city.cell % 24
    assert ((hour >= 6) & (hour <= 20)).mean() > 0.8
