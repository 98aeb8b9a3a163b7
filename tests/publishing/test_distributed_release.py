"""A release of pairs that stay elsewhere is the release of the same pairs at hand."""

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from distributed_blocks import distributed_dataset
from hexveil.base.errors import HexveilError, InputError
from hexveil.mechanisms import noise
from hexveil.mechanisms.cell_ranges.pooled_spread import BINS, SPREAD_POINTS
from hexveil.mechanisms.contract import MemoryJournal, Meter, Outputs, execute
from hexveil.model.pair_columns import SuppressedPairs, suppressed_column
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.clipping_range.bounds import WithinBounds
from hexveil.planning.clipping_range.cell_ranges import PerCellRange
from hexveil.planning.clipping_range.one_range import PrivateRange
from hexveil.planning.distribution.distribution_components import BinPlan, score_metadata
from hexveil.planning.feasibility.proposals import propose_runs
from hexveil.planning.release_allocation import allocation_of
from hexveil.planning.serialization import plan_codec
from hexveil.publishing.private_sums import private_sums, sums_of
from hexveil.publishing.verification.verify import find_problems
from hexveil.records.dataset import Dataset, DistributedSums
from publishing.setting import dataset_of, hexagons
from stores import STORES, stored_dataset

SCALE = ValueLattice.of((0, 10), "0.5")
BOTH = ("mean", "variance")
ASKED = {
    "joint": {"epsilon": 2},
    "largest": {"epsilon": 2, "objective": "max"},
    "per-cell": {"epsilon": 2, "method": "per-cell"},
    "both": {"epsilon": 6, "statistics": BOTH},
    "both, composed": {"epsilon": 6, "statistics": BOTH, "method": "equal-split"},
    "suppressed": {"epsilon": 2, "method": "clip-user"},
    "suppressed, both": {"epsilon": 6, "method": "clip-user", "statistics": BOTH},
    "suppressed, printed": {"cell_epsilon": "0.5", "method": "clip-user", "clip_user": "printed"},
    "sd": {"epsilon": 6, "statistics": ("sd",)},
    "range": {"epsilon": 6, "clipping_range": "private"},
    "range, both": {"epsilon": 6, "clipping_range": "private", "statistics": BOTH},
    "range, sd": {"epsilon": 6, "clipping_range": "private", "statistics": ("sd",)},
    "cell ranges": {"epsilon": 6, "clipping_range": "per-cell"},
    "delta": {"epsilon": 6, "delta": "0.001", "clipping_range": "bounds"},
    "delta, both": {
        "epsilon": 6, "delta": "0.001", "clipping_range": "bounds", "statistics": BOTH,
    },
    "delta, range": {"epsilon": 6, "delta": "0.001", "clipping_range": "private"},
    "delta, range, both": {
        "epsilon": 6, "delta": "0.001", "clipping_range": "private", "statistics": BOTH,
    },
    "delta, cell ranges": {"epsilon": 6, "delta": "0.001", "clipping_range": "per-cell"},
}  # fmt: skip


def records(seed=0, users=25, cells=8):
    """Return a data set with sums of squares, of values drawn on the lattice."""
    draw = np.random.default_rng(seed)
    counts = draw.poisson(draw.pareto(1.2, (users, 1)) + 0.4, (users, cells))
    counts[0] += 1
    counts[counts.sum(axis=1) == 0, 0] = 1
    n = counts.T[counts.T > 0]
    values = [draw.integers(0, SCALE.span_quanta + 1, k) for k in n]
    totals = np.array([v.sum() for v in values])
    squares = np.array([(v * v).sum() for v in values])
    return dataset_of(counts, totals, squares, scale=SCALE, cells=hexagons(cells))


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
        assert (sizes == 1).all()
        self.given.append((scores.copy(), np.array(scale)))
        return np.argmax(scores, axis=1)


