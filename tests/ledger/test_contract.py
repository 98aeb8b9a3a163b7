"""What every ledger does, whatever database its book is in."""

from dataclasses import astuple
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from ledger.books import draw, losses, publish, set_clock, spend, tables

HALF, PART = Fraction(1, 2), Fraction(1, 10**12)


def sound(book):
    """Whether the whole book hangs together."""
    return book.verify().problems == ()


def test_a_booking_is_there_for_another_ledger_when_reserve_returns(place):
    """A second ledger of the same book sees the booking, with its exact cost and public facts."""
    booking = spend(place.open(), "r", {"a": HALF, "b": "0.25"})
    other = place.open()
    assert (booking.state, booking.cost, booking.published) == ("reserved", HALF, None)
    assert other.find("r") == booking
    assert other.entries() == (booking,)
    assert other.find("q") is None
    assert (other.spent, other.remaining, other.budget) == (HALF, HALF, 1)
    assert dict(booking.facts) == {"name": "r"}
    assert sound(other)


def test_exactly_the_budget_may_be_spent_and_nothing_more(place):
    """What fits exactly is booked; the smallest loss there is above it is refused."""
    book = place.open()
    spend(book, "a", {"x": 1 - PART})
    spend(book, "b", {"x": PART})
    before = tables(book)
    with pytest.raises(hv.BudgetError) as refusal:
        spend(book, "c", {"x": PART})
    assert (refusal.value.requested, refusal.value.remaining) == (PART, 0)
    assert refusal.value.exit_code == 3
    assert tables(book) == before
    assert [entry.request for entry in book.entries()] == ["a", "b"]
    assert astuple(book.spend()) == (1, "lifetime", "", 1, 1, 1, 1, 0, 0)


def test_a_refusal_says_requested_spent_and_left(place):
    """The message has the cost, the most spent, and what every unit has left."""
    book = place.open(budget="0.7")
    spend(book, "r", {"a": "0.7", "b": "0.5", "d": "0.6999999"})
    for units, words, left in (
        ({"a": "0.5", "b": "0.5", "c": "0.1"}, ("2 of 3 units", "0.7. Some have nothing left"), 0),
        ({"b": "0.5", "c": "0.1"}, ("1 of 2 units", "0.5. Plan with at most 0.2,"), Fraction(1, 5)),
        ({"d": "0.5"}, ("1 of 1 units", "nothing left, or almost"), Fraction(1, 10**7)),
    ):
        with pytest.raises(hv.BudgetError) as refusal:
            spend(book, "s", units)
        for part in ("costs epsilon 0.5,", "0.7 of 'buses'", *words):
            assert part in str(refusal.value)
        assert (refusal.value.requested, refusal.value.remaining) == (HALF, left)


def test_a_refusal_has_numbers_as_people_write_them(place):
    """Roundings of the ledger are not shown; a release of what it says is left is accepted."""
    book = place.open(budget=4)
    for request in "abc":
        spend(book, request, {"u": "0.333333333334"})
    with pytest.raises(hv.BudgetError, match=r"spent up to 1\. Plan with at most 2\.99,"):
        spend(book, "d", {"u": "3.5"})
    assert spend(book, "d", {"u": "2.99"}) is not None


def test_the_same_request_again_costs_nothing(place):
    """A known request is answered with its numbers, also when nothing is left."""
    book = place.open()
    assert publish(book, "r", {"a": 1}, (3, -4)) == {"cells": (3, -4)}
    before = tables(book, ("hexveil_events",))
    again = publish(place.open(), "r", {"a": 1}, (9, 9))
    assert again == spend(book, "r", {"a": 1}).published == {"cells": (3, -4)}
    assert tables(book, ("hexveil_events",)) == before
    assert book.spent == 1


def test_a_receipt_names_the_event_that_completed_the_results(place):
    """Not the commit: account, data set, unit, reservation, mark and measurement come before."""
    book = place.open()
    spend(book, "r", {"a": HALF})
    draw(book, "r")
    book.complete("r")
    booking = book.find("r")
    book.commit("r")
    assert book.find("r").entry == booking.entry == 7
    assert book.find("r").chain == booking.chain


