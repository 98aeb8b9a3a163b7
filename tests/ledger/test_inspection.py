"""What a book says to those who look into it, on every kind of database."""

import json

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
    assert [(one.account.name, one.account.datasets) for one in found.accounts] == [
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


def test_rows_of_events_have_nothing_of_single_units(plain):
    """Odd names come back; neither units, numbers nor losses of units are in them."""
    book = plain.open('a,"b"\n=c')
    publish(book, "r", {"bus 7": "0.5"}, numbers=(4, -5))
    rows = [inspection.event_row(one) for one in inspection.history(book._engine)]
    assert rows[1]["dataset"] == 'a,"b"\n=c'
    (unit,) = losses(book, {"bus 7": "0.5"}).hashes
    text = json.dumps(rows)
    assert not any(one in text for one in (unit.hex(), "bus 7", "-5"))