def at_hand(plan, whole):
    """Return the same plan for the same pairs at hand."""
    allocation = plan.allocation
    match allocation.clipping:
        case PrivateRange(range=ranged):
            weight = replace(ranged.weight, occupancy=whole.occupancy)
            ranged = replace(ranged, weight=weight)
            allocation = replace(allocation, clipping=PrivateRange(ranged))
        case PerCellRange(plan=ranged):
            weight = replace(ranged.weight, occupancy=whole.occupancy)
            ranged = replace(ranged, weight=weight)
            allocation = replace(allocation, clipping=PerCellRange(ranged))
    if allocation.suppressed:
        suppressed = suppressed_column(allocation.suppressed_pairs, whole.occupancy)
        allocation = replace(allocation, suppressed_pairs=suppressed)
    return replace(plan, occupancy=whole.occupancy, facts=whole.public, allocation=allocation)


def run(dataset, plan):
    """Return what a plan gives the noise source, with the scales, and its outputs."""
    allocation, source = allocation_of(plan, dataset.public.lattice), Exactly()
    meter = partial(Meter, squared=bool(plan.delta))
    sums, booked = private_sums(dataset), allocation.losses()
    outputs = execute(allocation, sums, source, MemoryJournal(), meter(booked))
    if plan.delta:
        # What blocks say of each user adds up to the booking, not to less.
        with pytest.raises(HexveilError, match="more than was booked"):
            execute(allocation, sums, Exactly(), MemoryJournal(), meter(booked * 0.9999))
    return source.given, outputs, allocation.decode(outputs)


@pytest.mark.parametrize(
    ("name", "store"),
    # Blocks of a δ are those of a pure plan.
    [(name, s) for name in ASKED for s in STORES[-1 if "delta" in name else 1 :]],
)
def test_the_whole_numbers_are_the_same(name, store):
    """What goes to the noise door is what pairs at hand give, for every kind of plan and stage."""
    whole = records()
    with stored_dataset(whole, store, 30) as there:
        made = hv.plan(there, advise=False, **ASKED[name])
        given, outputs, decoded = run(there, made)
        losses = made.losses()
        here = hv.Plan.of(at_hand(made.single, whole))
    np.testing.assert_allclose(losses, here.losses(), rtol=1e-14)
    same, also, again = run(whole, here)
    assert list(outputs) == list(also)
    for (numbers, scales), (others, other_scales) in zip(given, same, strict=True):
        np.testing.assert_array_equal(numbers, others)
        assert numbers.dtype == np.int64
        # What a user moves of distances is a bound in blocks: that scale may be larger.
        assert (scales >= other_scales).all()
        np.testing.assert_allclose(scales, other_scales, rtol=0.5)
    for one, other in zip(decoded, again, strict=True):
        np.testing.assert_array_equal(one.estimate, other.estimate)


DISTRIBUTIONS = {
    "bins": ("p50", "share<4", "histogram"),
    "ranks": ("mean", "p15", "p85"),
    "auto": ("share>=7",),
}


@pytest.fixture(scope="module")
def counted():
    """Return records counted by the bins of all these statistics."""
    draw = np.random.default_rng(5)
    bus, ward = draw.integers(0, 25, 700), draw.integers(0, 8, 700)
    asked = sorted({one for some in DISTRIBUTIONS.values() for one in some})
    return hv.read(
        pa.table({"bus": bus, "ward": ward, "speed": draw.uniform(-1, 11, 700)}),
        user="bus",
        value="speed",
        bounds=(0, 10),
        quantum="0.5",
        cells=hv.Labels("ward"),
        statistics=asked,
    )


def distribution_at_hand(plan, whole):
    """Return the same plan of a distribution for the same pairs at hand."""
    component, moments = plan.component, plan.moment_plan
    if plan.score_plan is not None:
        scores = replace(at_hand(plan.score_plan, whole), facts=score_metadata(whole.public))
        component = replace(component, plan=scores)
    if moments is not None:
        moments = at_hand(moments, whole)
    return plan.changed(facts=whole.public, component=component, moment_plan=moments)


