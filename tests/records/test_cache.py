"""Sums kept per file: the same data set as without, only new files read, and nothing told."""

import contextlib
import gzip
import multiprocessing
import os
import stat
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, example, given
from hypothesis import strategies as st

from examples import examples
from hexveil import Cells, InputError, Labels, RecordFormat, Select, StorageError, read
from records.test_read import arrow, records, rules
from records.watched_engine import once, watch

DAY = 86_400
FIRST = 19_800 * DAY  # 2024-03-18
HOURLY = Cells(7, "1h", "UTC")
CANARY = "canary"


def day(number, seed=0, rows=60, hours=24):
    """Return records of a day in UTC, some of which repeat a user and time."""
    rng = np.random.default_rng([number, seed])
    return pa.table(
        {
            "bus": [f"{CANARY}{i}" for i in rng.integers(0, 9, rows)],
            "speed": rng.integers(0, 700, rows) / 10 + 4321,
            "lat": rng.uniform(52.1, 52.3, rows),
            "lon": rng.uniform(21.0, 21.1, rows),
            "t": FIRST + number * DAY + rng.integers(0, hours * 60, rows) * 60,
            "ward": [f"w{i}" for i in rng.integers(0, 4, rows)],
        }
    )


def fill(folder, days=3):
    """Write a file for each day; return their folder."""
    folder.mkdir(exist_ok=True)
    for number in range(days):
        pq.write_table(day(number), folder / f"day{number}.parquet")
    return folder


def ask(source, **more):
    """Return the records of a source, in hexagons unless asked otherwise."""
    given = {
        "user": "bus", "value": "speed", "lat": "lat", "lon": "lon", "time": "t",
        "bounds": (4321, 4380), "cells": HOURLY, "select": Select(min_users=1), "max_repeats": 1,
        "version": "1",
    }  # fmt: skip
    return read(source, **(given | more))


def sums_of(dataset):
    """Return counts and sums, in their order."""
    o, sums = dataset.occupancy, dataset.sums
    squares = None if sums.total_sq is None else sums.total_sq.tolist()
    return [*(c.tolist() for c in (o.cell, o.user, o.n, sums.total)), squares]


def same(one, other):
    """Check that two data sets are one, to the last id and count."""
    assert sums_of(one) == sums_of(other)
    assert repr(one.public.cells) == repr(other.public.cells)
    assert one.public.cells.names() == other.public.cells.names()
    assert one.public.rules == other.public.rules
    assert one.public.identity == other.public.identity
    assert one.units.ids() == other.units.ids()
    assert one.units.periods() == other.units.periods()


@pytest.fixture
def days(tmp_path):
    """Return a folder of three days."""
    return fill(tmp_path / "days")


@pytest.fixture
def place(tmp_path):
    """Return a folder for the cache, which is not there yet."""
    return tmp_path / "cache"


@pytest.fixture
def made(place):
    """Return a function: how many entries were made since it was called, and how many there are."""
    seen = set()

    def entries():
        now = {(path.name, path.stat().st_mtime_ns) for path in place.glob("*.entry")}
        new = len(now - seen)
        seen.update(now)
        return new, len(now)

    return entries


@contextlib.contextmanager
def unreadable(*paths):
    """Damage the records in Parquet files, whose size, time and columns stay as they are."""
    files = [(path, path.read_bytes(), path.stat().st_mtime_ns) for path in paths]
    for is_damaged in (True, False):
        for path, whole, changed in files:
            path.write_bytes(whole[:4] + b"\xff" * 800 + whole[804:] if is_damaged else whole)
            os.utime(path, ns=(changed, changed))
        if is_damaged:
            yield


def outcome(source, **more):
    """Return a data set, or what is said of why there is none."""
    try:
        return ask(source, **more)
    except InputError as error:
        return str(error)


