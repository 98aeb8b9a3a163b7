"""Wherever pairs lie, a release is that of the same pairs at hand."""

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from examples import some
from hexveil import HexveilError, InputError
from hexveil.mechanisms import noise
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.looks.pooled_means import BINS
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.planning import saved_plans
from hexveil.planning.codec import unpack_bytes
from hexveil.planning.distribution_measures import BinPlan, score_metadata
from hexveil.planning.optimizers import pair_sums
from hexveil.publishing.pipeline import sums_of
from hexveil.publishing.verification.verify import find_problems
from model.stores import STORES, distributed_dataset, stored
from publishing.releases import statements_of
from publishing.setting import dataset_of, hexagons

SCALE = (0, 10, "0.5")
BOTH = ("mean", "variance")
RANGE, RANGES = {"clipping_range": "private"}, {"clipping_range": "per-cell"}
DELTA = {"delta": "0.001"}
ASKED = {
    "joint": {"epsilon": 2},
    "largest": {"epsilon": 2, "objective": "max"},
    "per-cell": {"epsilon": 2, "method": "per-cell"},
    "both": {"statistics": BOTH},
    "both, composed": {"statistics": BOTH, "method": "equal-split"},
    "sd": {"statistics": ("sd",)},
    "range": RANGE,
    "range, both": RANGE | {"statistics": BOTH},
    "range, sd": RANGE | {"statistics": ("sd",)},
    "cell ranges": RANGES,
    "delta": DELTA | {"clipping_range": "bounds"},
    "delta, both": DELTA | {"clipping_range": "bounds", "statistics": BOTH},
    "delta, range": DELTA | RANGE,
    "delta, range, both": DELTA | RANGE | {"statistics": BOTH},
    "delta, cell ranges": DELTA | RANGES,
}
DISTRIBUTIONS = {
    "bins": ("p50", "share<4", "histogram"),
    "ranks": ("mean", "p15", "p85"),
    "auto": ("share>=7",),
}


def records(seed=0, users=25, cells=8):
    """Return a data set with sums of squares, of values drawn on the lattice."""
    draw = np.random.default_rng(seed)
    counts = draw.poisson(draw.pareto(1.2, (users, 1)) + 0.4, (users, cells))
    counts[0] += 1
    counts[counts.sum(axis=1) == 0, 0] = 1
    values = [draw.integers(0, 21, k) for k in counts.T[counts.T > 0]]
    totals, squares = (np.array([(v**power).sum() for v in values]) for power in (1, 2))
    return dataset_of(counts, totals, squares, scale=SCALE, cells=hexagons(cells))


def crowd(mean, users, cells, value=0):
    """Return a data set of users who report about so often in each cell, always one value."""
    counts = np.random.default_rng(9).poisson(mean, (users, cells))
    counts[counts.sum(axis=1) == 0, 0] = 1
    n = counts.T[counts.T > 0]
    return dataset_of(counts, value * n, value**2 * n, scale=SCALE, cells=hexagons(cells))


@pytest.fixture(scope="module")
def counted():
    """Return records counted by the bins of all these statistics."""
    draw = np.random.default_rng(5)
    bus, ward = draw.integers(0, 25, 700), draw.integers(0, 8, 700)
    speed = draw.uniform(-1, 11, 700)
    return hv.read(
        pa.table({"bus": bus, "ward": ward, "speed": speed}), user="bus", value="speed",
        bounds=(0, 10), quantum="0.5", cells=hv.Labels("ward"),
        statistics=sorted({one for some in DISTRIBUTIONS.values() for one in some}),
    )  # fmt: skip


def planned(dataset, **asked):
    """Return a plan without advice."""
    by = {} if {"epsilon", "cell_epsilon"} & set(asked) else {"epsilon": 6}
    return hv.plan(dataset, advise=False, **by, **asked)


def ledger(folder, name, delta=None):
    """Return a fresh ledger."""
    return hv.Ledger(folder / f"{name}.sqlite", dataset="buses", budget=20, delta=delta)


class Exactly:
    """A noise source that adds nothing, and notes all whole numbers that it was given."""

    def __init__(self):
        self.given = []

    def laplace(self, values, scales):
        """Return the values."""
        self.given.append((values.copy(), np.broadcast_to(scales, values.shape).copy()))
        return values

    gaussian = laplace

    def noisy_max(self, scores, sizes, scale):
        """Return the first best candidate."""
        scores = np.repeat(scores[0], np.broadcast_to(sizes, scores.shape)[0])
        self.given.append((scores, np.array(scale)))
        return np.array([np.argmax(scores)])