def noised(dataset, plan):
    """Return the whole numbers that a plan of a distribution gives the noise source."""
    allocation, source = plan.stages(), Exactly()
    meter = partial(Meter, squared=bool(plan.delta))
    sums, booked = sums_of(dataset, plan), allocation.losses()
    execute(allocation, sums, source, MemoryJournal(), meter(booked))
    if plan.delta:
        with pytest.raises(HexveilError, match="more than was booked"):
            execute(allocation, sums, Exactly(), MemoryJournal(), meter(booked * 0.999))
    return source.given


@pytest.mark.parametrize(
    ("estimator", "room", "delta"),
    [(name, room, None) for name in DISTRIBUTIONS for room in (1, 30, 10_000)]
    + [("bins", 30, "0.001")],
)
def test_counts_by_bin_are_apportioned_alike(counted, estimator, room, delta):
    """Quantiles, shares and histograms: one plan, one loss, and the same whole numbers."""
    there = distributed_dataset(counted, room)
    asked = {
        "statistics": DISTRIBUTIONS[estimator],
        "epsilon": 8,
        "estimator": estimator,
        "advise": False,
        "delta": delta,
    }
    made, planned_here = hv.plan(there, **asked), hv.plan(counted, **asked)
    here = distribution_at_hand(made, counted)
    assert made.estimator == here.estimator == planned_here.estimator
    if isinstance(made.component, BinPlan):
        np.testing.assert_array_equal(
            made.component.priced.prices, planned_here.component.priced.prices
        )
        assert made.expected_error == planned_here.expected_error
    losses = made.stages().losses()
    np.testing.assert_allclose(losses, here.stages().losses(), rtol=1e-14)
    assert made.epsilon <= 8
    for (numbers, scales), (others, other_scales) in zip(
        noised(there, made), noised(counted, here), strict=True
    ):
        np.testing.assert_array_equal(numbers, others)
        np.testing.assert_allclose(scales, other_scales, rtol=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [None, "0.001"])
def test_a_released_distribution_is_that_of_pairs_at_hand(delta, counted, tmp_path, monkeypatch):
    """The table without noise, what is booked, and the saved plan; nothing of size pairs comes."""
    for door in ("add_laplace", "add_gaussian"):
        monkeypatch.setattr(noise, door, lambda values, _: values)
    there = distributed_dataset(counted, 30)
    asked = {
        "statistics": DISTRIBUTIONS["bins"],
        "epsilon": 8,
        "estimator": "bins",
        "advise": False,
        "delta": delta,
    }
    made = hv.plan(there, **asked)
    loaded = hv.Plan.load(made.save(tmp_path / "plan"), there)
    books = [ledger(tmp_path, name, delta) for name in ("there", "here")]
    shown = [
        hv.release(data, plan, ledger=book, accept_noise=True)
        for data, plan, book in zip(
            (there, counted), (loaded, distribution_at_hand(made, counted)), books, strict=True
        )
    ]
    assert shown[0].table.equals(shown[1].table)
    assert books[0].remaining == books[1].remaining
    assert find_problems(shown[0].write(tmp_path / "out")) == ()
    store, blocks = vars(there.sums)["_store"], len(vars(there.sums)["_store"].by_cell)
    occupancy, own = there.occupancy, made.stages().components[0].plan
    most = 8 * max(own.n_bins * occupancy.n_cells, 5 * occupancy.n_users, 20 * 2 * blocks)
    assert max(size for _, size in store.received) <= most


def test_counts_by_bin_of_other_records_are_refused(counted):
    """Bins on one side alone; sums without bins measure no distribution."""
    there = distributed_dataset(counted, 30)
    plain = DistributedSums(vars(there.sums)["_store"], squares=True)
    with pytest.raises(HexveilError, match="counts by bin and public bins"):
        Dataset(there.public, plain, there.units)
    plan = hv.plan(there, statistics="p50", epsilon=8, estimator="bins", advise=False)
    stage = plan.stages().next_stage(Outputs())
    with pytest.raises(HexveilError, match="by bin, which these sums lack"):
        stage.measure(private_sums(counted), Outputs())
    uncounted = Dataset(replace(there.public, bins=None), plain, there.units)
    with pytest.raises(HexveilError, match="not counted by bin"):
        sums_of(uncounted, plan)
    assert repr(sums_of(there, plan)) == "BinnedBlockSums(blocks)"


