"""A data set whose pairs stay in Spark answers, plans and releases what one at hand does."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.base.errors import HexveilError, InputError, StorageError
from hexveil.mechanisms import noise
from hexveil.mechanisms.looks.weighted_mean import WeightedVotes
from hexveil.mechanisms.private_quantile import ListedPoints
from hexveil.publishing.pipeline import private_sums
from publishing import measuring
from publishing.test_stored_releases import assert_same_numbers, at_hand, run

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
BOTH = ("mean", "variance")
SECRET = 47.125
"""A value that no message may show."""


def records(rows=4000, users=40, cells=7):
    """Return records of buses on routes; one route is left out by its few users."""
    draw = np.random.default_rng(11)
    route = [f"r{i}" for i in draw.integers(0, cells, rows)]
    table = {
        "bus": [f"bus {i}" for i in draw.integers(0, users, rows)],
        "route": route,
        "v": np.where(draw.random(rows) < 0.1, SECRET, np.round(draw.uniform(0, 60, rows), 3)),
    }
    alone = {"bus": ["bus a", "bus 3"], "route": ["empty", "empty"], "v": [1.0, 2.0]}
    return pa.concat_tables([pa.table(table), pa.table(alone)])


ASKED = {
    "user": "bus",
    "value": "v",
    "bounds": (0, 60),
    "cells": hv.Labels("route"),
    "select": hv.Select(min_users=5),
    "statistics": ("mean", "p50", "share<20"),
}


def kept_in(spark, table, **asked):
    """Return records as a data set whose pairs stay in Spark, in small blocks."""
    from hexveil.records.spark import pair_blocks  # noqa: PLC0415  only where Spark is

    spark.conf.set("spark.hexveil.pairsOnDriver", "10")
    try:
        with pytest.MonkeyPatch.context() as patch:
            # Of which an eighth remains beside counts by bin; each in some pieces.
            patch.setattr(pair_blocks, "BLOCK_PAIRS", 1200)
            patch.setattr(pair_blocks, "_PIECE_PAIRS", 16)
            return hv.read(table, engine=spark, **asked)
    finally:
        spark.conf.unset("spark.hexveil.pairsOnDriver")


@pytest.fixture(scope="module")
def elsewhere(spark):
    """Return the records in Spark."""
    dataset = kept_in(spark, records(), **ASKED)
    yield dataset
    dataset.close()
    assert not vars(dataset.sums)["_store"]._tables["users"].is_cached


@pytest.fixture(scope="module")
def here():
    """Return the records read on one machine."""
    return hv.read(records(), **ASKED)


def test_facts_and_sums_are_those_of_one_machine(elsewhere, here, tmp_path, monkeypatch):
    """Counts, cells, ids, rules, whole numbers of both statistics, and a release of them."""
    apart, whole = elsewhere.occupancy, here.occupancy
    assert type(apart).__name__ == "DistributedOccupancy"
    for name in ("users_per_cell", "records_per_cell", "largest_count", "cells_per_user"):
        np.testing.assert_array_equal(getattr(apart, name), getattr(whole, name), name)
    np.testing.assert_array_equal(apart.records_per_user, whole.records_per_user)
    assert elsewhere.public.cells.names() == here.public.cells.names()
    assert dict(elsewhere.public.rules) == dict(here.public.rules)
    assert elsewhere.units.users.equals(here.units.users)
    assert elsewhere.has_squares

    # The default of a fleet of enough users; other kinds in blocks: test_stored_releases.py.
    plan = hv.plan(elsewhere, epsilon=6, clipping_range="per-cell", advise=False)
    loaded, same = hv.Plan.load(plan.save(tmp_path / "plan"), apart), at_hand(plan, here)
    np.testing.assert_array_equal(loaded.losses(), same.losses())
    assert_same_numbers(run(elsewhere, loaded), run(here, same))

    # Other ways to measure a distribution in blocks: test_stored_releases.py, too.
    plan = hv.plan(elsewhere, epsilon=6, statistics="p50", estimator="bins", advise=False)
    same = at_hand(plan, here)
    np.testing.assert_array_equal(plan.stages().losses(), same.stages().losses())
    assert_same_numbers(run(elsewhere, plan), run(here, same))

    plan = hv.plan(elsewhere, epsilon=6, statistics=BOTH, method="equal-split", advise=False)
    same = plan.changed(occupancy=whole, facts=here.public)
    np.testing.assert_array_equal(plan.losses(), same.losses())
    for statistic in (measuring.statistic, measuring.variance_statistic):
        found = statistic(elsewhere, plan)
        np.testing.assert_array_equal(found, statistic(here, same))

    monkeypatch.setattr(noise, "add_laplace", lambda values, _: values)
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=10)
    shown = hv.release(elsewhere, plan, ledger=book, accept_noise=True)
    other = hv.Ledger(tmp_path / "other.sqlite", dataset="buses", budget=10)
    assert shown.table.equals(hv.release(here, same, ledger=other, accept_noise=True).table)


def test_a_release_becomes_a_table_of_spark(spark, here, tmp_path):
    """Every column of the numbers is there, under its name."""
    plan = hv.plan(here, epsilon=6, advise=False)
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=10)
    shown = hv.release(here, plan, ledger=book, accept_noise=True)
    frame = shown.to_spark(spark)
    assert frame.columns == shown.table.column_names
    assert [row["mean_raw"] for row in frame.collect()] == shown.table["mean_raw"].to_pylist()
    with pytest.raises(InputError, match="to_spark needs a Spark session, got NoneType"):
        shown.to_spark(None)


def test_blocks_that_are_made_again_must_be_the_same(elsewhere, monkeypatch):
    """Another digest than the first is refused, in a sentence without a number of them."""
    store = elsewhere.occupancy.store
    digests = vars(store)["_digests"]
    assert set(digests) == {"cells", "users"}  # both were asked when they were made
    plan = hv.plan(elsewhere, epsilon=6, clipping_range="per-cell", advise=False)
    votes = WeightedVotes(plan.allocation.clipping.weight)
    assert votes.largest_share >= 1  # known before
    changed = "the records changed while they were in use"
    with monkeypatch.context() as patch:
        for whole, found in digests.items():
            patch.setitem(digests, whole, [b"another", *found[1:]])
        with pytest.raises(StorageError, match=changed):
            elsewhere.occupancy.kth_largest(2)
        with pytest.raises(StorageError, match=changed):
            votes.tally(private_sums(elsewhere), ListedPoints(np.array([1, 2])))


def test_counts_of_a_grid_that_do_not_fit_stay_in_spark(spark, elsewhere, here):
    """The adviser gets the data set's own facts again, and blocks of any other grid."""
    recount, grid = elsewhere.public.recount, here.public.cells.grid
    spark.conf.set("spark.hexveil.pairsOnDriver", "10")
    try:
        (own,) = recount((grid,), "user")
        (other,) = replace(recount, facts=here.public)((grid,), "user")
    finally:
        spark.conf.unset("spark.hexveil.pairsOnDriver")
    assert own.occupancy is elsewhere.occupancy
    assert not other.occupancy.is_local
    np.testing.assert_array_equal(other.occupancy.users_per_cell, here.occupancy.users_per_cell)
    other.occupancy.store.close()


def test_a_failure_in_a_task_shows_nothing(elsewhere, capfd):
    """Neither the error, nor what hangs on it, nor Spark's words hold a value or an id."""
    with pytest.raises(HexveilError) as caught:
        elsewhere.sums.map_cells(elsewhere.occupancy, _fails)
    said, error = capfd.readouterr(), caught.value
    while error is not None:
        assert "bus" not in str(error)
        assert str(SECRET) not in str(error)
        error = error.__cause__ or error.__context__
    assert str(SECRET) not in said.out + said.err
    assert "bus 3" not in said.out + said.err


def _fails(pairs, sums):
    """Fail with what may not be seen."""
    raise ValueError(f"bus 3 has {SECRET}, {sums.total[:3]} of {pairs.n[:3]}")
