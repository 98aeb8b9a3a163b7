"""Packs of cached days: the sums of reading all, whatever became of a pack; few tables are read."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil.base.errors import StorageError
from hexveil.model.cells import Labels
from hexveil.records.duckdb.packing import cached_sums, merged_entries, packed_records
from hexveil.records.select import Select
from hexveil.records.sources import cache as cached_files
from hexveil.records.sources import merged_packs
from hexveil.records.sources.merged_packs import MergedPack, closest_packs
from hexveil.records.sources.sealed_files import seal
from records.test_cache import CANARY, agree, ask, day, fill, same, scans, sums_of  # noqa: F401  a fixture

DAYS = 5


@pytest.fixture(autouse=True)
def pairs_of_tables(monkeypatch):
    """Make a pack of two tables: eight would take more days."""
    monkeypatch.setattr(merged_packs, "FAN_OUT", 2)


@pytest.fixture
def days(tmp_path):
    """Return a folder of five days."""
    return fill(tmp_path / "days", DAYS)


@pytest.fixture
def place(tmp_path):
    """Return a folder for the cache, which is not there yet."""
    return tmp_path / "cache"


@pytest.fixture
def read_tables(monkeypatch):
    """Return the list that gets of each sum: tables added, the pack, tables taken away."""
    seen, merge = [], cached_sums.merge_entries

    def counting(tables, *given, pack, subtracted):
        seen.append((len(tables), pack is not None, len(subtracted)))
        return merge(tables, *given, pack=pack, subtracted=subtracted)

    monkeypatch.setattr(cached_sums, "merge_entries", counting)
    return seen


@pytest.mark.slow
def test_day_by_day_the_sums_are_those_of_reading_all(tmp_path, place, scans, read_tables):  # noqa: F811
    """Each day is read once; all but two of the tables are read as one."""
    source = fill(tmp_path / "days", 1)
    for number in range(1, 7):
        pq.write_table(day(number), source / f"day{number}.parquet")
        agree(source, place, 1)
        assert read_tables[-1] == (1 + number % 2, number > 1, 0)
    assert len(scans) == 7
    dates = ("2024-03-19", "2024-03-21")
    agree(source, place, select=Select(min_users=1, dates=dates))
    assert len(list(place.glob("*.pack"))) == len(list(place.glob("*.packed"))) == 2
    if hasattr(os, "geteuid"):
        assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o600}
    heads = "".join(path.read_text() for path in place.glob("*.pack"))
    assert CANARY not in heads
    assert "day" not in heads


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [{}, {"privacy_unit": "user-day", "statistics": ("mean", "histogram")}]
)
def test_any_days_in_any_order_are_as_if_read_anew(tmp_path, monkeypatch, read_tables, more):
    """Days come, go and are replaced; what a pack sums beyond what is asked is taken away."""
    monkeypatch.setattr(merged_packs, "FAN_OUT", 3)
    # Packed pairs are written in order, so that digests, which decide ties, are always the same.
    monkeypatch.setattr(packed_records, "MIN_RECORDS", 1)
    rng, taken = np.random.default_rng(24), 0
    source, place = fill(tmp_path / "days", 7), tmp_path / "cache"
    files, versions = sorted(source.iterdir()), dict.fromkeys(range(7), 1)
    chosen = list(range(6))
    for turn in range(8):
        asked = [files[number] for number in rng.permutation(chosen)]
        version = {files[number].name: str(versions[number]) for number in chosen}
        found = ask(asked, cache=place, **more, version=version)
        plain = ask(asked, **more, version=None)
        assert sums_of(found) == sums_of(plain)
        if "statistics" in more:
            bins, counted = found.sums.bins, plain.sums.bins
            for name in ("pair", "bin", "count"):
                assert getattr(bins, name).tolist() == getattr(counted, name).tolist()
        assert found.units.ids() == plain.units.ids()
        assert found.public.cells.names() == plain.public.cells.names()
        taken += read_tables[-1][2]
        number = int(rng.integers(7))
        if turn % 4 == 3:
            versions[number] += 1
            pq.write_table(day(number, seed=turn), files[number])
        # Five days or more, one of which comes or goes.
        goes = number in chosen and len(chosen) > 5
        chosen = sorted({*chosen} - {number} if goes else {*chosen, number})
    assert taken > 1


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "how"), [(".packed", "flipped"), (".pack", "flipped"),
                                             (".packed", "gone"), (".packed", "open")])  # fmt: skip
def test_a_damaged_pack_is_made_anew(days, place, scans, ending, how):  # noqa: F811
    """Sums stay right, from the entries; no record is read again."""
    plain = ask(days, cache=place)
    scans.clear()
    (hurt,) = place.glob(f"*{ending}")
    content = bytearray(hurt.read_bytes())
    content[len(content) // 2] ^= 1
    if how == "gone":
        hurt.unlink()
    elif how == "open":
        hurt.chmod(0o644)
    else:
        hurt.write_bytes(content)
    same(ask(days, cache=place), plain)
    assert scans == []
    pq.write_table(day(DAYS), days / "more.parquet")
    agree(days, place, 1)  # what is of no use any more is swept with the next entry
    assert len(list(place.glob("*.pack"))) == len(list(place.glob("*.packed")))


@pytest.mark.slow
def test_a_pack_stands_for_its_entries_alone(days, place, scans):  # noqa: F811
    """A table that a whole pack sums is not looked at; without its head it is read again."""
    plain = ask(days, cache=place)
    packed = {
        one
        for pack in place.glob("*.pack")
        for one in json.loads(pack.read_text())["head"]["members"]
    }
    by_digest = {}
    for path in place.glob("*.entry"):
        head = json.loads(path.read_text())["head"]
        by_digest[head["digest"]] = (path, place / head["table"])
    (head, table), *_ = [by_digest[digest] for digest in sorted(packed)]
    table.write_bytes(b"")
    scans.clear()
    same(ask(days, cache=place), plain)
    assert scans == []
    head.unlink()
    same(ask(days, cache=place), plain)
    assert len(scans) == 1


@pytest.mark.slow
def test_a_new_version_of_a_day_ends_its_packs(days, place):
    """Members are named by their digests: another content of a day is another member."""
    ask(days, cache=place)
    pq.write_table(day(0, seed=1), days / "day0.parquet")
    agree(days, place, version="2")
    heads = [json.loads(path.read_text())["head"] for path in place.glob("*.entry")]
    digests = {head["digest"] for head in heads}
    for path in place.glob("*.pack"):
        assert digests.issuperset(json.loads(path.read_text())["head"]["members"])


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 1])
def test_a_crash_or_a_full_disk_leaves_no_half_pack(days, place, monkeypatch, at):
    """Stopped before the table or the head has its name, and where no pack can be written."""
    plain, replace, calls = ask(days), Path.replace, []

    def stopping(self, target):
        if target.name.endswith((".pack", ".packed")):
            calls.append(target)
            if len(calls) > at:
                raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stopping)
        with pytest.raises(KeyboardInterrupt):
            ask(days, cache=place)
    assert not list(place.glob("*.pack"))

    def full(*_):
        raise StorageError("the disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(cached_files.CacheFolder, "put_pack", full)
        same(ask(days, cache=place), plain)
    same(ask(days, cache=place), plain)
    assert list(place.glob("*.pack"))


def test_the_closest_pack_is_chosen():
    """The one that saves most tables; tables that are equal are never packed."""
    packs = [MergedPack("q", tuple(members)) for members in ("ab", "cd", "bcefg")]
    assert closest_packs("abcefg", packs, set("abcdefg")) == [packs[2], packs[0]]
    assert closest_packs("bcef", packs, set("abcdefg")) == [packs[2]]
    # What it sums beyond is unknown, or too much to be taken away.
    assert closest_packs("bcef", packs, set("bcef")) == []
    assert closest_packs("bce", packs, set("abcdefg")) == []
    assert closest_packs("aabcd", packs, set("abcd")) == []
    assert packs[0].head != MergedPack("other", ("a", "b")).head


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 1])
def test_days_with_equal_tables_count_twice(tmp_path, place, left, monkeypatch):
    """A day that came may equal one in a pack, or one that is taken away from it."""
    # Packed pairs are written in order: grouped ones come in any.
    monkeypatch.setattr(packed_records, "MIN_RECORDS", 1)
    files = sorted(fill(tmp_path / "days", 6).iterdir())
    alike = day(0).set_column(4, "t", pa.array(day(0)["t"].to_numpy() + 90 * 86_400))
    twin = files[0].with_name("twin.parquet")
    more = {"cells": Labels("ward"), "repeats": "keep"}  # draws follow the time
    same(ask(files, cache=place, **more), ask(files, **more))
    pq.write_table(alike, twin)
    asked = [*files[left:], twin]
    found, plain = ask(asked, cache=place, **more), ask(asked, **more)
    assert sums_of(found) == sums_of(plain)
    entries = [json.loads(path.read_text())["head"]["digest"] for path in place.glob("*.entry")]
    assert len(set(entries)) == len(entries) - 1


@pytest.mark.slow
def test_a_pack_of_an_earlier_layout_is_made_anew(days, place):
    """Its head is whole and its table is not read."""
    plain = ask(days, cache=place)
    for path in place.glob("*.pack"):
        fields = json.loads(path.read_text())["head"]
        del fields["layout"]
        path.write_bytes(seal(fields))
    for path in place.glob("*.packed"):
        path.write_bytes(b"")
    same(ask(days, cache=place), plain)


@pytest.mark.slow
def test_pairs_that_memory_does_not_hold_are_read_without_the_pack(days, place, monkeypatch, scans):  # noqa: F811
    """The engine groups the tables of the entries; a damaged one that a pack stood for is read."""
    plain = ask(days, cache=place)
    table = max(place.glob("*.pairs"))
    table.write_bytes(b"")
    scans.clear()
    monkeypatch.setattr(merged_entries, "_BYTES_OF_PAIR", 1e12)
    same(ask(days, cache=place), plain)
    assert len(scans) == 1
