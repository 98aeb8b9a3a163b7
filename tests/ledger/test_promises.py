"""Accounts with a δ: squares of μ add up, and one account never holds both kinds of promise."""

import math
from fractions import Fraction

import pytest

import hexveil as hv
from hexveil.cli import main
from ledger.books import PICO, spend, tables

DELTA = Fraction(1, 10**6)


def square_of(epsilon, delta=DELTA):
    """Return the largest square of μ that has an ε at a δ, by bisection.

    The profile is that of Gaussian noise at ε less the term of the lattice, μ² / 512.
    """

    def tail(x):
        return math.erfc(x / math.sqrt(2)) / 2

    low, high, epsilon = 0.0, 50.0, float(epsilon)
    for _ in range(200):
        mu = (low + high) / 2
        rest = epsilon - mu**2 / 512
        profile = tail(rest / mu - mu / 2) - math.exp(rest) * tail(rest / mu + mu / 2)
        low, high = (mu, high) if profile < delta else (low, mu)
    return Fraction(low) ** 2


def book_of(tmp_path, **options):
    """Open the ledger of an account with a δ."""
    given = {"dataset": "cars", "budget": 1, "delta": "1e-6"} | options
    return hv.Ledger(tmp_path / "l.sqlite", **given)


def reserve(book, request, epsilon, delta=DELTA):
    """Book a release of one unit, at an ε and a δ; a plan buys a little less than it may."""
    cost = square_of(epsilon, delta) * (1 - Fraction(1, 10**8)) if delta else Fraction(epsilon)
    return spend(book, request, {"any": cost}, delta=delta)


def test_squares_add_up_and_are_shown_at_delta(tmp_path):
    """Two releases of ε 0.6 fit into 1, which two of 0.6 never would purely; a third does not."""
    book = book_of(tmp_path)
    assert reserve(book, "a", "0.6").cost == pytest.approx(Fraction("0.6"), rel=1e-6)
    assert book.spent == pytest.approx(Fraction("0.6"), rel=1e-6)
    rest = book.remaining
    assert Fraction("0.7") < rest < Fraction("0.9")
    reserve(book, "b", "0.6")
    assert Fraction("0.86") < book.spent < Fraction("0.9")
    with pytest.raises(hv.BudgetError, match=r"1 at delta 0\.000001") as caught:
        reserve(book, "c", "0.6")
    # What the error says is left can be booked, to the last digits.
    reserve(book, "d", caught.value.remaining)
    assert book.spent <= 1
    assert book.remaining < Fraction("0.02")
    assert book.verify().problems == ()


def test_promises_are_not_mixed(tmp_path):
    """Each refusal says what the account holds, and what to do; nothing is booked."""
    book = book_of(tmp_path)
    with pytest.raises(hv.InputError, match=r"delta 0.000001, .*has no delta; .*Plan with"):
        reserve(book, "pure", 1, Fraction(0))
    with pytest.raises(hv.InputError, match="Plan with the delta of the account"):
        reserve(book, "other", 1, Fraction(1, 10**9))
    pure = book_of(tmp_path, dataset="buses", delta=None)
    with pytest.raises(hv.InputError, match=r"opened with no delta.*another account"):
        reserve(pure, "a", "0.5")
    assert (book.spent, pure.spent) == (0, 0)
    for dataset, delta in (("cars", "1e-9"), ("buses", "1e-6")):
        with pytest.raises(hv.InputError, match="delta"):
            book_of(tmp_path, dataset=dataset, delta=delta)
    assert book_of(tmp_path, budget=None, delta=None).account.delta == DELTA


def test_a_changed_budget_keeps_its_delta(tmp_path, capsys, tell):
    """The promise is pinned, the budget is not; events show both."""
    book = book_of(tmp_path)
    reserve(book, "a", "0.5")
    book.set_budget(2)
    assert (book.account.budget, book.account.delta) == (2, DELTA)
    assert book.verify().problems == ()
    place = str(tmp_path / "l.sqlite")
    assert main(["ledger", "history", place]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "epsilon 1 at delta 0.000001" in lines[0]
    assert sum("epsilon 0.5 at delta 0.000001" in line for line in lines) == 1
    assert main(["ledger", "show", place]) == 0
    shown = capsys.readouterr().out
    assert "epsilon 2 at delta 0.000001" in shown
    assert "do not add up" in " ".join(shown.split())
    assert tell("show", place)[1]["accounts"][0]["delta"] == "0.000001"


@pytest.mark.parametrize("epsilon", ["0.001", "0.03", "0.5", "6.5"])
def test_conversions_of_an_account_are_on_the_safe_side(tmp_path, epsilon):
    """A loss shown is not below the one booked, and a rest shown can be booked."""
    book = book_of(tmp_path, budget=7)
    assert (book.spent, book.remaining < 7) == (0, True)
    reserve(book, "a", epsilon)
    (spent,) = {row[-1] for row in tables(book)["hexveil_balances"]}
    assert square_of(book.spent * Fraction("1.0001")) * PICO >= spent
    assert Fraction(epsilon) * Fraction("0.9999") <= book.spent
    assert square_of(book.remaining) * PICO <= square_of(7) * PICO - spent
    book.set_budget(Fraction(epsilon) / 2)
    assert book.remaining == 0


def test_the_largest_loss_that_is_counted_is_shown(tmp_path):
    """No double has the ε of an enormous sum of squares: it is shown all the same."""
    book = book_of(tmp_path, budget="1e12")
    spend(book, "a", {"any": Fraction(2**62, PICO)}, delta=DELTA)
    assert book.spent > 10**6


# ---- Names of accounts: a slip in a name opens no fresh budget, and a new account says that it


PURE = {"delta": None, "budget": 2}


@pytest.mark.parametrize("name", ["Buses", "BUSES", "\uff22uses", "bu\u017fes"])
def test_a_name_that_looks_like_another_is_refused_unless_it_is_confirmed(name, tmp_path):
    """It would open a fresh budget beside a spent one."""
    book_of(tmp_path, dataset="buses", **PURE)
    with pytest.raises(hv.InputError, match=r"knows 'buses'.*accept_similar_name = true"):
        book_of(tmp_path, dataset=name, **PURE)
    assert book_of(tmp_path, dataset=name, **PURE, accept_similar_name=True).opened
    assert not book_of(tmp_path, dataset=name, **PURE).opened
    assert book_of(tmp_path, dataset="trams", **PURE).opened


@pytest.mark.parametrize("name", [" buses", "buses ", "buses\n", "\u00a0buses"])
def test_a_name_has_no_spaces_at_its_ends(name, tmp_path):
    """Nobody sees them; of an account that is shared neither."""
    for arguments in ({"dataset": name}, {"dataset": "buses", "account": name}):
        with pytest.raises(hv.InputError, match="begins or ends with a space; name 'buses'"):
            book_of(tmp_path, **PURE | arguments)


def test_data_sets_of_one_account_may_have_similar_names(tmp_path):
    """No budget is opened for the second: it joins the first one's account by its name."""
    assert book_of(tmp_path, dataset="buses", **PURE, account="city").opened
    assert not book_of(tmp_path, dataset="Buses", **PURE, account="city").opened
    with pytest.raises(hv.InputError, match="knows 'city'"):
        book_of(tmp_path, dataset="trams", **PURE, account="City")
    with pytest.raises(hv.InputError, match=r"knows '[bB]uses'"):
        book_of(tmp_path, dataset="BUSES", **PURE)
