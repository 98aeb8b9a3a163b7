"""Several value columns in one release: read once, one loss of each unit, one folder."""

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil import InputError
from publishing.releases import called, forge_whole

BOUNDS = {"pm25": (0, 100), "no2.air": (0, 200)}
STATISTICS = ("mean", "p50")
READ = {"user": "sensor", "time": "time", "cells": hv.Labels("ward"), "quantum": "0.01"}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Return a CSV file of 80 sensors, of which some lack a value or the whole second column."""
    rng = np.random.default_rng(7)
    rows = [(u, k) for u in range(80) for k in range(30)]
    pm25, no2 = rng.normal(20, 5, len(rows)).round(2), rng.normal(60, 9, len(rows)).round(2)
    gaps = rng.random(len(rows)) < 0.05
    has_no2 = np.array([u % 8 > 0 for u, _ in rows])
    table = pa.table(
        {
            "sensor": [f"s{u}" for u, _ in rows],
            "ward": [f"w{(u + k) % 3}" if k else f"w{3 + (u % 8 == 0)}" for u, k in rows],
            "time": [f"2026-11-{1 + k:02d}T08:00:00Z" for _, k in rows],
            "pm25": pa.array(pm25, mask=gaps),
            "no2.air": pa.array(no2, mask=~has_no2),
        }
    )
    path = tmp_path_factory.mktemp("air") / "air.csv"
    pyarrow.csv.write_csv(table, path)
    return path


@pytest.fixture(scope="module")
def dataset(source):
    """Return both columns, with bins."""
    return hv.read(
        source, value=[*BOUNDS], bounds=BOUNDS, value_unit="ug/m3", statistics=STATISTICS,
        max_bad_rows=0.2, **READ,
    )  # fmt: skip


@pytest.fixture(scope="module")
def plan(dataset):
    """Return a plan of both columns."""
    return hv.plan(dataset, epsilon=6, statistics=STATISTICS, advise=False)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """Return a ledger."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    return hv.Ledger(path, dataset="air", budget="20")


@pytest.fixture(scope="module")
def made(dataset, plan, book):
    """Return the release of both columns."""
    return hv.release(dataset, plan, ledger=book, accept_noise=True)


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory):
    """Return its folder."""
    return made.write(tmp_path_factory.mktemp("out") / "map", title="Air")


def test_days_of_a_user_are_units_of_their_own(source):
    """Units of days have the same number in both columns only if user and day are the same."""
    both = hv.read(
        source, value=[*BOUNDS], bounds=BOUNDS, max_bad_rows=0.2, privacy_unit="user-day",
        timezone="UTC", accept_single_records=True, **READ,
    )  # fmt: skip
    keys = list(zip(both.units.users.to_pylist(), both.units.periods(), strict=True))
    assert len(set(keys)) == len(keys) == both.public.n_units
    for column, one in both.datasets.items():
        own = list(zip(one.units.users.to_pylist(), one.units.periods(), strict=True))
        assert own == [keys[number] for number in both.public.units[column]]


@pytest.mark.slow
def test_one_booking_pays_for_all_columns(dataset, plan, made, book, source):
    """The largest total is booked once; other orders and a booked split of ε are replayed."""
    assert made.epsilon == plan.epsilon
    assert float(book.remaining) == pytest.approx(20 - float(plan.epsilon), abs=1e-9)
    order = [*BOUNDS][::-1]
    other = hv.read(
        source, value=order, bounds=BOUNDS, value_unit="ug/m3", statistics=STATISTICS,
        max_bad_rows=0.2, **READ,
    )  # fmt: skip
    # Another processor may divide ε otherwise: what was booked counts.
    split = hv.plan(other, epsilon=5, statistics=STATISTICS, advise=False)
    again = hv.release(
        other, replace(split, requested_epsilon=plan.requested_epsilon), ledger=book,
        accept_noise=True,
    )  # fmt: skip
    assert again.replayed
    for column in BOUNDS:
        assert again.releases[column].table.equals(made.releases[column].table)


# ---- data sets that were read apart ----