@pytest.mark.parametrize(("part", "stages"), [(0.1, 0), (0.5, 1)])
def test_bins_in_blocks_that_cost_more_than_was_booked_are_not_drawn(counted, part, stages):
    """The meter refuses the shape, or the bins of cells once the shape was drawn."""
    there = distributed_dataset(counted, 30)
    plan = hv.plan(there, statistics="p50", epsilon=8, estimator="bins", advise=False)
    booked, journal = part * plan.stages().losses(), MemoryJournal()
    with pytest.raises(HexveilError, match="more than was booked"):
        execute(plan.stages(), sums_of(there, plan), Exactly(), journal, Meter(booked))
    assert len(journal.rows) == stages


@pytest.mark.parametrize(
    ("epsilon", "statistics", "kind"),
    [
        ("0.04", "mean", WithinBounds),
        ("0.5", "mean", PrivateRange),
        ("2", "mean", PerCellRange),
        ("0.04", BOTH, WithinBounds),
        ("2", BOTH, PrivateRange),
    ],
)
def test_the_default_plan_is_that_of_pairs_at_hand(epsilon, statistics, kind):
    """Ranges of cells where users suffice, one range of fewer, bounds of few."""
    counts = np.random.default_rng(9).poisson(0.15, (600, 30))
    counts[counts.sum(axis=1) == 0, 0] = 1
    n = counts.T[counts.T > 0]
    whole = dataset_of(counts, 0 * n, 0 * n, scale=SCALE, cells=hexagons(30))
    here, there = (
        hv.plan(one, epsilon=epsilon, statistics=statistics, advise=False)
        for one in (whole, distributed_dataset(whole, 500))
    )
    assert type(here.allocation.clipping) is type(there.allocation.clipping) is kind
    np.testing.assert_allclose(there.error, here.error, rtol=1e-9)
    np.testing.assert_allclose(there.losses(), here.losses(), rtol=1e-9)


def test_the_adviser_predicts_what_it_does_at_hand():
    """Capacity and proposed runs are those of pairs at hand, but for selections of pairs."""
    counts = np.random.default_rng(9).poisson(0.15, (600, 30))
    counts[counts.sum(axis=1) == 0, 0] = 1
    n = counts.T[counts.T > 0]
    whole = dataset_of(counts, 0 * n, 0 * n, scale=SCALE, cells=hexagons(30))
    shown = []
    for one in (whole, distributed_dataset(whole, 500)):
        facts = one.public
        again = replace(
            facts,
            recount=lambda grids, _, own=facts: tuple(
                own if grid == own.cells.grid else None for grid in grids
            ),
        )
        made = hv.plan(again, epsilon=1, advise=False)
        capacity = hv.capacity(again, epsilon=1, search=False)
        runs = propose_runs(made).proposals
        shown.append((capacity.to_arrow().to_pylist(), set(runs)))
    (here, runs), (there, others) = shown
    for row, same in zip(here, there, strict=True):
        assert row.keys() == same.keys()
        for name, value in row.items():
            is_number = isinstance(value, float)
            expected = pytest.approx(value, rel=0.05, nan_ok=True) if is_number else value
            assert same[name] == expected, name
    assert runs == others


@pytest.mark.parametrize("name", ["range", "cell ranges", "delta, range"])
def test_weights_that_fit_no_plan_are_refused(name):
    """Factors below zero, and totals that would make weights too large, measure nothing."""
    there = distributed_dataset(records(), 30)
    made = hv.plan(there, advise=False, **ASKED[name])
    field = "plan" if name == "cell ranges" else "range"
    ranged = getattr(made.allocation.clipping, field)
    weights = ranged.weight
    for wrong in (
        replace(weights, factor=-weights.factor),
        replace(weights, total=weights.total / 8),
        replace(weights, total=weights.total * np.nan),
    ):
        clipping = replace(made.allocation.clipping, **{field: replace(ranged, weight=wrong)})
        with pytest.raises(InputError, match="without weights or noise"):
            allocation_of(
                made.changed(allocation=replace(made.allocation, clipping=clipping)),
                there.public.lattice,
            )


