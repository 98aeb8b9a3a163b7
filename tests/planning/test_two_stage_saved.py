"""A two-stage plan saved and loaded is the same; clusters, weights and noise are not trusted."""

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples
from hexveil.publishing.manifest import fingerprint, request_of
from planning.test_saving import assert_same, cell_of, edited, refused, word
from publishing.setting import dataset_of, hexagons, with_stages
from publishing.two_stage_plans import classed, planned, taking
from strategies import occupancies

BOTH = ("mean", "variance")


@pytest.fixture(scope="module")
def city():
    """Return three hexagons in one hour, four users in two cells or more."""
    counts = np.array([[3, 2, 1], [2, 2, 0], [1, 4, 0], [5, 1, 0]])
    return dataset_of(counts, [173, 101, 59, 297, 113, 97, 239, 41, 37], cells=hexagons(3))


@pytest.fixture(scope="module")
def plan(city):
    """Return a plan of the city in steps, with three classes of users."""
    return classed(planned(city, epsilon=8), (0, 1, 2, 1))


@pytest.fixture(scope="module")
def once(plan, tmp_path_factory):
    """Return the folder of the plan, not to be touched."""
    return plan.save(tmp_path_factory.mktemp("saved") / "plan")


@pytest.fixture
def saved(once, tmp_path):
    """Return a copy of the folder of the plan."""
    return Path(shutil.copytree(once, tmp_path / "plan"))


def assert_same_steps(loaded, steps):
    """Assert that the steps of two plans are decided alike, or that there are none."""
    assert (loaded is None) == (steps is None)
    if steps is not None:
        assert (loaded.epsilon, loaded.widening) == (steps.epsilon, steps.widening)
        assert loaded.outputs is None
        for name in ("labels", "cluster_weight", "cluster_noise", "weight", "noise"):
            one, other = getattr(loaded, name), getattr(steps, name)
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)


@examples(20)
@given(
    occupancies().filter(lambda one: (one.cells_per_user > 1).any()),
    st.sampled_from(["1/3", 2, "71/9"]),
    st.sampled_from([None, "1/7"]),
)
def test_a_loaded_plan_is_the_saved_one(occupancy, epsilon, share):
    """Whatever is planned in steps, the plan read back equals the plan written."""
    plan = planned(occupancy, epsilon, bounds=(-5, 15), range_share=share)
    with tempfile.TemporaryDirectory() as folder:
        loaded = hv.Plan.load(plan.save(Path(folder) / "plan"))
    assert_same(loaded, plan)
    assert_same_steps(loaded.allocation.clipping.stages, plan.allocation.clipping.stages)


def test_classes_come_back(city, plan, saved):
    """The classes of users are a column, and the request is one and the same."""
    loaded = hv.Plan.load(saved)
    assert_same(loaded, plan)
    assert_same_steps(loaded.allocation.clipping.stages, plan.allocation.clipping.stages)
    names = {fingerprint(request_of("buses", city.public, one)) for one in (plan, loaded)}
    assert len(names) == 1
    told = json.loads((saved / "plan.json").read_text("utf-8"))
    assert told["request"]["clipping_range"] == "two-stage"
    assert len(told["plan"]["steps"]["class_noise"]) == 3
    assert pq.read_table(saved / "users.parquet")["class"].to_pylist() == [0, 1, 2, 1]


@pytest.mark.parametrize("way", ["single_stage", "user_residuals", "cell_residuals"])
def test_releasing_a_loaded_plan_replays_the_plan(way, city, plan, saved, tmp_path):
    """Plan and loaded plan are one request: the second release is the first, at no cost."""
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=30)
    with taking(way):
        first = hv.release(city, hv.Plan.load(saved), ledger=book, accept_noise=True)
    spent = book.spent
    again = hv.release(city, plan, ledger=book, accept_noise=True)
    assert again.replayed
    assert again.table.equals(first.table)
    assert book.spent == spent > 0


