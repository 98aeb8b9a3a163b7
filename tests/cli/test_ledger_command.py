"""`hexveil ledger`: the ledger for those who hold it."""

import json
import stat
from fractions import Fraction

import pytest

import hexveil as hv
from ledger.books import execute, spend

INIT = ("ledger init ledger.sqlite --dataset buses --budget 2",)
REQUEST = "ab" * 32
RELEASE = ("release run.toml --set plan.clipping_range=bounds --set release.accept_noise=true",)


def stopped(*steps, request=REQUEST, dataset="buses"):
    """Leave a release that stopped after some steps; return the ledger."""
    book = hv.Ledger("ledger.sqlite", dataset=dataset, budget=2)
    spend(book, request, {"7": "0.5", "8": "0.25"})
    for step in steps:
        book.begin_draw(request, step, 1)
    return book


def told(okay, *arguments):
    """Call with --json and return what was said."""
    said = okay("ledger", arguments, "--json")
    return json.loads(said.out)


def test_a_book_is_opened_and_its_key_explained(here, call, okay):
    """The key is its owner's alone; where it is and what its loss means is said."""
    said = okay(INIT)
    assert "ledger.sqlite.key (fingerprint" in said.out
    assert "separate from backups" in said.out
    assert "you need a new ledger" in " ".join(said.out.split())
    key = here / "ledger.sqlite.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_text().strip() not in said.out
    assert call(INIT).code == 0
    assert len(told(call, "history", "ledger.sqlite")) == 2


def test_both_numbers_are_shown(here, call):
    """The spend in this window and in a lifetime stand beside the budget, each with its factor."""
    assert call(INIT).code == 0
    assert "0 (probability factor 1)" in call("ledger show ledger.sqlite").out
    stopped("cells")
    said = call("ledger show ledger.sqlite").out
    for line in (
        "Budget             epsilon 2 per user, lifetime",
        "Spent              0.5 (probability factor 1.65), by the most exposed unit",
        "Left               1.5 or more, for each unit",
        "Lifetime total     0.5 (probability factor 1.65), for an owner present",
        "Units              2 with a privacy loss, 0 exhausted",
        "Releases           1 unfinished (hexveil ledger resolve lists them)",
    ):
        assert line in said
    (one,) = told(call, "show", "ledger.sqlite")["accounts"]
    assert (one["spent"], one["left"]) == ("0.5", "1.5")
    assert (one["budget"], one["lifetime"], one["in"]) == ("2", one["spent"], "lifetime")


def test_a_raised_budget_is_a_weaker_promise(here, call, refuse, okay):
    """The new budget counts, both stand on record, and what it means is said."""
    assert call(INIT).code == 0
    said = okay("ledger set-budget ledger.sqlite 3.5 --dataset buses")
    assert "changed from 2 to 3.5, on record. Until now" in said.out
    assert "7.39," in said.out
    assert "33.2." in said.out
    assert hv.Ledger("ledger.sqlite", dataset="buses").budget == Fraction(7, 2)
    assert "epsilon 3.5" in call("ledger history ledger.sqlite").out.splitlines()[-1]
    refused = refuse(RELEASE)
    assert "set-budget changes it" in refused.err


def test_a_damaged_book_is_said_with_exit_2(here, call, refuse):
    """What does not hang together is named."""
    execute(stopped(), 'UPDATE hexveil_events SET body = \'{"budget":"9"}\' WHERE entry = 1')
    said = refuse("ledger verify ledger.sqlite")
    assert "The ledger is inconsistent" in said.out
    assert "Entry 1 is not what was written" in said.out
    assert call("ledger verify ledger.sqlite --json").code == 2


@pytest.mark.slow
def test_a_receipt_shows_an_older_copy(here, call, refuse):
    """A ledger put back hangs together by itself; a release's receipt says that it is older."""
    assert call(INIT).code == 0
    older = (here / "ledger.sqlite").read_bytes()
    assert call(RELEASE).code == 0
    check = ("ledger verify run.toml --receipt map",)
    assert call(check).code == 0
    (here / "ledger.sqlite").write_bytes(older)
    assert call("ledger verify run.toml").code == 0
    said = refuse(check)
    assert "map is entry 7, which the ledger does not have" in said.out
    assert call(RELEASE, "--out b --epsilon 0.9").code == 0
    assert "map is entry 7 with another hash" in call(check).out
    assert call(check, "--receipt b").out.count("is entry") == 1
    (here / "map" / "receipt.json").write_text("{}")
    said = refuse(check)
    assert "map has no readable receipt.json" in said.err


def test_a_reservation_is_given_back(here, call, refuse):
    """What was reserved and not marked costs nothing any more."""
    book = stopped()
    listed = call("ledger resolve ledger.sqlite")
    assert "reserved" in listed.out
    assert "run a release again to finish it" in listed.out
    assert [one["request"] for one in told(call, "resolve", "ledger.sqlite")] == [REQUEST]
    refused = refuse("ledger resolve ledger.sqlite --abandon abab")
    assert "is reserved: it cannot be abandoned" in refused.err
    said = told(call, "resolve", "ledger.sqlite", "--give-back abab")
    assert said == {"dataset": "buses", "request": REQUEST, "state": "returned"}
    assert book.spent == 0
    assert "No unfinished release" in call("ledger resolve ledger.sqlite").out


def test_a_marked_release_stays_spent(here, call, refuse, okay):
    """It cannot be given back; abandoned, its price stays."""
    book = stopped("cells")
    refused = refuse("ledger resolve ledger.sqlite --give-back abab")
    assert "is marked: it cannot be returned" in refused.err
    said = okay("ledger resolve ledger.sqlite --abandon abab")
    assert "its cost stays spent" in said.out
    assert float(book.spent) == pytest.approx(0.5)
    (one,) = told(call, "show", "ledger.sqlite")["accounts"]
    assert one["releases"] == {"abandoned": 1}
