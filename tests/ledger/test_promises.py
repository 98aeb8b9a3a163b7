"""Accounts with a δ: squares of μ add up, and one account never holds both kinds of promise."""

from fractions import Fraction

import pytest

import hexveil as hv
from hexveil.accounting.gaussian_composition import calibrated_square
from hexveil.cli.commands import ledger_command
from hexveil.cli.formatting import text_of
from hexveil.ledger import inspection
from hexveil.ledger.databases import connect_existing
from hexveil.ledger.promises import affordable_epsilon, shown_epsilon
from ledger.books import losses

DELTA = Fraction(1, 10**6)


def book_of(tmp_path, **options):
    """Open the ledger of an account with a δ."""
    given = {"dataset": "cars", "budget": 1, "delta": "1e-6"} | options
    return hv.Ledger(tmp_path / "l.sqlite", **given)


def reserve(book, request, epsilon, delta=DELTA):
    """Book a release of one unit, at an ε and a δ."""
    cost = calibrated_square(Fraction(epsilon), delta) if delta else Fraction(epsilon)
    made = losses(book, {"any": str(cost)})
    return book.reserve(
        request, made, privacy_unit="user", facts={"name": request}, plan=b"", delta=delta
    )


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


def test_a_changed_budget_keeps_its_delta(tmp_path):
    """The promise is pinned, the budget is not; events show both."""
    book = book_of(tmp_path)
    reserve(book, "a", "0.5")
    book.set_budget(2)
    assert (book.account.budget, book.account.delta) == (2, DELTA)
    assert book.verify().problems == ()
    engine = connect_existing(tmp_path / "l.sqlite")
    lines = [ledger_command.event_line(event) for event in inspection.history(engine)]
    assert "epsilon 1 at delta 0.000001" in lines[0]
    assert sum("epsilon 0.5 at delta 0.000001" in line for line in lines) == 1
    shown = text_of(ledger_command.overview_rows(inspection.overview(engine), "l.sqlite"))
    assert "epsilon 2 at delta 0.000001" in shown
    assert "do not add up" in " ".join(shown.split())
    data = ledger_command.overview_json(inspection.overview(engine), "l.sqlite")
    assert data["accounts"][0]["delta"] == "0.000001"


def test_conversions_of_an_account_are_on_the_safe_side():
    """A loss shown is not below the one booked, and a rest shown can be booked."""
    for parts in (10**6, 10**9, 5 * 10**10, 3 * 10**12):
        shown, rest = shown_epsilon(parts, DELTA), affordable_epsilon(parts, DELTA)
        assert rest <= shown
        assert calibrated_square(rest, DELTA) * 10**12 <= parts
        assert calibrated_square(shown * Fraction("1.0001"), DELTA) * 10**12 >= parts
    assert (affordable_epsilon(-3, DELTA), shown_epsilon(0, DELTA)) == (0, 0)
    assert shown_epsilon(2**62, DELTA) > 10**6


# ---- Names of accounts: a slip in a name opens no fresh budget, and a new account says that it


def opened(tmp_path, dataset, **more):
    """Open the ledger of a test for a data set."""
    return hv.Ledger(tmp_path / "ledger.sqlite", dataset=dataset, budget=2, **more)


@pytest.mark.parametrize("name", ["Buses", "BUSES", "\uff22uses", "bu\u017fes"])
def test_a_name_that_looks_like_another_is_refused_unless_it_is_confirmed(name, tmp_path):
    """It would open a fresh budget beside a spent one."""
    opened(tmp_path, "buses")
    with pytest.raises(hv.InputError, match=r"knows 'buses'.*accept_similar_name = true"):
        opened(tmp_path, name)
    assert opened(tmp_path, name, accept_similar_name=True).opened
    assert not opened(tmp_path, name).opened
    assert opened(tmp_path, "trams").opened


@pytest.mark.parametrize("name", [" buses", "buses ", "buses\n", "\u00a0buses"])
def test_a_name_has_no_spaces_at_its_ends(name, tmp_path):
    """Nobody sees them; of an account that is shared neither."""
    for arguments in ({"dataset": name}, {"dataset": "buses", "account": name}):
        with pytest.raises(hv.InputError, match="begins or ends with a space; name 'buses'"):
            opened(tmp_path, **arguments)


def test_data_sets_of_one_account_may_have_similar_names(tmp_path):
    """No budget is opened for the second: it joins the first one's account by its name."""
    assert opened(tmp_path, "buses", account="city").opened
    assert not opened(tmp_path, "Buses", account="city").opened
    with pytest.raises(hv.InputError, match="knows 'city'"):
        opened(tmp_path, "trams", account="City")
    with pytest.raises(hv.InputError, match=r"knows '[bB]uses'"):
        opened(tmp_path, "BUSES")