def at_hand(plan, whole):
    """Return the same plan for the same pairs at hand."""
    return hv.Plan.of(_part_at_hand(plan.single, whole))


def _part_at_hand(part, whole):
    if part.reads_bins:
        component, moments = part.component, part.moment_plan
        if part.score_plan is not None:
            scores = _part_at_hand(part.score_plan, whole)
            component = replace(component, plan=replace(scores, facts=score_metadata(whole.public)))
        moments = None if moments is None else _part_at_hand(moments, whole)
        return replace(part, facts=whole.public, component=component, moment_plan=moments)
    allocation = part.allocation
    clipping = allocation.clipping
    if clipping.strategy:
        weight = replace(clipping.weight, occupancy=whole.occupancy)
        allocation = replace(allocation, clipping=replace(clipping, weight=weight))
    return replace(part, occupancy=whole.occupancy, facts=whole.public, allocation=allocation)


def run(dataset, plan):
    """Return what a plan gives the noise source, with the scales, its outputs and estimates."""
    allocation = plan.stages()
    meter, source = partial(Meter, squared=bool(plan.delta)), Exactly()
    sums, booked = sums_of(dataset, plan), allocation.losses()
    outputs = execute(allocation, sums, source, MemoryJournal(), meter(booked))
    if plan.delta:
        # What blocks say of each user adds up to the booking, not to less.
        with pytest.raises(HexveilError, match="more than was booked"):
            execute(allocation, sums, Exactly(), MemoryJournal(), meter(booked * 0.999))
    return source.given, outputs, () if plan.single.reads_bins else allocation.decode(outputs)


def assert_same_numbers(ran, again):
    """Fail unless whole numbers and estimates are equal; what is said of distances may be more."""
    (given, outputs, decoded), (same, also, others) = ran, again
    assert list(outputs) == list(also)
    for (numbers, scales), (integers, other_scales) in zip(given, same, strict=True):
        np.testing.assert_array_equal(numbers, integers, strict=True)
        # What a user moves of distances is a bound in blocks: that scale may be larger.
        assert (scales >= other_scales).all()
        np.testing.assert_allclose(scales, other_scales, rtol=0.5)
    for one, other in zip(decoded, others, strict=True):
        np.testing.assert_array_equal(one.estimate, other.estimate)


@pytest.mark.parametrize("store", STORES[1:])
@pytest.mark.parametrize("name", some(ASKED, 5))
def test_the_whole_numbers_are_the_same(name, store):
    """What goes to the noise door is what pairs at hand give, for every kind of plan and stage."""
    whole = records()
    with stored(whole, store, 30) as there:
        made = planned(there, **ASKED[name])
        ran, losses = run(there, made), made.losses()
    here = at_hand(made, whole)
    np.testing.assert_allclose(losses, here.losses(), rtol=1e-14)
    assert_same_numbers(ran, run(whole, here))


@pytest.mark.parametrize(
    ("estimator", "room", "delta"),
    [
        *some([(name, room, None) for name in DISTRIBUTIONS for room in (1, 30, 10_000)], 3),
        ("bins", 30, "0.001"),
    ],
)
def test_counts_by_bin_are_apportioned_alike(counted, estimator, room, delta):
    """Quantiles, shares and histograms: one plan, one loss, and the same whole numbers."""
    asked = {"statistics": DISTRIBUTIONS[estimator], "estimator": estimator, "delta": delta}
    there = distributed_dataset(counted, room)
    made, planned_here = (planned(one, epsilon=8, **asked) for one in (there, counted))
    here = at_hand(made, counted)
    assert made.estimator == here.estimator == planned_here.estimator
    if isinstance(made.component, BinPlan):
        prices = (one.component.priced.prices for one in (made, planned_here))
        np.testing.assert_array_equal(*prices)
        assert made.expected_error == planned_here.expected_error
    losses = (one.stages().losses() for one in (made, here))
    np.testing.assert_allclose(*losses, rtol=1e-14)
    assert made.epsilon <= 8
    assert_same_numbers(run(there, made), run(counted, here))


