"""A cache read with Spark: what reading without one gives, and the entries of the other engine."""

import os
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil.base.errors import InputError
from hexveil.model.cells import Cells, Labels
from hexveil.records.duckdb import cached_reading
from hexveil.records.select import Select
from records.engines import PANDAS
from records.test_cache import ask, day, fill, same, write_csv
from records.test_private_reading import GRID, places, write
from records.test_private_reading import read as read_cars

pytestmark = [pytest.mark.filterwarnings(PANDAS)]


@pytest.fixture
def days(tmp_path):
    """Return a folder of three days."""
    return fill(tmp_path / "days")


@pytest.fixture
def place(tmp_path):
    """Return a folder for the cache, which is not there yet."""
    return tmp_path / "cache"


@pytest.fixture
def scans(monkeypatch):
    """Return the list that gets the names of files whose records are read in this process."""
    seen = []
    scan = cached_reading.CachedReading._scanned

    def scanning(self, paths, **more):
        seen.extend(sorted(Path(path).name for path in paths))
        return scan(self, paths, **more)

    monkeypatch.setattr(cached_reading.CachedReading, "_scanned", scanning)
    return seen


def overwrite_data(path):
    """Destroy the data of a Parquet file, in secret: its size, time and footer stay."""
    then, content = path.stat(), bytearray(path.read_bytes())
    content[8 : len(content) // 2] = bytes(len(content) // 2 - 8)
    path.write_bytes(content)
    os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))


def test_either_engine_reads_the_entries_of_the_other(spark, days, place, scans):
    """A day that one engine has read is not opened by the other; a new day costs a day."""
    same(ask(days, cache=place, engine=spark), ask(days))
    assert scans == []  # but by tasks
    same(ask(days, cache=place), ask(days))
    assert scans == []
    modes = {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()}
    assert (stat.S_IMODE(place.stat().st_mode), modes) == (0o700, {0o600})
    pq.write_table(day(3), days / "day3.parquet")
    plain = ask(days)
    same(ask(days, cache=place), plain)
    pq.write_table(day(4), days / "day4.parquet")
    plain = ask(days)
    overwrite_data(days / "day1.parquet")
    scans.clear()
    same(ask(days, cache=place, engine=spark), plain)
    assert scans == []
    tables = [pq.read_schema(path) for path in place.glob("*.pairs")]
    assert len(tables) == 5
    assert all((one.names, one.types) == (tables[0].names, tables[0].types) for one in tables)


def test_what_is_no_file_on_a_disk_is_refused(spark, days, place):
    """Addresses, and frames that do not say which of their files changed."""
    for source in (days.as_uri(), spark.createDataFrame([(1,)], ["bus"])):
        with pytest.raises(InputError, match="cache is for files on a disk"):
            ask(source, cache=place, engine=spark)
    assert not place.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"cells": Labels("ward"), "lat": None, "lon": None, "repeats": "keep"},
        {"statistics": ["p50"], "privacy_unit": "user-week",
         "cells": Cells(7, "1h", "UTC", slot="pooled")},
        {"select": Select(min_users=1, dates=("2024-03-18", "2024-03-19"), hours="1-20"),
         "cells": Cells(7, "1h", "Asia/Kolkata")},
    ],
    ids=["labels", "bins", "dates"],
)  # fmt: skip
def test_every_question_agrees(spark, days, place, scans, more):
    """Units, grids, bins and dates: by Spark, and by the other engine from the same entries."""
    given = {"timezone": "UTC", **more}
    plain = ask(days, **given)
    for engine in (spark, None):
        found = ask(days, cache=place, engine=engine, **given)
        same(found, plain)
        if "statistics" in more:
            bins = [one.sums.bins for one in (found, plain)]
            assert bins[0].count.tolist() == bins[1].count.tolist()
    assert scans == []


@pytest.mark.slow
def test_files_that_share_repeats_are_read_together(spark, tmp_path, place, scans):
    """Text with bad lines, two files of one day: one entry of both, repeats across them dropped."""
    source = tmp_path / "it's a [folder] of 100%"
    source.mkdir()
    rows = day(0)
    for name, part in (("a", rows), ("b", rows.slice(20)), ("c", day(1))):
        write_csv(part, source / f"{name}.csv.gz")
    plain = ask(source)
    assert plain.public.rules["unparsable"] > 0
    assert plain.public.rules["repeats of a user and time"] >= 40
    for engine in (spark, None):
        same(ask(source, cache=place, engine=engine), plain)
    assert scans == []
    assert len(list(place.glob("*.entry"))) == 2


@pytest.mark.slow
def test_pairs_of_private_presence_are_those_of_one_machine(spark, tmp_path, place):
    """With dates, with a file that has no record, and with one that has changed its size."""
    columns = {"cells": GRID, "lat": "lat", "lon": "lon", "time": "time", "version": "1"}
    one, other = places(60), places(60, seed=2)
    for extra, dates in ((0, None), (5, ("2020-01-01", "2020-01-01"))):
        write(tmp_path / "cars", one, pa.concat_tables([other, one.slice(0, extra)]), one[:0])
        options = columns | {"select": Select(dates=dates)}
        private = read_cars(tmp_path / "cars", **options)
        found = read_cars(tmp_path / "cars", cache=place, engine=spark, **options)
        assert found.counts.lines() == private.counts.lines()
        sides = [
            sorted(zip(p.cell.tolist(), p.records.tolist(), p.mean.tolist(), strict=True))
            for p in (found.pairs, private.pairs)
        ]
        assert sides[0] == sides[1]


@pytest.mark.slow
def test_what_tasks_cannot_read_the_driver_reads(spark, days, place, scans, monkeypatch):
    """A folder that tasks do not see, and a file that is damaged: read, or refused, here."""
    plain = ask(days)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "cwd", lambda: days / "absent")
        same(ask(days, cache=place, engine=spark), plain)
    assert scans == ["day0.parquet", "day1.parquet", "day2.parquet"]
    (days / "day3.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        ask(days, cache=place, engine=spark)