def agree(source, folder, times=2, unread=(), **more):
    """Check that reading with a cold cache, and then a warm one, is reading without.

    With the cache some files are not even read; those of a whole folder not twice.
    """
    plain = outcome(source, **more)
    for number in range(times):
        is_warm = number and isinstance(source, Path)
        with unreadable(*(source.glob("*.parquet") if is_warm else unread)):
            found = outcome(source, cache=folder, **more)
        if isinstance(plain, str):
            assert found == plain
        else:
            same(found, plain)


# On the clock of UTC, whose queries are short: the clock itself is tested where it is read.
utc_grids = st.builds(
    Cells,
    resolution=st.sampled_from([4, 7]),
    timeslot=st.sampled_from(["1h", "1d", None]),
    timezone=st.just("UTC"),
    slot=st.sampled_from(["calendar", "pooled"]),
)


@pytest.mark.slow
@examples(12, phases=[Phase.explicit, Phase.generate])
@given(st.lists(records, min_size=1, max_size=3), utc_grids, rules)
@example(
    [[(1.0, "x", FIRST * 10**6, 52.1, 21.0)], [(0.0, "x", FIRST * 10**6, 52.1, 21.0)]],
    Cells(4, "1h", "UTC"),
    {"repeats": "drop", "min_users": 1, "bounds": (0, 90), "quantum": "0.5"},
)
def test_cached_sums_are_those_of_reading_at_once(files, grid, rule):
    """Any records in any files: facts, ids, sums, squares and refusals do not change."""
    chosen = ("hours", "dates", "box", "min_users", "top", "drop_values")
    arguments = {
        "user": "u",
        "value": "v",
        "cells": grid,
        "select": Select(
            accept_value_dependent_counts=True, **{k: rule[k] for k in chosen if k in rule}
        ),
        "max_bad_rows": 0.9,
    }
    arguments |= {k: v for k, v in rule.items() if k not in chosen}
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "days"
        source.mkdir()
        for number, rows in enumerate(files):
            pq.write_table(arrow(rows), source / f"{number}.parquet")
        agree(str(source), Path(name) / "cache", **arguments)


def write_csv(table, path):
    """Write rows as CSV, with lines that are none."""
    lines = [",".join(table.column_names)]
    lines += [",".join(str(v) for v in row.values()) for row in table.to_pylist()]
    lines[5:5] = ["a,b", ",,,,,,,,,,"]
    packed = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(packed) if path.suffix == ".gz" else packed)


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "repeats"), [(".csv", "drop"), (".csv.gz", "keep")])
def test_text_with_bad_lines_agrees(tmp_path, place, suffix, repeats):
    """Malformed lines are counted once per file, whatever the files are called."""
    source = tmp_path / "it's a [folder] of 100%"
    source.mkdir()
    for number in range(3):
        write_csv(day(number), source / f"day {number}'*{suffix}")
    plain = ask(source)
    assert plain.public.rules["unparsable"] > 0
    agree(source, place, repeats=repeats)
    agree(source, place, 1, repeats=repeats, max_bad_rows=0)


@pytest.mark.slow
def test_dates_agree_wherever_a_file_lies(days, place, made):
    """Files within, without and across the dates give what reading all with these dates gives."""
    spans = [
        ("2024-03-19", "2024-03-19"),
        ("2024-03-01", "2024-03-18"),
        ("2024-03-01", "2024-03-30"),
        ("2024-01-01", "2024-01-02"),
    ]
    for zone, some in (("UTC", spans), ("Asia/Kolkata", spans[:2])):
        for dates in some:
            select = Select(min_users=1, dates=dates, hours="1-20", box=(21.0, 52.1, 21.05, 52.3))
            agree(days, place, 1, select=select, cells=Cells(7, "1h", zone))
    # Three wholes for UTC; for Kolkata one that is outside, and three that dates cut.
    assert made() == (7, 7)


@pytest.mark.slow
def test_a_new_day_costs_a_day(days, place, made):
    """Only the file that came is read, and the second time none is."""
    agree(days, place)
    assert made() == (3, 3)
    unread = list(days.iterdir())
    pq.write_table(day(3), days / "day3.parquet")
    agree(days, place, unread=unread)
    assert made() == (1, 4)