def test_a_plan_with_what_was_found_is_saved_without_it(plan, saved, tmp_path):
    """What is saved is what was decided: the same plan again is the same folder."""
    other = plan.save(tmp_path / "other")
    for name in ("plan.json", "users.parquet", "pairs.parquet", "cells.parquet"):
        assert (other / name).read_bytes() == (saved / name).read_bytes()


WRONG_WEIGHTS = "weights that no plan has"
NO_NOISE = "without weights or without noise"
LOSS = "states a loss that the rows"
NUMBERED = "not numbered in order"


def column(name, values):
    """Return a change of a whole column."""

    def change(table):
        kept = pa.array(values, type=table[name].type)
        return table.set_column(table.column_names.index(name), name, kept)

    return change


def without(name):
    """Return a change that leaves a column out."""
    return lambda table: table.drop_columns([name])


def retyped(name, kind):
    """Return a change of a column's type."""

    def change(table):
        place = table.column_names.index(name)
        return table.set_column(place, name, table[name].cast(kind))

    return change


def noise(*values):
    """Return a change of the noise of the three classes."""
    return word("plan", "steps", "class_noise", to=list(values))


FORGED = [
    ("users.parquet", cell_of("class", 0, 3), NUMBERED),
    ("users.parquet", cell_of("class", 0, -1), NUMBERED),
    ("users.parquet", cell_of("class", 2, 0), NUMBERED),
    ("users.parquet", cell_of("class", 0, 2**62), NUMBERED),
    ("users.parquet", cell_of("class", 0, 1), NUMBERED),
    ("users.parquet", cell_of("class", 1, 0), LOSS),
    ("users.parquet", cell_of("class", 1, None), "empty places in the column class"),
    ("users.parquet", cell_of("class_weight", 0, -1), WRONG_WEIGHTS),
    ("users.parquet", cell_of("class_weight", 0, 2**26 + 1), WRONG_WEIGHTS),
    ("users.parquet", cell_of("class_weight", 0, 2**62), WRONG_WEIGHTS),
    ("users.parquet", cell_of("class_weight", 0, 0), NO_NOISE),
    ("users.parquet", without("class"), "lacks a field"),
    ("users.parquet", without("class_weight"), "lacks a field"),
    ("users.parquet", retyped("class", pa.float64()), "column class of double, not int64"),
    ("users.parquet", retyped("class_weight", pa.int32()), "class_weight of int32, not int64"),
    ("pairs.parquet", cell_of("own_weight", 0, -1), WRONG_WEIGHTS),
    ("pairs.parquet", cell_of("own_weight", 0, 2**26 + 1), WRONG_WEIGHTS),
    ("pairs.parquet", cell_of("own_weight", 8, 0), NO_NOISE),
    ("pairs.parquet", column("own_weight", [0] * 4 + [9] * 5), NO_NOISE),
    ("pairs.parquet", cell_of("own_weight", 1, 9), LOSS),
    ("pairs.parquet", without("own_weight"), "lacks a field"),
    ("pairs.parquet", retyped("own_weight", pa.float64()), "own_weight of double, not int64"),
    ("cells.parquet", cell_of("own_noise", 1, 0.0), NO_NOISE),
    ("cells.parquet", cell_of("own_noise", 1, -1.0), NO_NOISE),
    ("cells.parquet", cell_of("own_noise", 1, float("nan")), NO_NOISE),
    ("cells.parquet", cell_of("own_noise", 1, float("inf")), NO_NOISE),
    ("cells.parquet", cell_of("own_noise", 1, 1e-3), LOSS),
    ("cells.parquet", without("own_noise"), "lacks a field"),
    ("plan.json", noise(0.0, 1.0, 1.0), NO_NOISE),
    ("plan.json", noise(-1.0, 1.0, 1.0), NO_NOISE),
    ("plan.json", noise(1e-3, 1.0, 1.0), LOSS),
    ("plan.json", noise(1.0, 1.0), NUMBERED),
    ("plan.json", noise(1.0, 1.0, 1.0, 1.0), NUMBERED),
    ("plan.json", noise(), NUMBERED),
    ("plan.json", noise("much", 1.0, 1.0), "lacks a field"),
    ("plan.json", noise([1.0], [1.0], [1.0]), NUMBERED),
    ("plan.json", noise(None, 1.0, 1.0), "lacks a field|without"),
    ("plan.json", word("plan", "steps", "class_noise", to=None), "lacks a field|numbered"),
    ("plan.json", word("plan", "steps", "class_noise", to=1.0), "lacks a field|numbered"),
    ("plan.json", lambda words: words["plan"]["steps"].pop("class_noise"), "lacks a field"),
    ("plan.json", word("plan", "steps", "epsilon", to="1/1000"), LOSS),
    ("plan.json", word("plan", "steps", "epsilon", to="-1"), "must be above 0"),
    ("plan.json", word("plan", "steps", "epsilon", to="0"), "must be above 0"),
    ("plan.json", word("plan", "steps", "epsilon", to=None), "lacks a field"),
    ("plan.json", word("plan", "steps", "stretch", to="1/2"), "a stretch that no plan has"),
    ("plan.json", word("plan", "steps", "stretch", to="1e9"), "a stretch that no plan has"),
    ("plan.json", word("plan", "steps", "stretch", to=None), "lacks a field"),
    ("plan.json", word("plan", "steps", to=None), "do not fit together"),
    ("plan.json", word("plan", "steps", to=[]), "lacks a field"),
    ("plan.json", word("plan", "interval", to=None), "do not fit together"),
    ("plan.json", word("plan", "interval", "epsilon", to=None), "lacks a field"),
    ("plan.json", word("plan", "interval", "radius", to="3/2"), "do not fit together"),
    ("plan.json", lambda words: words["plan"].pop("steps"), "lacks a field"),
    ("plan.json", word("request", "clipping_range", to="private"), "do not fit together"),
    ("plan.json", word("request", "clipping_range", to="bounds"), "do not fit together"),
    ("plan.json", word("request", "statistics", to=["mean", "variance"]), "do not fit together"),
    ("plan.json", word("request", "statistics", to=["variance"]), "do not fit together"),
]


