"""What a book says to those who look into it, on every kind of database."""

import pytest

from hexveil.base.errors import InputError
from hexveil.ledger import inspection
from hexveil.ledger.storage.databases import connect_existing
from ledger.books import draw, publish, spend


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
    with pytest.raises(InputError, match="does not know 'cars'; it knows buses, ferries, trams"):
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


def test_what_waits_is_a_data_sets_own(place):
    """The same request of two data sets waits twice, and each can be asked for."""
    for name in ("buses", "trams"):
        spend(place.open(name), "r", {"a": "0.5"})
    book = place.open("buses")
    assert len(inspection.unresolved(book._engine)) == 2
    (one,) = inspection.unresolved(book._engine, "trams")
    assert one.dataset == "trams"
    with pytest.raises(InputError, match="does not know"):
        inspection.unresolved(book._engine, "cars")


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


def test_history_of_a_data_set_is_its_own_and_its_accounts(place):
    """What happened to the account belongs to it, what other data sets released does not."""
    buses, trams = place.open("buses"), place.open("trams", account="buses")
    place.open("ferries")
    spend(buses, "r", {"a": "0.5"})
    trams.set_budget(2)
    kinds = [one.kind for one in inspection.history(trams._engine, "trams")]
    assert kinds == ["opened", "joined", "unit", "budget"]


def test_nothing_is_made_by_looking(tmp_path):
    """A book that is not there is a sentence, and stays not there."""
    with pytest.raises(InputError, match=r"there is no ledger .*l\.sqlite; hexveil ledger init"):
        connect_existing(tmp_path / "l.sqlite")
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(InputError, match="there is no ledger"):
        connect_existing(tmp_path / "empty.sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["empty.sqlite"]


def test_a_server_without_a_book_is_a_sentence(postgres):
    """No table is made in a server's database by looking for one."""
    for _ in range(2):
        with pytest.raises(InputError, match="there is no ledger postgresql://me@/") as error:
            connect_existing(f"{postgres}&password=canary")
        assert "canary" not in str(error.value)