def test_a_stage_has_one_result(place):
    """A stage that began is begun by nobody else, and its result is stored once, by its entry."""
    first, second = place.open(), place.open()
    spend(first, "r", {"a": HALF})
    entry = first.begin_draw("r", "cells", 1)
    with pytest.raises(hv.InputError, match="is marked: it cannot be marked now"):
        second.begin_draw("r", "cells", 1)
    with pytest.raises(hv.StorageError, match="another process went on"):
        second.store("r", entry + 1, np.array([2]))
    first.store("r", entry, np.array([1]))
    with pytest.raises(hv.StorageError, match="another process went on"):
        second.store("r", entry, np.array([2]))
    with pytest.raises(hv.InputError, match="was drawn before"):
        second.begin_draw("r", "cells", 1)
    announced = first.begin_draw("r", "more", 2)
    with pytest.raises(hv.StorageError, match="another size than was announced"):
        first.store("r", announced, np.array([1]))
    first.store("r", announced, np.array([1, 2]))
    first.complete("r")
    assert second.find("r").published == {"cells": (1,), "more": (1, 2)}
    assert first.spent == HALF
    assert sound(first)


def sizes_of_rows(book):
    """Return how many bytes each row of the journal has."""
    return {row[0]: len(row[1]) for row in tables(book, ("hexveil_journal",))["hexveil_journal"]}


def test_results_take_the_same_room_whatever_they_are(place):
    """Before and after it is stored a row has 8 bytes a number, and nothing else grows with it."""
    sizes = []
    for name, number in (("r", 0), ("s", 2**63 - 1), ("t", -(2**63))):
        book = place.open()
        spend(book, name, {"a": Fraction(1, 10)})
        entry = book.begin_draw(name, "cells", 3)
        before = sizes_of_rows(book)
        book.store(name, entry, np.full(3, number))
        assert sizes_of_rows(book) == before
        body = tables(book, ("hexveil_events",))["hexveil_events"][-1][6]
        sizes.append((before[entry], len(body) - len(str(entry))))
    assert len(set(sizes)) == 1
    assert sizes[0][0] == 24


def test_the_plan_first_booked_is_kept(place):
    """Its bytes come back, also where no value holds them all; another plan is refused."""
    book = place.open()
    long = bytes(2**25) + b"the end"
    given = {"privacy_unit": "user", "facts": {}}
    assert book.plan_of("r") is None
    book.reserve("r", losses(book, {"a": HALF}), plan=long, **given)
    assert place.open().plan_of("r") == long
    with pytest.raises(hv.InputError, match="booked with another plan"):
        book.reserve("r", losses(book, {"a": HALF}), plan=b"other", **given)
    book.cancel("r")
    assert book.plan_of("r") is None
    book.reserve("r", losses(book, {"a": HALF}), plan=b"other", **given)
    assert book.plan_of("r") == b"other"
    assert sound(book)


def test_a_window_refills_and_the_lifetime_goes_on(place):
    """With a new month the budget is whole again; both numbers are told."""
    book = place.open(window="month")
    set_clock(book, "2100-11-30T23:59:59Z")
    spend(book, "r", {"a": 1})
    with pytest.raises(hv.BudgetError, match="this month"):
        spend(book, "s", {"a": HALF})
    set_clock(book, "2100-12-01T00:00:00Z")
    assert astuple(book.spend()) == (1, "month", "2100-12", 0, 1, 0, 0, 1, 0)
    spend(book, "s", {"a": HALF})
    assert (book.spent, book.remaining, book.spend().lifetime) == (HALF, HALF, Fraction(3, 2))
    assert sound(book)


def test_the_window_is_that_of_the_machines_clock(place):
    """In UTC: events and windows have its time, where no event of the ledger is later."""
    before = datetime.now(UTC).isoformat()
    book = place.open(window="day")
    spend(book, "r", {"a": 1})
    after = datetime.now(UTC).isoformat()
    assert before[:10] <= book.spend().label <= after[:10]
    for event in tables(book, ("hexveil_events",))["hexveil_events"]:
        assert before[:19] <= event[5].removesuffix("Z") <= after[:19]