@pytest.mark.slow
def test_files_that_meet_are_read_together(days, place, made):
    """A late record that meets another day makes one entry of both, and repeats stay exact."""
    ask(days, cache=place)
    assert made() == (3, 3)
    repeated = day(1).slice(0, 1)
    pq.write_table(pa.concat_tables([day(3), repeated]), days / "late.parquet")
    agree(days, place, unread=[days / "day0.parquet"])
    assert made() == (1, 2)
    agree(days, place, repeats="keep")
    assert made() == (4, 6)  # kept repeats need no other file


@pytest.mark.slow
def test_folders_that_are_columns_agree(tmp_path, place):
    """A column that is the name of a folder is there for each file, and tells files apart."""
    source = tmp_path / "days"
    for number in range(2):
        folder = source / f"part=p{number}"
        folder.mkdir(parents=True)
        pq.write_table(day(number), folder / "r.parquet")
    agree(source, place, cells=Labels("part"), lat=None, lon=None)


@pytest.mark.slow
def test_listed_files_of_other_columns_agree(tmp_path, place, made):
    """What a column is depends on all files, so files that differ are read together."""
    whole = day(1).set_column(0, "bus", [[float(i % 7) for i in range(60)]])
    pq.write_table(whole, tmp_path / "a.parquet")
    small = day(0).set_column(0, "bus", [list(range(60))]).append_column("more", [[1] * 60])
    pq.write_table(small, tmp_path / "b.parquet")
    write_csv(day(2), tmp_path / "c.csv")
    write_csv(day(3).append_column("more", [[1] * 60]), tmp_path / "d.csv")
    for names in (("a.parquet", "b.parquet"), ("c.csv", "d.csv")):
        agree([tmp_path / name for name in names], place)
    assert made() == (3, 3)  # of text the columns that are used are the same


@pytest.mark.slow
def test_a_file_that_is_listed_twice_agrees(days, place):
    """It counts twice, as without a cache."""
    twice = [days / "day0.parquet", days / "day1.parquet", days / "day0.parquet"]
    agree(twice, place, repeats="keep")
    agree(twice, place)


def test_the_folder_is_private_from_the_first_byte(days, place, monkeypatch):
    """The folder has mode 0700 and each file 0600, also while it is written, whatever the umask."""
    modes, rename = set(), Path.replace

    def look(*_):
        modes.update(path.stat().st_mode & 0o777 for path in place.glob("*"))

    def renaming(self, target):
        look()
        return rename(self, target)

    # Before each query, one of which writes a table, and before each file has its name.
    watch(monkeypatch, look)
    monkeypatch.setattr(Path, "replace", renaming)
    before = os.umask(0)
    try:
        ask(days, cache=place)
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}
    assert modes == {0o600}
    assert "PRIVATE" in (place / "README.txt").read_text()
    names = "".join(path.name for path in place.iterdir())
    assert "day" not in names


@pytest.mark.slow
def test_a_new_version_is_read_and_the_old_sums_go(days, place, made):
    """Another declared version reads the file again; nothing of the one before is left."""
    ask(days, cache=place)
    assert made() == (3, 3)
    pq.write_table(day(1, seed=5, rows=90), days / "day1.parquet")
    versions = {"day1.*": "2", "*.parquet": "1"}
    old = {path.name for path in place.glob("*.pairs")}
    with unreadable(days / "day0.parquet", days / "day2.parquet"):
        found = ask(days, cache=place, version=versions)
    assert made() == (1, 3)
    assert sums_of(found) == sums_of(ask(days))
    assert found.public.identity["version"] == "day1.*=2; *.parquet=1"
    now = {path.name for path in place.glob("*.pairs")}
    assert len(old & now) == 2
    assert len(now) == 3


