"""What a book says to those who look into it, on every kind of database."""

import csv
import json

import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil.ledger import inspection
from hexveil.ledger.databases import connect_existing
from ledger.books import draw, losses, publish, spend


def test_an_overview_is_every_account(place):
    """Each account has its data sets and what is spent, as its own ledger says."""
    buses, trams = place.open("buses"), place.open("trams", account="buses")
    ferries = place.open("ferries", budget=3, window="month")
    publish(buses, "r1", {"a": "0.5", "b": "0.25"})
    publish(trams, "r2", {"a": "0.25"})
    found = inspection.overview(ferries._engine)
    assert [(one.account.name, one.datasets) for one in found.accounts] == [
        ("buses", ("buses", "trams")),
        ("ferries", ("ferries",)),
    ]
    assert [one.spend for one in found.accounts] == [buses.spend(), ferries.spend()]
    assert (found.head.entry, found.head.chain) == tuple(buses.verify().__dict__.values())[:2]
    (only,) = inspection.overview(buses._engine, "trams").accounts
    assert only.account.name == "buses"
    with pytest.raises(hv.InputError, match="does not know 'cars'; it knows buses, ferries, trams"):
        inspection.overview(buses._engine, "cars")


def test_releases_are_counted_by_state(place):
    """A request is counted once, in the state that it is in; one given back is not counted."""
    book = place.open(budget=9)
    steps = {
        "reserved": (), "marked": ("begin",), "abandoned": ("begin", "abandon"),
        "again": ("cancel",), "returned": ("cancel",),
    }  # fmt: skip
    for request, taken in steps.items():
        spend(book, request, {"a": "0.5"})
        for step in taken:
            if step == "begin":
                book.begin_draw(request, "cells", 1)
            else:
                getattr(book, step)(request)
    spend(book, "again", {"a": "0.5"})
    publish(book, "committed", {"a": "0.5"})
    spend(book, "stored", {"b": "0.5"})
    draw(book, "stored")
    book.complete("stored")
    (one,) = inspection.overview(book._engine).accounts
    assert one.releases == {
        "reserved": 2, "marked": 1, "stored": 1, "committed": 1, "abandoned": 1,
    }  # fmt: skip
    waiting = inspection.unresolved(book._engine)
    assert [(e.request, e.kind) for e in waiting] == [
        ("reserved", "reserved"), ("marked", "marked"), ("again", "reserved"),
    ]  # fmt: skip


def test_history_has_neither_units_nor_numbers(place):
    """Events come oldest first, the last few if limited, numbers only if asked for."""
    book = place.open()
    publish(book, "r", {"a": "0.5"}, numbers=(4, 5))
    found = inspection.history(book._engine)
    assert [one.entry for one in found] == list(range(1, 9))
    assert all(one.units is None for one in found)
    assert [one.kind for one in inspection.history(book._engine, limit=2)] == [
        "stored",
        "committed",
    ]
    ((entry, numbers),) = inspection.results(book._engine).items()
    assert numbers.tolist() == [4, 5]
    assert [one.kind for one in found if one.entry == entry] == ["measured"]


def test_nothing_is_made_by_looking(tmp_path):
    """A book that is not there is a sentence, and stays not there."""
    with pytest.raises(hv.InputError, match=r"there is no ledger .*l\.sqlite; hexveil ledger init"):
        connect_existing(tmp_path / "l.sqlite")
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(hv.InputError, match="there is no ledger"):
        connect_existing(tmp_path / "empty.sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["empty.sqlite"]


def test_a_server_without_a_book_is_a_sentence(postgres):
    """No table is made in a server's database by looking for one."""
    for _ in range(2):
        with pytest.raises(hv.InputError, match="there is no ledger postgresql://me@/") as error:
            connect_existing(f"{postgres}&password=canary")
        assert "canary" not in str(error.value)


# ---- Events as files: three formats, the same rows, nothing about single units ----


@pytest.fixture
def book(plain):
    """Return a book with one release."""
    made = plain.open('a,"b"\n=c')
    publish(made, "r", {"bus 7": "0.5"}, numbers=(4, -5))
    return made


def read(path):
    """Return the rows of a file with what is long as plain values."""
    if path.suffix == ".json":
        return json.loads(path.read_text())
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            rows = [one | {"entry": int(one["entry"])} for one in csv.DictReader(file)]
    else:
        rows = pq.read_table(path).to_pylist()
    return [
        {name: json.loads(text) if name in ("body", "numbers") and text else text or None
         if name == "numbers" else text for name, text in one.items()}
        for one in rows
    ]  # fmt: skip


@pytest.mark.parametrize("numbers", [False, True])
def test_every_format_has_the_same_rows(book, tmp_path, numbers):
    """What is read back is what the ledger says, odd names too, and nothing of single units."""
    found, results = inspection.history(book._engine), inspection.results(book._engine)
    given = results if numbers else None
    expected = [inspection.event_row(one, given) for one in found]
    assert ("numbers" in expected[0]) == numbers
    assert json.dumps(expected).count("-5") == numbers
    (unit,) = losses(book, {"bus 7": "0.5"}).hashes
    for name in ("e.json", "e.csv", "E.PARQUET"):
        inspection.export(tmp_path / name, found, results=given)
        raw = (tmp_path / name).read_bytes()
        assert not any(one in raw for one in (unit, unit.hex().encode(), b"bus 7"))
    assert read(tmp_path / "e.json") == expected
    assert read(tmp_path / "e.csv") == expected
    assert pq.read_table(tmp_path / "E.PARQUET").num_rows == len(expected)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_file_is_never_replaced(tmp_path):
    """What is there stays; another ending is refused; a folder that is not there is a sentence."""
    (tmp_path / "e.json").write_text("mine")
    with pytest.raises(hv.InputError, match="exists; name a new file"):
        inspection.export(tmp_path / "e.json", ())
    with pytest.raises(hv.InputError, match=r"one of \.json, \.csv, \.parquet"):
        inspection.export(tmp_path / "e.txt", ())
    with pytest.raises(hv.StorageError, match=r"cannot be written \(No such file"):
        inspection.export(tmp_path / "none" / "e.csv", ())
    assert [path.name for path in tmp_path.iterdir()] == ["e.json"]