def test_a_clock_set_back_refills_nothing(place):
    """Time in the ledger never goes back: the window of the last event stays open."""
    book = place.open(window="day")
    # From here on the machine's clock is far behind the ledger's.
    set_clock(book, "2100-11-20T12:00:00Z")
    spend(book, "r", {"a": 1})
    assert book.spend().label == "2100-11-20"
    with pytest.raises(hv.BudgetError):
        spend(book, "s", {"a": PART})
    set_clock(book, "2100-11-21T00:00:00Z")
    spend(book, "s", {"a": 1})
    with pytest.raises(hv.BudgetError):
        spend(book, "t", {"a": PART})
    assert book.spend().lifetime == 2
    assert sound(book)


def test_the_owner_of_a_user_day_loses_the_sum_over_days(place):
    """Each day has a budget of its own; the owner's lifetime is the sum of the days' largest."""
    book = place.open()
    monday, tuesday = ["2026-11-16"] * 2, ["2026-11-17"] * 2
    spend(book, "r", {"a": 1, "b": HALF}, privacy_unit="user-day", periods=monday)
    spend(book, "s", {"a": HALF, "b": "0.75"}, privacy_unit="user-day", periods=tuesday)
    assert (book.spent, book.spend().lifetime) == (1, Fraction(7, 4))
    assert book.spend().units == 4
    with pytest.raises(hv.BudgetError, match="1 of 2"):
        spend(book, "t", {"a": PART, "b": PART}, privacy_unit="user-day", periods=monday)
    assert sound(book)


def test_the_unit_of_privacy_is_pinned(place):
    """Losses of users and of user-days do not add up, so one account holds one unit."""
    book = place.open()
    assert book.account.unit == ""
    spend(book, "r", {"a": HALF})
    with pytest.raises(hv.InputError, match="protect a user, this one a user-day"):
        spend(book, "s", {"a": HALF}, privacy_unit="user-day", periods=["2026-11-16"])
    assert book.account.unit == "user"
    assert len(book.entries()) == 1


def test_another_key_is_refused(place, tmp_path):
    """Under another key every unit would look new; both fingerprints are said, no secret."""
    place.open()
    other = tmp_path / "other.key"
    other.write_text("ab" * 32)
    other.chmod(0o600)
    place.key = str(other)
    with pytest.raises(hv.InputError, match="opened with another key") as refusal:
        place.open()
    assert "abab" not in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": 2}, "budget of 'buses' is 1, and not 2; hexveil ledger set-budget"),
        ({"window": "month"}, "is for a lifetime, and not for a month"),
        ({"account": "fleet"}, "spends from the account 'buses' of this ledger, and not"),
        ({"window": "year"}, "window must be one of lifetime, month, day"),
        ({"budget": 0}, "budget must be positive"),
        ({"account": " "}, "account must be a name"),
        ({"dataset": ""}, "dataset must be a name"),
    ],
)
def test_what_the_book_pins_is_not_changed_by_opening_it(place, options, said):
    """Another budget, window or account than the ledger's is refused with a sentence."""
    book = place.open()
    before = tables(book, ("hexveil_events",))
    with pytest.raises(hv.InputError, match=said):
        place.open(**options)
    assert tables(book, ("hexveil_events",)) == before
    assert place.open(budget=None).budget == 1


def test_a_repr_shows_names_alone(place):
    """Neither address, key nor spend is in the repr of a ledger."""
    book = place.open()
    assert repr(book) == "Ledger(dataset='buses', account='buses')"
    assert "secret" not in repr(spend(book, "r", {"secret": 1}))


def test_absurd_budgets_do_not_wrap_around(place):
    """Budgets beyond 64 bits of parts count, are given back and changed like any other."""
    book = place.open(budget="1e12")
    spend(book, "r", {"a": 4_000_000})
    with pytest.raises(hv.BudgetError):
        spend(book, "s", {"a": 4_000_000})
    book.cancel("r")
    book.set_budget("1e20")
    spend(book, "s", {"a": 4_000_000})
    assert book.spent == 4_000_000
    assert sound(book)


def test_a_lifetime_beyond_64_bits_is_refused(place):
    """What cannot be counted is not booked."""
    book = place.open(budget="1e12", window="day")
    set_clock(book, "2100-11-20T00:00:00Z")
    spend(book, "r", {"a": 4_000_000})
    set_clock(book, "2100-11-21T00:00:00Z")
    with pytest.raises(hv.InputError, match="more than a ledger counts"):
        spend(book, "s", {"a": 4_000_000})
    assert sound(book)