@pytest.mark.parametrize(("file", "change", "message"), FORGED)
def test_steps_that_no_plan_has_are_refused(file, change, message, saved):
    """Also where the digest fits: one sentence, whoever wrote the folder."""
    edited(saved, file, change, sealed=True)
    refused(saved, message)


@pytest.mark.parametrize(("file", "change", "message"), FORGED[:3] + FORGED[-4:])
def test_an_edit_is_noticed(file, change, message, saved):
    """Any change of steps is an edit, as the digest says."""
    edited(saved, file, change, sealed=False)
    refused(saved, "edited")


def test_steps_for_an_interval_alone_are_refused(city, tmp_path):
    """A plan that asked for one clipping range, or for steps, has just that."""
    one = hv.plan(city, epsilon=8, clipping_range="private", advise=False).save(tmp_path / "plan")
    edited(one, "plan.json", word("request", "clipping_range", to="two-stage"), sealed=True)
    refused(one, "do not fit together")


def test_steps_without_an_interval_are_refused(city, plan, tmp_path):
    """Where "auto" was asked, steps still need a clipping range."""
    auto = replace(plan, request=replace(plan.request, clipping_range="auto"))
    folder = auto.save(tmp_path / "auto")
    loaded = hv.Plan.load(folder)
    assert_same_steps(loaded.allocation.clipping.stages, plan.allocation.clipping.stages)
    edited(folder, "plan.json", word("plan", "interval", to=None), sealed=True)
    refused(folder, "do not fit together|states a loss")


def test_what_makes_a_loss_smaller_is_not_believed(city, plan, saved, tmp_path):
    """Noise and loss changed together load, and the release books what the rows cost."""
    louder = with_stages(plan, plan.allocation.clipping.stages.with_noise_scaled(0.5))
    assert louder.epsilon > plan.epsilon
    folder = louder.save(tmp_path / "half")
    loaded = hv.Plan.load(folder)
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=30)
    hv.release(city, loaded, ledger=book, accept_noise=True)
    assert book.spent >= louder.epsilon
