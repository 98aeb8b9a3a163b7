"""What is booked, refused and answered again; two writers, and crashes."""

import json
import multiprocessing
import sqlite3
import threading
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hexveil as hv
from hexveil.errors import BudgetError, InputError, StorageError
from hexveil.exact import exact

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


def ledger(folder, budget=1, dataset="buses"):
    """Open the ledger of a folder."""
    return hv.Ledger(folder / "ledger.sqlite", dataset=dataset, budget=budget)


def rows(folder, table="hexveil_bookings"):
    """Return the rows of a table, by another connection."""
    connection = sqlite3.connect(folder / "ledger.sqlite")
    try:
        return connection.execute(f"SELECT * FROM {table}").fetchall()
    finally:
        connection.close()


def test_a_booking_is_durable_when_book_returns(tmp_path):
    """Another connection sees the row as soon as the cost is booked, with its exact cost."""
    book = ledger(tmp_path)
    booking = book.book("r1", THIRD, unit="user", facts={"value": "speed"})
    assert (booking.cost, booking.published) == (THIRD, None)
    assert rows(tmp_path) == [(1, "buses", "r1", "user", "1/3", '{"value": "speed"}')]
    assert (book.spent, book.remaining) == (THIRD, Fraction(2, 3))


def test_exactly_the_budget_may_be_spent(tmp_path):
    """Three thirds fit a budget of one, and nothing more does; no tolerance, no float."""
    book = ledger(tmp_path)
    for name in "abc":
        book.book(name, THIRD, unit="user", facts={})
    assert book.remaining == 0
    with pytest.raises(BudgetError) as refusal:
        book.book("d", Fraction(1, 10**40), unit="user", facts={})
    assert refusal.value.remaining == 0
    assert refusal.value.requested == Fraction(1, 10**40)
    assert len(rows(tmp_path)) == 3


def test_no_tolerance_hides_a_small_excess(tmp_path):
    """A cost above what is left by less than any double could show is refused, and said so."""
    book = ledger(tmp_path)
    book.book("a", THIRD, unit="user", facts={})
    with pytest.raises(BudgetError, match=r"costs epsilon 0\.666666666667, .* 0\.666666666666 is"):
        book.book("b", 2 * THIRD + Fraction(1, 10**40), unit="user", facts={})
    book.book("b", 2 * THIRD, unit="user", facts={})
    assert book.remaining == 0


@pytest.mark.parametrize("tenth", [0.1, "0.1", Fraction(1, 10)])
def test_ten_tenths_are_one(tmp_path, tenth):
    """Ten releases of a tenth fit a budget of one exactly, although ten doubles 0.1 do not."""
    book = ledger(tmp_path, 1.0)
    for number in range(10):
        left = book.remaining
        assert left == 1 - Fraction(number, 10)
        book.book(str(number), exact(tenth, "cost"), unit="user", facts={})
    assert (book.spent, book.remaining) == (1, 0)
    with pytest.raises(BudgetError):
        book.book("more", exact(tenth, "cost"), unit="user", facts={})


def test_a_refusal_says_what_was_asked_and_what_is_left(tmp_path):
    """The message names cost (rounded up), what is left (rounded down), budget and data set."""
    book = ledger(tmp_path, "0.7")
    book.book("a", THIRD, unit="user", facts={})
    with pytest.raises(BudgetError) as refusal:
        book.book("b", Fraction(2, 3), unit="user", facts={})
    said = str(refusal.value)
    assert "costs epsilon 0.666666666667" in said
    assert "budget 0.7 of 'buses' only 0.366666666666 is left" in said
    assert "smaller epsilon" in said
    assert refusal.value.exit_code == 3


def test_a_booking_cannot_give_budget_back(tmp_path):
    """A cost below zero is refused; one of zero is booked like any other."""
    book = ledger(tmp_path)
    with pytest.raises(InputError, match="less than nothing"):
        book.book("a", -THIRD, unit="user", facts={})
    book.book("b", Fraction(0), unit="user", facts={})
    assert [entry.request for entry in book.entries()] == ["b"]


