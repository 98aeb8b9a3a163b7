"""The benchmarks of reach: their records are as stated, their errors those of releases."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import hexveil as hv

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark():
    """Return what loads a script of benchmarks/ by its name; nothing stays loaded."""
    before, path = set(sys.modules), list(sys.path)

    def load(name):
        made = importlib.util.spec_from_file_location(
            f"hexveil_bench_{name}", FOLDER / f"{name}.py"
        )
        sys.modules[made.name] = module = importlib.util.module_from_spec(made)
        made.loader.exec_module(module)
        return module

    yield load
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.startswith("hexveil_bench_") or name == "reach":
            del sys.modules[name]


def test_large_records_are_as_stated(benchmark):
    """Users' sizes fall by the stated law, 85% of records lie near home, values in the bounds."""
    big = benchmark("big")
    (part,) = big.parts(200_000)
    user, cell, value = (part[name].to_numpy() for name in ("user", "cell", "value"))
    assert 0 <= user.min() <= user.max() < big.USERS
    assert (np.unique(cell) == np.arange(big.CELLS)).all()
    assert 0 <= value.min() <= value.max() <= 65
    law = (np.arange(big.USERS) + 20.0) ** -0.7
    assert (user < 1000).mean() == pytest.approx(law[:1000].sum() / law.sum(), rel=0.02)
    home = big.World.drawn(np.random.default_rng(big.SEED)).home
    away = (cell - home[user]) % big.CELLS
    away = np.minimum(away, big.CELLS - away)
    # A tenth of the way round the circle or more: one step in five is the last, so by chance alone.
    assert (away > big.CELLS // 20).mean() == pytest.approx(0.15 * 0.9, abs=0.004)
    assert (away == 1).mean() == pytest.approx(0.85 * 0.2, abs=0.004)


def test_large_records_are_the_same_each_time(tmp_path, benchmark):
    """One seed gives the same records; they are written in parts, under their name once whole."""
    big = benchmark("big")
    big.write(tmp_path / "big.parquet", rows=1000)
    (part,) = big.parts(1000)
    assert [file.name for file in tmp_path.iterdir()] == ["big.parquet"]
    read = big.pq.read_table(tmp_path / "big.parquet")
    assert read.equals(part)
    assert not next(iter(big.parts(1000, seed=1))).equals(part)


@pytest.mark.slow
def test_errors_are_those_of_releases(benchmark):
    """Errors of drawn maps are the plan's noise where that is all; every estimate has its own."""
    reach, losing = benchmark("reach"), benchmark("losing")
    dataset = losing.world("few users", 200, 3)
    way = reach.Way(
        "all of the bounds", {"method": "equal-split", "mechanism": hv.mechanisms.Baseline()}
    )
    true = losing.truth(dataset)
    (found,) = reach.measured(dataset, true, way, "400", (60, 60, 0))
    scale = hv.plan(dataset, epsilon="400", advise=False, **way.options).error_models["mean"].scale
    assert found.mean == pytest.approx(scale.mean(), rel=0.25)
    assert found.runs == 60
    names = [one.name for one in reach.measured(dataset, true, reach.ours()[1], "20", (3, 2, 2))]
    first = 'joint, clipping_range="private"'
    assert names == [
        first,
        *(f"{first}, {one}" for one in ("estimate", "smoothed", "through a ledger")),
    ]
