"""What a book says to those who look into it, on every kind of database."""

from fractions import Fraction

import pytest

from ledger.books import draw, losses, publish, spend


def test_an_overview_is_every_account(place, tell):
    """Each account has its data sets and what is spent, as its own ledger says."""
    buses, trams = place.open("buses"), place.open("trams", account="buses")
    ferries = place.open("ferries", budget=3, window="month")
    publish(buses, "r1", {"a": "0.5", "b": "0.25"})
    publish(trams, "r2", {"a": "0.25"})
    _, found = tell("show", place.url)
    assert [(one["account"], one["datasets"]) for one in found["accounts"]] == [
        ("buses", ["buses", "trams"]),
        ("ferries", ["ferries"]),
    ]
    for one, book in zip(found["accounts"], (buses, ferries), strict=True):
        own = book.spend()
        told = [Fraction(one[name]) for name in ("budget", "spent", "left", "lifetime")]
        assert told == [own.budget, own.window, own.remaining, own.lifetime]
        assert (one["window"], one["in"]) == (own.kind, own.label or "lifetime")
        assert (one["units"], one["exhausted"]) == (own.units, own.exhausted)
    verdict = buses.verify()
    assert (found["entries"], found["chain"]) == (verdict.entries, verdict.head)
    (only,) = tell("show", place.url, "--dataset", "trams")[1]["accounts"]
    assert only["account"] == "buses"


def test_releases_are_counted_by_state(place, tell):
    """A request is counted once, in the state that it is in; one given back is not counted."""
    book = place.open(budget=9)
    for request in ("reserved", "marked", "measured", "stored", "abandoned", "again", "returned"):
        spend(book, request, {"a": "0.5"})
    for request in ("marked", "abandoned"):
        book.begin_draw(request, "cells", 1)
    for request in ("measured", "stored"):
        draw(book, request)
    for request in ("again", "returned"):
        book.cancel(request)
    book.abandon("abandoned")
    book.complete("stored")
    publish(book, "committed", {"a": "0.5"})
    spend(book, "again", {"a": "0.5"})
    (one,) = tell("show", place.url)[1]["accounts"]
    assert one["releases"] == {
        "reserved": 2, "marked": 1, "measured": 1, "stored": 1, "committed": 1, "abandoned": 1,
    }  # fmt: skip
    assert [(e["request"], e["kind"]) for e in tell("resolve", place.url)[1]] == [
        ("reserved", "reserved"), ("marked", "marked"), ("measured", "measured"),
        ("again", "reserved"),
    ]  # fmt: skip


def test_an_empty_file_is_no_book(tmp_path, tell):
    """As a file that is not there, and it stays empty: tests/cli/test_wrong_use.py."""
    (file := tmp_path / "empty.sqlite").touch()
    code, said = tell("show", file)
    assert (code, "there is no ledger" in said["error"]["message"]) == (2, True)
    assert not file.stat().st_size


def test_a_server_without_a_book_is_a_sentence(postgres, tell):
    """No table is made in a server's database by looking for one."""
    for _ in range(2):
        code, said = tell("show", f"{postgres}&password=canary")
        assert code == 2
        assert "there is no ledger postgresql://me@/" in said["error"]["message"]
        assert "canary" not in said["error"]["message"]


@pytest.mark.parametrize("limit", [100, 3])
def test_rows_of_events_have_nothing_of_single_units(plain, tell, limit):
    """Odd names come back; neither units, numbers nor losses of units are in them."""
    book = plain.open('a,"b"\n=c')
    publish(book, "r", {"bus 7": "0.5"}, numbers=(4, -5))
    _, rows = tell("history", plain.url, "--limit", limit)
    assert [row["entry"] for row in rows] == list(range(1, 9))[-limit:]
    assert rows[-1]["dataset"] == 'a,"b"\n=c'
    (unit,) = losses(book, {"bus 7": "0.5"}).hashes
    assert not any(one in str(rows) for one in (unit.hex(), str(unit), "bus 7", "-5"))