def test_the_version_that_is_stated_is_that_of_the_files_used(days, place):
    """A day's identity does not change because another day was mended."""
    select = Select(min_users=1, dates=("2024-03-18", "2024-03-18"))
    versions = {"day1.*": "2", "*.parquet": "1"}
    found = ask(days, cache=place, version=versions, select=select)
    assert found.public.identity["version"] == "*.parquet=1"


@pytest.mark.slow
def test_a_file_that_grew_under_its_version_is_refused(days, place):
    """Another size under one version is told, and nothing stale is used."""
    ask(days, cache=place)
    pq.write_table(day(1, rows=90), days / "day1.parquet")
    for more in ({}, {"repeats": "keep"}):
        with pytest.raises(InputError, match=r"'day1.parquet' has another size .* new version\.$"):
            ask(days, cache=place, **more)
    same(ask(days, cache=place, version="2"), ask(days, version="2"))


@pytest.mark.slow
def test_a_file_that_was_touched_is_read_again(days, place, made):
    """A time of change that differs is no reason to trust the entry, nor to refuse the file."""
    ask(days, cache=place)
    assert made() == (3, 3)
    os.utime(days / "day1.parquet", (1, 1))
    agree(days, place, unread=[days / "day0.parquet", days / "day2.parquet"])
    assert made() == (1, 3)
    assert len(list(place.glob("*.pairs"))) == 3


def test_a_file_changed_in_place_is_believed(tmp_path, place):
    """Another content under the same version, size and time is not noticed."""
    path = tmp_path / "day0.csv"
    write_csv(day(0), path)
    then = path.stat()
    before = ask(path, cache=place)
    path.write_bytes(path.read_bytes().replace(b"canary1", b"canary2"))
    os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))
    same(ask(path, cache=place), before)
    assert ask(path).occupancy.n_users < before.occupancy.n_users


def test_a_file_that_changes_while_it_is_read_is_refused(days, place, monkeypatch):
    """What is read of a file that is being written is not kept."""
    watch(monkeypatch, lambda _: [os.utime(path) for path in days.iterdir()])
    with pytest.raises(InputError, match="changed while it was read"):
        ask(days, cache=place)
    assert not list(place.glob("*.entry"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "other",
    [
        {"bounds": (4321, 4350)},
        {"quantum": "0.5"},
        {"cells": Cells(6, "1h", "UTC")},
        {"cells": Cells(7, "2h", "UTC")},
        {"cells": Cells(7, "1h", "Asia/Kolkata")},
        {"privacy_unit": "user-day"},
        {"repeats": "keep"},
        {"user": "ward"},
        {"select": Select(min_users=1, hours="7")},
        {"format": RecordFormat(decimal=",")},
        {"select": Select(min_users=1, box=(21.0, 52.1, 21.05, 52.3))},
        {"select": Select(min_users=1, drop_values=(4330,), accept_value_dependent_counts=True)},
    ],
    ids=str,
)
def test_another_question_has_entries_of_its_own(days, place, other, made):
    """Whatever shapes the sums makes other entries; those of both questions stay."""
    ask(days, cache=place)
    same(ask(days, cache=place, **other), ask(days, **other))
    assert made() == (6, 6)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".pairs", ".entry"])
