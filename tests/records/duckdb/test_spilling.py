"""What memory does not hold: blocks on disk answer and plan what pairs in memory do.

Limits are lowered here: by their own values 18 million pairs are on disk, and four million records
are sorted in parts.
"""

import gc
import os
import tempfile
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil import Cells, HexveilError, Labels, Ledger, Select, StorageError, plan, read, release
from hexveil.model.pair_bins import PairBins
from hexveil.records.duckdb import fast_path, refusals, spilled_pairs
from hexveil.records.duckdb import session as sessions
from hexveil.records.duckdb.spilled_pairs import ColumnFile, write_bins, write_pairs
from model.stores import distributed_dataset
from records import test_refusals
from records.duckdb.test_fast_path import KEEP, MANY, check_copies, labelled, table
from records.engines import PANDAS, agree
from records.test_read import WARSAW, spread

ROWS, USERS, ROOM = 3000, 60, 100


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Return a file of users on some days in a few cells; one user is in a rare cell alone."""
    rng = np.random.default_rng(24)
    user = np.array([f"bus {i}" for i in range(USERS)])[rng.integers(0, USERS - 1, ROWS)]
    cell = rng.integers(0, 12, ROWS)
    user[-1], cell[-1] = f"bus {USERS - 1}", 99
    day = rng.integers(0, 3, ROWS).astype("timedelta64[D]")
    time = np.datetime64("2026-03-02T08") + day + np.arange(ROWS).astype("timedelta64[s]")
    columns = {"user": user, "cell": cell, "time": time, "speed": rng.integers(0, 650, ROWS) / 10}
    path = tmp_path_factory.mktemp("records") / "records.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def reading(path, unit="user-day", **given):
    """Return the records of a file as a data set."""
    return read(
        path,
        user="user",
        value="speed",
        time="time",
        timezone="UTC",
        privacy_unit=unit,
        cells=Labels("cell"),
        bounds=(0, 65),
        quantum="0.1",
        select=Select(min_users=2),
        **given,
    )


@pytest.fixture
def small(monkeypatch):
    """Let memory hold no pair at all, and a block few."""
    monkeypatch.setattr(refusals, "BYTES_OF_PAIR", 10**12)
    monkeypatch.setattr(spilled_pairs, "BLOCK_PAIRS", ROOM)


def everything(pairs, sums):
    """Return each pair of a block, with its sums."""
    return pairs.user, pairs.n, sums.total, sums.squares


def binned(pairs, bins):
    """Return each count by bin of a block of cells."""
    return pairs.user[bins.pair], bins.bin, bins.count


@pytest.mark.slow
@pytest.mark.parametrize("way", ["engine", "packed", "too many to pack"])
def test_blocks_hold_the_pairs_and_sums_of_a_reading_in_memory(records, small, monkeypatch, way):
    """By the engine's grouping and from packed records; a user of no selected cell is left out."""
    if way != "engine":
        monkeypatch.setattr(fast_path, "MIN_RECORDS", 0)
    if way == "too many to pack":
        monkeypatch.setattr(fast_path, "BYTES_OF_PAIR", 10**12)
    monkeypatch.setattr(spilled_pairs, "ROOM_OF_BINS", 1)
    found = reading(records, statistics="p50")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refusals, "BYTES_OF_PAIR", 110)
        held = reading(records, statistics="p50")
    there, here = found.occupancy, held.occupancy.local()
    assert (there.is_local, here.is_local) == (False, True)
    assert here.n_pairs == there.n_pairs > 4 * ROOM
    assert (there.n_users, found.units.ids()) == (here.n_users, held.units.ids())
    columns = found.sums.map_cells(found.occupancy, everything)
    expected = (here.user, here.n, held.sums.total, held.sums.total_sq)
    assert all(np.array_equal(*both) for both in zip(columns, expected, strict=True))
    order = np.lexsort((here.cell, here.user))
    by_user = there.map_users(lambda pairs: (pairs.cell, pairs.n))
    assert [one.tolist() for one in by_user] == [here.cell[order].tolist(), here.n[order].tolist()]
    assert found.public.rules == held.public.rules
    bins = held.sums.bins
    columns = found.sums.map_bins("cells", binned)
    expected = (here.user[bins.pair], bins.bin, bins.count)
    assert all(np.array_equal(*both) for both in zip(columns, expected, strict=True))
    of_users = PairBins.of_rows(here.user[bins.pair], bins.bin, bins.count)
    columns = found.sums.map_bins("users", lambda _, counts: (counts.bin, counts.count))
    assert [one.tolist() for one in columns] == [of_users.bin.tolist(), of_users.count.tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("delta", [None, "0.001"])
def test_plans_and_releases_are_those_of_blocks_anywhere(delta, records, small, tmp_path):
    """The same plan, to its last bit, as of blocks in memory; a release spends what it states."""
    found = reading(records, unit="user")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refusals, "BYTES_OF_PAIR", 110)
        held = distributed_dataset(reading(records, unit="user"), 7 * ROOM)
    options = {"epsilon": 30, "delta": delta}
    plans = [plan(replace(one.public, recount=None), **options) for one in (found, held)]
    assert plans[0].table.equals(plans[1].table)
    assert plans[0].users.equals(plans[1].users)
    assert plans[0].occupancy.fingerprint == plans[1].occupancy.fingerprint
    book = Ledger(tmp_path / "book.sqlite", dataset="spilled", budget=30, delta=delta)
    done = release(found, plans[0], ledger=book)
    done.write(tmp_path / "map")
    assert done.table.num_rows == found.occupancy.n_cells