RELEASED = {
    "moments": {"statistics": BOTH, "clipping_range": "bounds"},
    "moments, delta": DELTA | {"statistics": BOTH, "clipping_range": "bounds"},
    "bins": {"statistics": DISTRIBUTIONS["bins"], "estimator": "bins"},
    "bins, delta": DELTA | {"statistics": DISTRIBUTIONS["bins"], "estimator": "bins"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RELEASED)
def test_a_release_books_and_shows_the_same(name, counted, tmp_path, monkeypatch):
    """Without noise both show one table and book one loss; the saved plan comes back."""
    for door in ("add_laplace", "add_gaussian"):
        monkeypatch.setattr(noise, door, lambda values, _: values)
    monkeypatch.setattr(noise, "noisy_max", lambda scores, _: int(np.argmax(scores)))
    whole = {"moments": records, "bins": lambda: counted}[name.split(",")[0]]()
    there, asked = distributed_dataset(whole, 30), RELEASED[name]
    made = planned(there, **asked)
    loaded = hv.Plan.load(made.save(tmp_path / "plan"), there)
    assert saved_plans.encode(loaded) == saved_plans.encode(made)
    here = at_hand(made, whole)
    books = [ledger(tmp_path, one, asked.get("delta")) for one in ("there", "here")]
    shown, same = (
        hv.release(data, plan, ledger=book, accept_noise=True)
        for data, plan, book in zip((there, whole), (made, here), books, strict=True)
    )
    assert shown.table.equals(same.table)
    assert (shown.epsilon, books[0].remaining) == (same.epsilon, books[1].remaining)
    assert statements_of(shown)["cells"] == statements_of(same)["cells"]
    assert hv.release(there, made, ledger=books[0], accept_noise=True).replayed
    assert find_problems(shown.write(tmp_path / "out")) == ()
    if "bins" in name:
        store, n_bins = there.occupancy.store, made.stages().components[0].plan.n_bins
        counts = n_bins * there.occupancy.n_cells, 5 * there.occupancy.n_users
        assert max(size for _, size in store.received) <= 8 * max(*counts, 40 * store.blocks)


# ---- what comes back, and how often ----


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clipping_range", "statistics"), [("auto", "mean"), ("private", "mean"), ("private", BOTH)]
)
def test_what_comes_to_the_driver_is_bounded_by_cells_and_users(
    clipping_range, statistics, tmp_path, monkeypatch
):
    """No answer of a plan and a release has an entry per pair, but for a sample of fixed size.

    Weights that begin with the sample spend the loss that was asked.
    """
    sample = 500
    monkeypatch.setattr(pair_sums, "FETCHED_PAIRS", sample)
    there = distributed_dataset(crowd(3, 300, 20, value=5), 2000)
    made = planned(there, epsilon=2, statistics=statistics, clipping_range=clipping_range)
    assert 1.999 < float(made.losses().max()) <= 2
    hv.release(there, made, ledger=ledger(tmp_path, "book"), accept_noise=True)
    occupancy, store = there.occupancy, there.occupancy.store
    # Three columns of a cell or a user, a digest per cell, and a row of votes per block.
    most = 8 * max(
        4 * occupancy.n_cells, 3 * occupancy.n_users,
        store.blocks * (max(BINS) + 2),
    )  # fmt: skip
    sizes = dict(sorted(store.received, key=lambda noted: noted[1]))
    assert sizes.pop("_fetched") <= 2 * sample * 3 * 8
    assert max(sizes.values()) <= most < 8 * occupancy.n_pairs / 2


# ---- plans and advice ----


@pytest.mark.parametrize("name", ["joint", "range", "cell ranges", "delta, cell ranges"])
def test_a_saved_plan_has_no_pairs_and_goes_with_its_records(name, tmp_path):
    """The folder has no counts of pairs; only its records fit it."""
    there, other = (distributed_dataset(records(seed), 30) for seed in (0, 1))
    made = planned(there, **ASKED[name])
    folder = made.save(tmp_path / "plan")
    saved = unpack_bytes((folder / "arrays.bin").read_bytes())[1]
    assert not any(one.startswith("occupancy") for one in saved)
    for read in (hv.Plan.load(folder, there), saved_plans.decode(saved_plans.encode(made), made)):
        assert saved_plans.encode(read) == saved_plans.encode(made)
        np.testing.assert_array_equal(read.losses(), made.losses())
    # The ledger has a number per user and one per cell, never per pair.
    sizes = {array.size for array in saved_plans.pack_decisions(made)[1].values()}
    assert sizes == {there.occupancy.n_cells, there.occupancy.n_users}
    for wrong in (other, records()):
        with pytest.raises(InputError, match="made for other records"):
            hv.Plan.load(folder, wrong)
