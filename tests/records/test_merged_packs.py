"""Packs of cached days: the sums of reading all, whatever became of a pack; few tables are read."""

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hexveil.base.errors import StorageError
from hexveil.records.duckdb.packing import pack_tree
from hexveil.records.select import Select
from hexveil.records.sources import cache as cached_files
from hexveil.records.sources import merged_packs
from hexveil.records.sources.merged_packs import MergedPack, covering, next_merge
from records.test_cache import CANARY, agree, ask, day, fill, same, scans  # noqa: F401  a fixture

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
    """Return the list that gets the tables of each sum."""
    seen, merge = [], pack_tree.PackTree.tables
    monkeypatch.setattr(
        pack_tree.PackTree, "tables", lambda *given: seen.append(merge(*given)) or seen[-1]
    )
    return seen


def test_day_by_day_the_sums_are_those_of_reading_all(tmp_path, place, scans, read_tables):  # noqa: F811
    """Each day is read once; as many tables are added up as the number of days has binary ones."""
    source = fill(tmp_path / "days", 1)
    for number in range(1, 7):
        pq.write_table(day(number), source / f"day{number}.parquet")
        agree(source, place, 1)
        assert len(read_tables[-1]) == (number + 1).bit_count()
    assert len(scans) == 7
    dates = ("2024-03-19", "2024-03-21")
    agree(source, place, select=Select(min_users=1, dates=dates))
    assert len(list(place.glob("*.pack"))) == len(list(place.glob("*.packed"))) > 1
    if hasattr(os, "geteuid"):
        assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o600}
    heads = "".join(path.read_text() for path in place.glob("*.pack"))
    assert CANARY not in heads
    assert "day" not in heads


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


def test_a_new_version_of_a_day_ends_its_packs(days, place):
    """Members are named by their digests: another content of a day is another member."""
    ask(days, cache=place)
    pq.write_table(day(0, seed=1), days / "day0.parquet")
    agree(days, place, version="2")
    heads = [json.loads(path.read_text())["head"] for path in place.glob("*.entry")]
    digests = {head["digest"] for head in heads}
    for path in place.glob("*.pack"):
        assert digests.issuperset(json.loads(path.read_text())["head"]["members"])


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


def test_packs_are_disjoint_and_of_the_entries_alone():
    """Larger ones first; tables that are equal are never packed; a query's head is its own."""
    packs = [MergedPack("q", members) for members in (("a", "b"), ("c", "d"), ("b", "c", "e"))]
    assert covering("abcde", packs) == [packs[2]]
    assert covering("abcd", packs) in ([packs[0], packs[1]], [packs[1], packs[0]])
    assert covering("aabcd", packs) == []
    assert next_merge([]) == next_merge([4, 2, 1]) == []
    assert next_merge([2, 1, 2, 1]) == [1, 3]
    assert packs[0].head != MergedPack("other", ("a", "b")).head