def sums_of(dataset, column):
    """Return a data set as a table of sums, its ids in the types that a warehouse may have."""
    one = dataset.datasets[column]
    occupancy, quantum = one.occupancy, float(one.public.lattice.quantum)
    labels = one.public.cells.labels["ward"]
    return pa.table(
        {
            "ward": [labels[cell] for cell in occupancy.cell],
            "user": one.units.users.take(pa.array(occupancy.user)),
            "n": occupancy.n,
            # The lower bound is 0 for both.
            "sum": one.sums.total * quantum,
        }
    )


@pytest.mark.slow
def test_columns_that_were_read_apart_are_the_same_release(source, dataset, tmp_path):
    """With a cache, and as sums in another order of ids, units have one number in all columns."""
    cached = hv.read(
        source, value=[*BOUNDS], bounds=BOUNDS, value_unit="ug/m3", statistics=STATISTICS,
        max_bad_rows=0.2, cache=tmp_path / "cache", version="1", **READ,
    )  # fmt: skip
    apart = hv.combine_columns(
        {
            column: hv.from_sums(
                sums_of(dataset, column).sort_by([("user", "descending")]), bounds=BOUNDS[column],
                quantum="0.01", cells=hv.Labels("ward"), value_unit="ug/m3",
            )
            for column in BOUNDS
        }
    )  # fmt: skip
    for other in (cached, apart):
        assert other.public.n_units == dataset.public.n_units
        for column, one in dataset.datasets.items():
            ids = other.units.take(other.public.units[column]).users.to_pylist()
            assert ids == other.datasets[column].units.users.to_pylist()
            assert set(ids) == {*one.units.users.to_pylist()}
            assert other.public.columns[column].value == column
            assert sorted(other.datasets[column].sums.total) == sorted(one.sums.total)
    plans = [hv.plan(one, epsilon=3, clipping_range="bounds", advise=False)
             for one in (dataset, cached, apart)]  # fmt: skip
    losses = [dict(zip(one.units.users.to_pylist(), plan.losses(), strict=True))
              for one, plan in zip((dataset, cached, apart), plans, strict=True)]  # fmt: skip
    assert losses[0] == losses[1]
    assert losses[0] == pytest.approx(losses[2], rel=1e-9)
    ledger = hv.Ledger(tmp_path / "ledger.sqlite", dataset="air", budget=9)
    made = hv.release(apart, plans[2], ledger=ledger, accept_noise=True)
    assert hv.verify(made.write(tmp_path / "map"))["request"] == made.manifest["request"]


def test_data_sets_of_other_units_or_cells_do_not_combine(dataset, source):
    """What a release has once must be equal; the sentence says what is not."""
    first, second = dataset.datasets.values()
    table = pa.table({"cell": ["w0"], "user": ["s1 2026-11-01"], "n": [1], "sum": [3.0]})
    given = {"bounds": (0, 9), "min_users": 1, "cells": hv.Labels("cell")}
    days = hv.from_sums(table, privacy_unit="user-day", **given)
    clock = replace(days, public=replace(days.public, identity={"timezone": "Asia/Kolkata"}))
    pairs = (
        ({"a": first}, "two data sets or more"),
        ({"a": first, "b": dataset}, "'b' must be a data set of one value"),
        ({"a": first, "b": replace(second, units=None)}, "matched by ids"),
        ({"a": first, "b": hv.from_sums(table, **given)}, "differ in their cells"),
        ({"a": hv.from_sums(table, **given), "b": days}, "differ in the privacy unit"),
        ({"a": days, "b": clock}, "the clock of their days"),
    )
    for datasets, message in pairs:
        with pytest.raises(InputError, match=message):
            hv.combine_columns(datasets)


# ---- under a delta ----