def test_a_plan_that_was_booked_is_read_back():
    """Weights are kept by the ledger as a number per user and one per cell, never per pair."""
    there = distributed_dataset(records(), 30)
    for name in ("range", "cell ranges", "delta, cell ranges"):
        made = hv.plan(there, advise=False, **ASKED[name])
        read = plan_codec.decode(plan_codec.encode(made), made)
        assert plan_codec.encode(read) == plan_codec.encode(made)
        sizes = {array.size for array in plan_codec.pack_decisions(made)[1].values()}
        assert sizes == {there.occupancy.n_cells, there.occupancy.n_users}
        np.testing.assert_array_equal(read.losses(), made.losses())


@pytest.mark.slow
@pytest.mark.parametrize("delta", [None, "0.001"])
def test_a_release_books_and_shows_the_same(delta, tmp_path, monkeypatch):
    """Without noise both show one table; both book the same losses of the same units."""
    for door in ("add_laplace", "add_gaussian"):
        monkeypatch.setattr(noise, door, lambda values, _: values)
    whole = records()
    there = distributed_dataset(whole, 30)
    made = hv.plan(
        there, advise=False, epsilon=6, statistics=BOTH, delta=delta, clipping_range="bounds"
    )
    here = made.changed(occupancy=whole.occupancy, facts=whole.public)
    books = [ledger(tmp_path, name, delta) for name in ("there", "here")]
    shown = [
        hv.release(data, plan, ledger=book, accept_noise=True, estimates=("raw", "smoothed"))
        for data, plan, book in zip((there, whole), (made, here), books, strict=True)
    ]
    assert shown[0].table.equals(shown[1].table)
    assert books[0].remaining == books[1].remaining
    assert shown[0].epsilon == shown[1].epsilon
    again = hv.release(
        there, made, ledger=books[0], accept_noise=True, estimates=("raw", "smoothed")
    )
    assert again.replayed
    folder = shown[0].write(tmp_path / "out")
    assert find_problems(folder) == ()