@pytest.mark.slow
def test_files_have_no_name_and_need_no_closing(records, small, tmp_path):
    """Nothing is left in the scratch folder while blocks are in use; collecting them warns not."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        found = reading(records, scratch=tmp_path / "scratch")
        if os.name == "posix":
            assert {path.name for path in (tmp_path / "scratch").iterdir()} <= {"README.txt"}
        assert "private" in repr(found.sums)
        assert "bus" not in f"{found!r}{found.occupancy!r}"
        del found
        gc.collect()


def test_a_full_disk_is_a_sentence(records, small, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device", "/private/place")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(StorageError, match=r"cannot be written .*free space.*scratch") as refused:
        reading(records)
    assert "/private" not in str(refused.value)


@pytest.mark.parametrize(
    "columns",
    [
        ([0, 0, 1], [1, 1, 0], [1, 1, 1]),  # a pair twice
        ([0, 1, 1], [0, 0, 1], [1, 1, 1]),  # other sizes
        ([0, 0, 1], [0, 2, 0], [1, 1, 1]),  # a user beyond the last
        ([0, 0, 1], [0, 1, 0], [1, 0, 1]),  # no record
        ([0, 0], [0, 1], [1, 1]),  # too few
    ],
)
def test_pairs_that_are_not_the_counted_ones_are_refused(columns, tmp_path):
    rows = [[np.array(column, dtype=np.int64) for column in columns]]
    with pytest.raises(HexveilError, match="do not belong together"):
        write_pairs(rows, "cells", np.array([2, 1]), 2, tmp_path)


@pytest.mark.parametrize(
    "columns",
    [
        ([0, 0, 0, 1], [0, 1, 1, 0], [0, 0, 2, 1], [2, 1, 1, 5]),  # a record too many
        ([0, 0, 0, 1], [0, 1, 1, 1], [0, 0, 2, 1], [2, 1, 1, 3]),  # of another pair
        ([0, 0, 0, 1], [0, 1, 1, 0], [0, 2, 2, 1], [2, 1, 1, 3]),  # a bin twice, no matter
        ([0, 0, 0, 1], [0, 1, 1, 0], [0, 0, 3, 1], [2, 1, 1, 3]),  # a bin beyond the last
    ],
)
def test_counts_by_bin_that_are_not_those_of_the_pairs_are_refused(columns, tmp_path):
    pairs = [np.array(column, dtype=np.int64) for column in ([0, 0, 1], [0, 1, 0], [2, 2, 3])]
    file = write_pairs([pairs], "cells", np.array([2, 1]), 2, tmp_path)
    rows = [[np.array(column, dtype=np.int64) for column in columns]]
    if columns[2] == [0, 2, 2, 1]:
        write_bins(rows, file, np.array([3, 1]), 3, tmp_path)
        return
    with pytest.raises(HexveilError, match="do not belong together"):
        write_bins(rows, file, np.array([3, 1]), 3, tmp_path)


@pytest.mark.parametrize("largest", [255, 256, 2**16, 2**32 - 1, 2**32, 2**62])
def test_numbers_are_read_as_they_were_written(largest, tmp_path):
    file = ColumnFile(tmp_path)
    file.append([np.array([0, largest]), np.array([7, 1])])
    file.append([np.array([1]), np.array([largest])])
    assert [one.tolist() for one in file.read(0)] == [[0, largest], [7, 1]]
    assert [one.tolist() for one in file.read(1)] == [[1], [largest]]
    file._file.truncate(1)
    with pytest.raises(StorageError, match="cut short"):
        file.read(0)


# ---- counts on other grids ----

GRIDS = tuple(
    Cells(r, slot, WARSAW, kind)
    for r in (5, 4)
    for slot, kind in (("1h", "calendar"), ("6h", "pooled"), (None, "pooled"))
)


@pytest.mark.slow
@pytest.mark.parametrize("held", ["BYTES_OF_HELD_PAIR", "BYTES_OF_PAIR"])
def test_counts_on_other_grids_go_to_blocks_one_grid_after_another(monkeypatch, held):
    """Where memory holds no pairs, each grid's are in blocks, and the same as in memory."""
    dataset = spread(
        lat="lat", lon="lon", cells=Cells(5, "1h", WARSAW, "pooled"), select=Select(min_users=2)
    )
    in_memory = tuple(dataset.public.recount(GRIDS, "user-day"))
    # The pairs of the data set itself take all that there is, or those of another grid would.
    monkeypatch.setattr(refusals, held, 10**12)
    in_blocks = tuple(dataset.public.recount(GRIDS, "user-day"))
    for here, found in zip(in_memory, in_blocks, strict=True):
        assert not found.occupancy.is_local
        user, n = found.occupancy.map_cells(lambda pairs: (pairs.user, pairs.n))
        assert (user.tolist(), n.tolist()) == (
            here.occupancy.user.tolist(), here.occupancy.n.tolist(),
        )  # fmt: skip
        assert found.occupancy.users_per_cell.tolist() == here.occupancy.users_per_cell.tolist()
        assert found.cells.names() == here.cells.names()