@pytest.mark.slow
def test_a_release_of_columns_under_a_delta_is_checked(dataset, tmp_path):
    """Its folder says what δ means, and squares that do not add up are found.

    The heavier column has the smaller error for its range.
    """
    options = {"epsilon": 6, "statistics": "mean", "clipping_range": "bounds", "advise": False}
    plan = hv.plan(dataset, delta="0.001", weights={"pm25": 8}, **options)
    assert plan.epsilon <= 6
    errors = {name: one.expected_error for name, one in plan.plans.items()}
    assert errors["pm25"] / 100 < errors["no2.air"] / 200
    with pytest.raises(InputError, match="below 1 / 80 units"):
        hv.plan(dataset, delta="0.1", **options)
    book = hv.Ledger(tmp_path / "book.sqlite", dataset="air", budget=6, delta="0.001")
    made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    folder = made.write(tmp_path / "map")
    assert hv.verify(folder)["guarantee"]["delta"] == "0.001"
    assert 0.0 <= float(book.remaining) < 0.1
    assert hv.release(dataset, plan, ledger=book, accept_noise=True).replayed

    def fewer_squares(stated):
        stated["losses"]["squared_mu"]["mean"] *= 0.9

    forge_whole(folder, fewer_squares)
    with pytest.raises(InputError, match="squared_mu/mean is not that of all columns"):
        hv.verify(folder)


# ---- the folder ----


@pytest.mark.slow
def test_each_part_names_the_whole(folder, tmp_path):
    """A column can be written and verifies alone; its texts say that it is one of two."""
    part = hv.load(folder).releases["pm25"].write(tmp_path / "part")
    own, whole = hv.verify(part), hv.verify(folder)
    assert own["columns_together"]["epsilon_spent"] == whole["guarantee"]["epsilon_spent"]
    for text in (part / "README.txt", part / "report.html"):
        assert "value columns that were released together" in " ".join(text.read_text().split())
    alone, together = (called("dossier", one) for one in (part, folder))
    assert "released together (pm25, no2.air)" in " ".join(alone.split())
    heads = [line for line in together.splitlines() if line.startswith("## ")]
    assert heads[-2:] == ["## Value column pm25", "## Value column no2.air"]
    assert "It is epsilon 6.00, under pure epsilon-differential privacy." in together
    assert own["components"][0]["plan"]["statistics"] == [*STATISTICS]


@pytest.mark.slow
def test_each_column_is_compared_and_rolled_up_by_its_name(dataset, made, folder, tmp_path):
    """As if its own folder were given; of several columns one is named."""
    own = hv.Ledger(tmp_path / "ledger.sqlite", dataset="air", budget="20")
    less = hv.plan(dataset, epsilon=3, statistics=STATISTICS, advise=False)
    later = hv.release(dataset, less, ledger=own, accept_noise=True)
    changes = hv.compare_releases(folder, later, value="no2.air")
    alone = hv.compare_releases(hv.load(folder).releases["no2.air"], later.releases["no2.air"])
    assert changes.table.equals(alone.table)
    grid = {"resolution": "all", "timeslot": "all"}
    rolled = [hv.roll_up(one, value="pm25", **grid) for one in (made, later)]
    assert rolled[0].table.equals(hv.roll_up(made.releases["pm25"], **grid).table)
    assert hv.compare_releases(*rolled).statement["dataset"]["value"] == "pm25"
    for value in (None, "so2"):
        with pytest.raises(InputError, match=r"value columns pm25, no2\.air; name one"):
            hv.compare_releases(folder, later, value=value)


@pytest.mark.slow
def test_a_number_of_a_cell_that_a_column_has_not_is_found(folder, tmp_path):
    """Where the second column has no such cell its numbers are missing."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    table = pq.read_table(copy / "cells.parquet")
    at = table.column_names.index("no2_air_mean_raw")
    numbers = [7.0 if x is None else x for x in table["no2_air_mean_raw"].to_pylist()]
    table = table.set_column(at, table.schema.field(at), pa.array(numbers))
    pq.write_table(table, copy / "cells.parquet")
    forge_whole(copy, lambda _: None)
    with pytest.raises(InputError, match="of a cell that a value column has not"):
        hv.verify(copy)


# ---- what is refused ----


def test_a_plan_of_other_columns_is_refused(dataset, plan, book):
    """A plan of one column does not release several, nor the other way round."""
    with pytest.raises(InputError, match="value columns differ"):
        hv.release(dataset, plan.plans["pm25"], ledger=book)
    with pytest.raises(InputError, match="value columns differ"):
        hv.release(dataset.datasets["pm25"], plan, ledger=book)
    with pytest.raises(InputError, match="give exactly one of them"):
        hv.plan(dataset)