def test_the_same_request_again_costs_nothing(tmp_path):
    """A known request is answered with its numbers, also when nothing is left."""
    book = ledger(tmp_path)
    book.book("a", Fraction(1), unit="user", facts={})
    assert book.complete("a", {"mean": [3, -4]}) == {"mean": [3, -4]}
    again = ledger(tmp_path).book("a", Fraction(1), unit="user", facts={})
    assert again.published == {"mean": [3, -4]}
    assert book.spent == 1


def test_the_first_numbers_stored_win(tmp_path):
    """A second answer to the same request is forgotten, whoever brings it."""
    first, second = ledger(tmp_path), ledger(tmp_path)
    first.book("a", HALF, unit="user", facts={})
    second.book("a", HALF, unit="user", facts={})
    assert first.complete("a", {"mean": [1]}) == {"mean": [1]}
    assert second.complete("a", {"mean": [2]}) == {"mean": [1]}
    assert [json.loads(row[2]) for row in rows(tmp_path, "hexveil_numbers")] == [{"mean": [1]}]
    assert first.spent == HALF


def test_numbers_need_a_booking(tmp_path):
    """Numbers without a booked cost are not stored."""
    with pytest.raises(InputError, match="booked"):
        ledger(tmp_path).complete("a", {"mean": [1]})
    assert rows(tmp_path, "hexveil_numbers") == []


def test_large_numbers_come_back_as_they_are(tmp_path):
    """Whole numbers near the ends of 64 bits are stored exactly."""
    book = ledger(tmp_path)
    book.book("a", HALF, unit="user", facts={})
    numbers = {"mean": [2**63 - 1, -(2**63), 0]}
    book.complete("a", numbers)
    assert book.entries()[0].published == numbers


def test_data_sets_have_budgets_of_their_own(tmp_path):
    """One file may hold several data sets; their costs do not mix."""
    ledger(tmp_path).book("a", Fraction(1), unit="user", facts={})
    trams = ledger(tmp_path, dataset="trams")
    assert (trams.spent, trams.entries()) == (0, ())
    trams.book("a", HALF, unit="user-day", facts={})
    assert ledger(tmp_path).spent == 1


def test_units_of_privacy_do_not_mix(tmp_path):
    """Losses of users and of user-days do not add up, so one name holds one unit."""
    book = ledger(tmp_path)
    book.book("a", THIRD, unit="user", facts={})
    with pytest.raises(InputError, match="protect a user, this one a user-day"):
        book.book("b", THIRD, unit="user-day", facts={})
    assert len(rows(tmp_path)) == 1


def test_a_smaller_budget_in_a_later_run_leaves_nothing(tmp_path):
    """The budget is what is declared in this run; what is left is never below zero."""
    ledger(tmp_path, 2).book("a", Fraction(2), unit="user", facts={})
    later = ledger(tmp_path, 1)
    assert later.remaining == 0
    with pytest.raises(BudgetError):
        later.book("b", THIRD, unit="user", facts={})


def test_entries_hold_public_facts_in_order(tmp_path):
    """Entries say request, unit, cost and facts, oldest first."""
    book = ledger(tmp_path)
    for name in ("z", "a"):
        book.book(name, THIRD, unit="user", facts={"name": name})
    assert [entry.request for entry in book.entries()] == ["z", "a"]
    assert [dict(entry.facts) for entry in book.entries()] == [{"name": "z"}, {"name": "a"}]
    assert repr(book) == "Ledger(dataset='buses', budget=1)"


@pytest.mark.parametrize(
    ("dataset", "budget"), [("", 1), ("  ", 1), (None, 1), ("a", 0), ("a", "x")]
)
def test_names_and_budgets_are_checked(tmp_path, dataset, budget):
    """An empty name and a budget that is not positive are refused before a file is made."""
    with pytest.raises(InputError):
        ledger(tmp_path, budget, dataset)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("column", "text"), [("cost", "much"), ("cost", "-1/2"), ("facts", "{")])