@pytest.mark.parametrize("how", ["cut", "flipped", "gone", "open", "folder", "json"])
def test_a_damaged_entry_is_made_anew(days, place, made, ending, how):
    """Whatever happened to a file of the cache, sums are right and the entry is whole again."""
    plain = ask(days, cache=place)
    made()
    (hurt,) = sorted(place.glob(f"*{ending}"))[:1]
    content = bytearray(hurt.read_bytes())
    content[len(content) // 2] ^= 1
    if how == "open":
        hurt.chmod(0o644)
    else:
        hurt.unlink()
    if how == "folder":
        hurt.mkdir()
        hurt = hurt / "inside"
    changed = {"cut": content[: len(content) // 2], "flipped": content, "json": b"[]"}
    if how in changed:
        hurt.write_bytes(changed[how])
        hurt.chmod(0o600)
    if how == "folder":
        with pytest.raises(StorageError, match="the cache folder cannot be written"):
            ask(days, cache=place)
        return
    for new in (1, 0):
        same(ask(days, cache=place), plain)
        assert made() == (new, 3)
    assert len(list(place.glob("*.pairs"))) == 3


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 1])
def test_a_crash_before_a_rename_leaves_nothing_that_is_used(days, place, made, monkeypatch, at):
    """Stopped before the table or the head has its name, the next run reads and sweeps."""
    replace, calls = Path.replace, []

    def stopping(self, target):
        if target.name.endswith((".pairs", ".entry")):
            calls.append(target)
            if len(calls) > at:
                raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stopping)
        patch.setattr(Path, "unlink", lambda *_, **__: None)  # as if killed: nothing is tidied
        with pytest.raises(KeyboardInterrupt):
            ask(days, cache=place)
    assert made() == (0, 0)
    agree(days, place)
    assert made() == (3, 3)
    assert len(list(place.glob("*.pairs"))) == 3
    assert not list(place.glob(".*"))


@pytest.mark.slow
def test_a_full_disk_is_told_and_nothing_is_kept(days, place, monkeypatch):
    """The sentence names no path; the error of the engine passes as it is."""

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        ask(days)
        place.mkdir(mode=0o700)
        (place / "README.txt").write_text("there")
        with pytest.raises(StorageError, match=r"cannot be written \(No space left on device\)"):
            ask(days, cache=place)
    assert [path.name for path in place.iterdir()] == ["README.txt"]

    def fails():
        raise duckdb.IOException("No space left on device")

    watch(monkeypatch, once(fails, "FORMAT parquet"))
    with pytest.raises(StorageError, match="temporary files"):
        ask(days, cache=place)


def test_an_entry_that_goes_while_it_is_added_up_is_told(days, place, monkeypatch):
    """Another process that clears the folder meanwhile makes no wrong sums."""

    def clear():
        for path in place.glob("*.pairs"):
            path.unlink()

    watch(monkeypatch, once(clear, "read_parquet(['" + str(place)))
    with pytest.raises(StorageError, match="changed by somebody else"):
        ask(days, cache=place)


def _fill_at_once(source, folder, barrier):
    """Read a source with a cache, in a process of its own."""
    barrier.wait()
    dataset = ask(source, cache=folder)
    os._exit(0 if int(dataset.occupancy.n.sum()) > 0 else 1)


@pytest.mark.slow
def test_two_processes_fill_one_cache(days, place, made):
    """Both succeed, and what they leave is whole and there once."""
    plain = ask(days)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    work = [context.Process(target=_fill_at_once, args=(days, place, barrier)) for _ in range(2)]
    for one in work:
        one.start()
    for one in work:
        one.join()
    assert [one.exitcode for one in work] == [0, 0]
    made()
    same(ask(days, cache=place), plain)
    assert made() == (0, 3)
    assert len(list(place.glob("*.pairs"))) == 3


REFUSED = {
    "no version": ({"version": None}, "cache needs a version"),
    "empty version": ({"version": " "}, "version must be text"),
    "no file named": ({"version": {"x.parquet": "1"}}, "none is declared for the file 'day0"),
    "no version at all": ({"version": {}}, "version must be text"),
    "a version that is none": ({"version": {"*": 1}}, "version must be text"),
    "a name that is none": ({"version": {"": "1"}}, "texts by the names of files"),
    "no folder": ({"cache": 3}, "cache must be the name of a folder, got int"),
    "a table in memory": ({"source": day(0)}, "cache is for files"),
    "versions alone": ({"cache": None, "version": {"*": "1"}}, "version by files is for a cache"),
}


@pytest.mark.parametrize(("more", "said"), REFUSED.values(), ids=REFUSED)
def test_arguments_that_do_not_fit_are_refused(days, place, more, said):
    """One sentence, and no folder is made."""
    with pytest.raises(InputError, match=said) as error:
        ask(**({"source": days, "cache": place} | more))
    assert str(error.value).count(". ") == 0
    assert not place.exists()