@pytest.mark.slow
def test_more_pairs_than_memory_holds_go_to_disk(monkeypatch):
    """By the pairs of the selected cells, once they are counted; few pairs of many records pass."""
    rows = test_refusals.table()
    pairs = test_refusals.reading(rows).occupancy.n_pairs
    monkeypatch.setattr(refusals, "PAIRS_ALWAYS_HELD", 10**9)
    monkeypatch.setattr(refusals, "BYTES_OF_PAIR", 10**9 // pairs)
    assert test_refusals.reading(rows).occupancy.n_pairs == pairs
    monkeypatch.setattr(refusals, "BYTES_OF_PAIR", 3 * 10**9 // pairs)
    for memory, more, local in (
        ("500MB", {}, False), ("500MB", {"statistics": "p50"}, False), ("3GB", {}, True),
    ):  # fmt: skip
        found = test_refusals.reading(rows, memory=memory, **more)
        assert (found.occupancy.is_local, found.occupancy.n_pairs) == (local, pairs)


# ---- records that are sorted, and the engine beside them ----


@pytest.mark.slow
@pytest.mark.parametrize("way", ["hexagons", "labels", "no room"])
def test_records_are_sorted_in_parts(way, monkeypatch):
    """Pairs of all parts are added up; where memory does not hold them, the engine groups."""
    monkeypatch.setattr(sessions, "SORTABLE_PER_BYTE", MANY / 2.5 / 10**9)
    if way == "no room":
        monkeypatch.setattr(fast_path, "BYTES_OF_PAIR", 10**6)
    if way == "labels":
        more = {"timezone": WARSAW, "lat": None, "lon": None}
        check_copies(labelled(), Labels("ward", "line"), KEEP, **more)
    else:
        check_copies(table(), Cells(7, "1h", WARSAW), KEEP | {"privacy_unit": "user-day"})


def test_tables_are_on_disk_while_the_engine_rests(tmp_path):
    """A table larger than what a resting engine keeps is written out, and is whole afterwards."""
    bytes_in_memory = "SELECT sum(memory_usage_bytes) FROM duckdb_memory()"
    with sessions.Session("500MB", scratch=tmp_path / "scratch") as session:
        session.run("CREATE TEMP TABLE kept AS SELECT hash(range) AS number FROM range(3000000)")
        whole = session.rows("SELECT count(*), sum(number) FROM kept")
        memory = session.rows("SELECT current_setting('memory_limit')")[0][0]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sessions, "RESTING_ENGINE", 10**7)
            with session.resting():
                assert session.rows(bytes_in_memory)[0][0] <= 10**7
        assert session.rows("SELECT count(*), sum(number) FROM kept") == whole
        assert session.rows("SELECT current_setting('memory_limit')")[0][0] == memory


@pytest.mark.slow
@pytest.mark.filterwarnings(PANDAS)
def test_counts_come_from_spark_in_parts(spark, monkeypatch):
    """Of more rows than are fetched at once each comes with its user, in one part of several."""
    from hexveil.records.spark import reading as by_spark  # noqa: PLC0415  only where Spark is
    from records.spark.test_reading import repeated  # noqa: PLC0415

    monkeypatch.setattr(by_spark, "ROWS_AT_ONCE", 8)
    for more in ({}, {"statistics": "p50"}, {"repeats": "keep"}):
        agree(test_refusals.reading, repeated(), spark, cells=Cells(7, "1h", WARSAW), **more)
