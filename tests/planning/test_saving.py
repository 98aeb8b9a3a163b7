"""A plan saved and loaded is the same plan; a folder that was touched is refused in a sentence."""

import contextlib
import dataclasses
import json
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hexveil as hv
from hexveil.facts import PublicFacts, ValueScale
from hexveil.planning import saving
from hexveil.publishing.manifest import fingerprint, request_of
from publishing.setting import dataset_of, hexagons, labels, plan_of
from strategies import occupancies

BOTH = ("mean", "variance")
WAYS = (
    {"method": "joint", "epsilon": 2},
    {"method": "joint", "epsilon": "1/3", "objective": "max", "statistics": BOTH},
    {"method": "joint", "epsilon": 3, "statistics": ("sd",)},
    {"method": "joint", "epsilon": 3, "error": "sum"},
    {"method": "joint", "target_error": "20%"},
    {"method": "joint", "target_error": {"mean": 2, "variance": "11%"}, "statistics": BOTH},
    {"method": "joint", "target_error": 9, "statistics": BOTH, "error": "sum"},
    {"method": "per-cell", "epsilon": "0.7", "mechanism": hv.Baseline()},
    {"method": "per-cell", "epsilon": 1, "statistics": BOTH, "split": "0.3"},
    {"method": "composition", "epsilon": 5},
    {"method": "clip-user", "epsilon": 2},
    {"method": "clip-user", "epsilon": 2, "statistics": BOTH, "error": "sum"},
)


def planned(source, **options):
    """Return a plan without advice."""
    return hv.plan(source, **{"bounds": (-5, 15), "epsilon": 1, "advise": False} | options)


@pytest.fixture
def city():
    """Return a small city of three hexagons in one hour."""
    counts = np.array([[3, 2, 1], [2, 2, 0], [1, 4, 0], [5, 1, 0]])
    return dataset_of(
        counts,
        [173, 101, 59, 297, 113, 97, 239, 41, 37],
        cells=hexagons(3),
        value="speed",
        value_unit="km/h",
        rules={"read": 30, "kept": 21},
        identity={"source": "buses.parquet", "version": "1", "drop_values": "none"},
    )


@pytest.fixture
def saved(city, tmp_path):
    """Return the folder of a plan of the city."""
    return planned(city, bounds=None).save(tmp_path / "plan")


def assert_same(loaded, plan):
    """Assert that nothing that a plan states or decides differs."""
    assert loaded.identity() == plan.identity()
    assert np.array_equal(loaded.losses(), plan.losses())
    assert (loaded.epsilon, loaded.asked) == (plan.epsilon, plan.asked)
    assert loaded.composed_epsilon == plan.composed_epsilon
    assert loaded.table.equals(plan.table)
    assert loaded.users.equals(plan.users)
    assert (loaded.lower_bound, loaded.gap) == (plan.lower_bound, plan.gap)
    assert (loaded.mean_error, loaded.max_error) == (plan.mean_error, plan.max_error)
    assert loaded.support == plan.support
    for one, other in zip(loaded.rows.arrays(), plan.rows.arrays(), strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    assert (loaded.rows.dropped is None) == (plan.rows.dropped is None)
    assert_same_request(loaded.request, plan.request)


def assert_same_request(loaded, request):
    """Assert that two requests ask for the same."""
    assert dataclasses.replace(loaded, target=None).__dict__ == (
        dataclasses.replace(request, target=None).__dict__
    )
    assert list(loaded.target or ()) == list(request.target or ())
    for name, goal in (request.target or {}).items():
        assert np.array_equal(loaded.target[name], goal)


@settings(max_examples=60)
@given(occupancies(), st.sampled_from(WAYS))
def test_a_loaded_plan_is_the_saved_one(occupancy, way):
    """Whatever was asked by whatever method, the plan read back equals the plan written."""
    with contextlib.suppress(hv.InputError), tempfile.TemporaryDirectory() as folder:
        plan = hv.plan(occupancy, bounds=(-5, 15), advise=False, **way)
        assert_same(hv.Plan.load(plan.save(Path(folder) / "plan")), plan)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_method_of_a_data_set(way, city, tmp_path):
    """The plan of a data set comes back with the facts that its release is checked by."""
    plan = hv.plan(city, advise=False, **way)
    loaded = hv.Plan.load(plan.save(tmp_path / "plan"))
    assert_same(loaded, plan)
    for name in ("scale", "unit", "value", "value_unit", "rules", "identity"):
        assert getattr(loaded.facts, name) == getattr(plan.facts, name)
    assert loaded.facts.recount is None
    assert loaded.facts.cells.grid == plan.facts.cells.grid
    assert loaded.facts.cells.names() == plan.facts.cells.names()
    assert loaded.facts.cells.starts_at_utc() == plan.facts.cells.starts_at_utc()
    assert fingerprint(request_of("buses", loaded.facts, loaded)) == (
        fingerprint(request_of("buses", plan.facts, plan))
    )
