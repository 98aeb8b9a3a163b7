"""A release of pairs that stay elsewhere is the release of the same pairs at hand."""

from dataclasses import replace

import numpy as np
import pytest

import hexveil as hv
from distributed_blocks import distributed_dataset
from hexveil.base.errors import HexveilError, InputError
from hexveil.mechanisms import noise
from hexveil.model.public_metadata import ValueLattice
from hexveil.records.dataset import Dataset
from publishing import measuring
from publishing.setting import dataset_of, hexagons

SCALE = ValueLattice.of((0, 10), "0.5")
BOTH = ("mean", "variance")
ASKED = {
    "joint": {"epsilon": 2},
    "largest": {"epsilon": 2, "objective": "max"},
    "per-cell": {"epsilon": 2, "method": "per-cell"},
    "both": {"epsilon": 6, "statistics": BOTH},
    "both, composed": {"epsilon": 6, "statistics": BOTH, "method": "equal-split"},
    "sd": {"epsilon": 6, "statistics": ("sd",)},
}


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


def ledger(folder, name):
    """Return a fresh ledger."""
    return hv.Ledger(folder / f"{name}.sqlite", dataset="buses", budget=20)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("room", [1, 30, 10_000])
def test_the_whole_numbers_are_the_same(name, room):
    """What goes to the noise door is what pairs at hand give, for every kind of plan."""
    whole = records()
    there = distributed_dataset(whole, room)
    made = hv.plan(there, advise=False, **ASKED[name])
    here = replace(made, occupancy=whole.occupancy, facts=whole.public)
    for statistic in (measuring.statistic, measuring.variance_statistic):
        found = statistic(there, made)
        np.testing.assert_array_equal(found, statistic(whole, here))
        assert found.dtype == np.int64


def test_a_release_books_and_shows_the_same(tmp_path, monkeypatch):
    """Without noise both show one table; both book the same losses of the same units."""
    monkeypatch.setattr(noise, "add_laplace", lambda values, _: values)
    whole = records()
    there = distributed_dataset(whole, 30)
    made = hv.plan(there, advise=False, epsilon=6, statistics=BOTH)
    here = replace(made, occupancy=whole.occupancy, facts=whole.public)
    books = [ledger(tmp_path, name) for name in ("there", "here")]
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
    assert (folder / "manifest.json").exists()


def test_constants_read_no_block(tmp_path):
    """A plan without noise asks for no sum and costs nothing."""
    there = distributed_dataset(records(), 30)
    made = hv.plan(there, advise=False, epsilon=2)
    nothing = np.zeros(8)
    rows = replace(
        made.allocation, contribution_cap=nothing.astype(np.int64), noise_scale_records=nothing
    )
    store = vars(there.sums)["_store"]
    store.asked.clear()
    shown = hv.release(
        there, replace(made, allocation=rows), ledger=ledger(tmp_path, "none"), accept_noise=True
    )
    assert shown.table["mean_raw"].to_pylist() == [5.0] * 8
    assert "sums" not in {whole for whole, _ in store.asked}


def test_sums_show_nothing_and_are_not_fetched():
    """Neither repr nor refusal holds a number of them; a plan of clipping ranges is refused."""
    there = distributed_dataset(records(), 30)
    assert repr(there.sums) == "DistributedSums(blocks, with squares, private)"
    for name in ("total", "total_sq"):
        with pytest.raises(InputError, match="sums of all pairs on one machine"):
            getattr(there.sums, name)
    with pytest.raises(AttributeError):
        _ = there.sums.colour


def test_sums_elsewhere_need_counts_elsewhere():
    """A data set of one and not the other is refused where it is made."""
    whole = records()
    there = distributed_dataset(whole, 30)
    with pytest.raises(HexveilError, match="do not belong together"):
        Dataset(whole.public, there.sums, whole.units)


def test_dropped_pairs_are_refused():
    """A plan that drops single pairs cannot be asked of blocks."""
    whole = records()
    made = hv.plan(whole, advise=False, epsilon=2, method="clip-user")
    there = distributed_dataset(whole, 30)
    with pytest.raises(InputError, match="on one machine"):
        replace(made, occupancy=there.occupancy, facts=there.public)