def test_a_damaged_row_is_not_taken_for_free(tmp_path, column, text):
    """A row that cannot be read stops everything: what was spent is not known."""
    book = ledger(tmp_path)
    book.book("a", THIRD, unit="user", facts={})
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    connection.execute(f"UPDATE hexveil_bookings SET {column} = ?", (text,))
    connection.commit()
    connection.close()
    with pytest.raises(StorageError, match="row 1 of the ledger is damaged"):
        book.book("b", THIRD, unit="user", facts={})
    assert len(rows(tmp_path)) == 1


@settings(max_examples=30)  # each books in a file, synced to the disk
@given(st.lists(st.fractions(Fraction(1, 60), 1, max_denominator=60), max_size=8))
def test_the_budget_is_never_overspent(tmp_path_factory, costs):
    """Whatever is asked, what is booked adds up exactly and stays within the budget."""
    book = ledger(tmp_path_factory.mktemp("book"))
    booked = Fraction(0)
    for number, cost in enumerate(costs):
        if booked + cost <= 1:
            book.book(str(number), cost, unit="user", facts={})
            booked += cost
        else:
            with pytest.raises(BudgetError):
                book.book(str(number), cost, unit="user", facts={})
    assert book.spent == booked
    assert book.remaining == 1 - booked


def _spend(folder, name, start, outcome):
    book = ledger(folder)
    start.wait()
    done = 0
    for number in range(12):
        try:
            book.book(f"{name}-{number}", Fraction(1, 10), unit="user", facts={})
            done += 1
        except BudgetError:
            pass
    outcome.put(done)


def test_two_processes_cannot_overspend_one_budget(tmp_path):
    """Of 24 requests of a tenth from two processes exactly ten are booked."""
    context = multiprocessing.get_context("spawn")
    start, outcome = context.Event(), context.Queue()
    writers = [
        context.Process(target=_spend, args=(tmp_path, name, start, outcome)) for name in "ab"
    ]
    ledger(tmp_path)
    for writer in writers:
        writer.start()
    start.set()
    booked = [outcome.get(timeout=120) for _ in writers]
    for writer in writers:
        writer.join()
        writer.close()
    assert sum(booked) == 10
    assert len(rows(tmp_path)) == 10
    assert ledger(tmp_path).remaining == 0


def together(*tasks):
    """Start tasks at one moment, each in a thread of its own, and return what they returned."""
    gate, found = threading.Barrier(len(tasks)), {}

    def run(place, task):
        gate.wait()
        try:
            found[place] = task()
        except BudgetError as refusal:
            found[place] = refusal

    threads = [threading.Thread(target=run, args=each) for each in enumerate(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[place] for place in range(len(tasks))]


def test_of_two_at_the_same_moment_exactly_one_wins(tmp_path):
    """In each of many rounds, two connections ask for the whole budget and one gets it."""
    for number in range(25):
        pair = [ledger(tmp_path, dataset=f"round {number}") for _ in "ab"]
        tasks = [
            lambda book=book, name=name: book.book(name, Fraction(1), unit="user", facts={})
            for book, name in zip(pair, "ab", strict=True)
        ]
        outcome = together(*tasks)
        assert sum(isinstance(found, BudgetError) for found in outcome) == 1
        assert pair[0].spent == 1


def test_of_two_answers_at_the_same_moment_one_is_shown_by_both(tmp_path):
    """In each of many rounds, two connections store numbers and both show the same."""
    for number in range(25):
        pair = [ledger(tmp_path, dataset=f"round {number}") for _ in "ab"]
        pair[0].book("r", Fraction(1), unit="user", facts={})
        tasks = [
            lambda book=book, own=own: book.complete("r", {"mean": [own]})
            for own, book in enumerate(pair)
        ]
        one, other = together(*tasks)
        assert one == other == pair[0].entries()[0].published
        assert one["mean"] in ([0], [1])