@pytest.mark.parametrize(
    "name", ["joint", "range", "cell ranges", "suppressed", "suppressed, printed"]
)
def test_a_saved_plan_has_no_pairs_and_goes_with_its_records(name, tmp_path):
    """The folder has tables of cells and of users, and suppressed pairs alone.

    Only the records that were planned fit it.
    """
    there, other = (distributed_dataset(records(seed), 30) for seed in (0, 1))
    made = hv.plan(there, advise=False, **ASKED[name])
    folder = made.save(tmp_path / "plan")
    dropped = made.allocation.suppressed_pairs.cell.size if "suppressed" in name else 0
    assert pq.read_metadata(folder / "pairs.parquet").num_rows == dropped
    assert ("suppressed" in name) == (dropped > 0)
    read = hv.Plan.load(folder, there.occupancy)
    for key, array in plan_codec.pack_decisions(made)[1].items():
        np.testing.assert_array_equal(plan_codec.pack_decisions(read)[1][key], array, key)
    np.testing.assert_array_equal(read.losses(), made.losses())
    with pytest.raises(InputError, match=r"hv.Plan.load\(folder, dataset.occupancy\)"):
        hv.Plan.load(folder)
    for wrong in (other.occupancy, records().occupancy):
        with pytest.raises(InputError, match="made for other records"):
            hv.Plan.load(folder, wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clipping_range", "statistics"),
    [("auto", "mean"), ("private", "mean"), ("private", BOTH)],
)
def test_what_comes_to_the_driver_is_bounded_by_cells_and_users(
    clipping_range, statistics, tmp_path, monkeypatch
):
    """No answer of a plan and a release has an entry per pair, but for a sample of fixed size.

    Weights that begin with the sample spend the loss that was asked.
    """
    sample = 500
    monkeypatch.setattr("hexveil.planning.optimizers.pair_sums.FETCHED_PAIRS", sample)
    counts = np.random.default_rng(9).poisson(3, (300, 20))
    counts[:, 0] += 1
    n = counts.T[counts.T > 0]
    whole = dataset_of(counts, 5 * n, 25 * n, scale=SCALE, cells=hexagons(20))
    there = distributed_dataset(whole, 2000)
    made = hv.plan(
        there, epsilon=2, statistics=statistics, clipping_range=clipping_range, advise=False
    )
    assert 1.999 < float(made.losses().max()) <= 2
    hv.release(there, made, ledger=ledger(tmp_path, "book"), accept_noise=True)
    store = vars(there.sums)["_store"]
    occupancy, blocks = there.occupancy, len(store.by_cell)
    # Three columns of a cell or a user, a digest per cell, and a row of votes per block.
    most = 8 * max(
        4 * occupancy.n_cells, 3 * occupancy.n_users, blocks * (max(*BINS, len(SPREAD_POINTS)) + 2)
    )
    sizes = dict(sorted(store.received, key=lambda noted: noted[1]))
    assert sizes.pop("_fetched") <= 2 * sample * 3 * 8
    assert max(sizes.values()) <= most < 8 * occupancy.n_pairs / 2


def test_constants_read_no_block(tmp_path):
    """A plan without noise asks for no sum and costs nothing."""
    there = distributed_dataset(records(), 30)
    made = hv.plan(there, advise=False, epsilon=2, clipping_range="bounds")
    nothing = np.zeros(8)
    rows = replace(
        made.allocation, contribution_cap=nothing.astype(np.int64), noise_scale_records=nothing
    )
    store = vars(there.sums)["_store"]
    store.asked.clear()
    shown = hv.release(
        there, made.changed(allocation=rows), ledger=ledger(tmp_path, "none"), accept_noise=True
    )
    assert shown.table["mean_raw"].to_pylist() == [5.0] * 8
    assert "sums" not in {whole for whole, _ in store.asked}


def test_sums_show_nothing_and_are_not_fetched():
    """Neither repr nor refusal holds a number of them; a plan of clipping ranges is refused."""
    there = distributed_dataset(records(), 30)
    assert repr(there.sums) == "DistributedSums(blocks, with squares, private)"
    for name in ("total", "total_sq"):
        with pytest.raises(InputError, match="sums of all pairs in one machine's memory"):
            getattr(there.sums, name)
    with pytest.raises(AttributeError):
        _ = there.sums.colour


def test_sums_elsewhere_need_counts_elsewhere():
    """A data set of one and not the other is refused where it is made."""
    whole = records()
    there = distributed_dataset(whole, 30)
    with pytest.raises(HexveilError, match="do not belong together"):
        Dataset(whole.public, there.sums, whole.units)


def test_an_array_of_suppressed_pairs_is_refused():
    """A plan with an array as large as the pairs cannot be asked of blocks."""
    whole = records()
    made = hv.plan(whole, advise=False, epsilon=2, method="clip-user")
    there = distributed_dataset(whole, 30)
    with pytest.raises(InputError, match="in one machine's memory"):
        made.changed(occupancy=there.occupancy, facts=there.public)


@pytest.mark.parametrize(
    ("cell", "user"), [([1, 0], [0, 0]), ([0, 0], [3, 3]), ([8], [0]), ([0], [-1]), ([0], [0, 1])]
)
def test_lists_of_suppressed_pairs_that_no_plan_has_are_refused(cell, user):
    """Unsorted, repeated, of no cell or user, or not of both."""
    with pytest.raises(InputError, match="suppressed pairs"):
        SuppressedPairs(np.array(cell), np.array(user), 8, 25)
