"""The order of a release, its replay, its noise, and what it refuses."""

import contextlib
import math
import sqlite3
from fractions import Fraction

import pytest

import hexveil as hv
from publishing import noise_library
from publishing.setting import dataset_of, hexagons, small_city

COUNTS = [[3, 2, 1], [2, 2, 0], [1, 4, 0], [5, 1, 0]]


def planned(dataset, **options):
    """Return a plan of the average of each cell, within the bounds."""
    asked = {"epsilon": 2, "method": "per-cell", "clipping_range": "bounds", "advise": False}
    return hv.plan(dataset, **asked | options)


@pytest.fixture
def plan(city):
    """Return a plan of the city whose last cell publishes a constant."""
    return planned(city)


def booked(tmp_path):
    """Return what happened to requests, oldest first, by another connection."""
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    try:
        rows = connection.execute(
            "SELECT kind FROM hexveil_events WHERE request <> '' ORDER BY entry"
        )
        return [kind for (kind,) in rows]
    finally:
        connection.close()


def up(epsilon):
    """Return a loss as the ledger keeps it: a whole number of 10^-12, rounded up."""
    return Fraction(math.ceil(Fraction(epsilon) * 10**12), 10**12)


def test_the_cost_is_booked_before_noise_is_drawn(city, plan, book, tmp_path):
    """When noise is drawn, another connection already sees the booking and its mark."""
    seen = []

    def watched(*asked):
        seen.append(booked(tmp_path))
        return asked[-1]()

    with noise_library.answered(watched):
        released = hv.release(city, plan, ledger=book, accept_noise=True)
    assert seen
    assert all(steps == ["reserved", "marked"] for steps in seen)
    assert booked(tmp_path) == ["reserved", "marked", "measured", "stored"]
    assert not released.replayed
    assert released.epsilon == plan.epsilon
    assert book.spent == up(plan.epsilon)


def test_a_refused_budget_draws_nothing(city, plan, tmp_path, draws):
    """Where the budget does not suffice, no noise is drawn and nothing is booked."""
    small = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget="0.1")
    with pytest.raises(hv.BudgetError):
        hv.release(city, plan, ledger=small, accept_noise=True)
    assert draws == []
    assert booked(tmp_path) == []


def test_the_same_request_again_is_the_same_answer(city, plan, book, draws):
    """A replay returns identical numbers, costs nothing and draws no noise."""
    first, drawn = hv.release(city, plan, ledger=book, accept_noise=True), len(draws)
    again = hv.release(city, planned(city), ledger=book, accept_noise=True)
    assert len(draws) == drawn > 0
    assert again.replayed
    assert again.table.equals(first.table, check_metadata=True)
    assert again.manifest == first.manifest
    assert book.spent == up(plan.epsilon)


def test_a_replay_does_not_look_at_values(city, plan, book):
    """Other values behind the same public request get the same answer: nothing is learnt."""
    first = hv.release(city, plan, ledger=book, accept_noise=True)
    other = dataset_of(COUNTS, 0, cells=hexagons(3), value="speed", value_unit="km/h")
    assert hv.release(other, plan, ledger=book, accept_noise=True).table.equals(first.table)


def failing(*_):
    """Fail."""
    raise ZeroDivisionError


@pytest.mark.parametrize("step", ["draw", "store"])
def test_a_lost_draw_is_paid_again_once(city, plan, book, tmp_path, monkeypatch, step):
    """Nothing is drawn twice under one booking: what may have been drawn is booked once more."""
    with monkeypatch.context() as broken, contextlib.ExitStack() as stack:
        if step == "draw":
            stack.enter_context(noise_library.answered(failing))
        else:
            broken.setattr(hv.Ledger, "store", failing)
        with pytest.raises(ZeroDivisionError):
            hv.release(city, plan, ledger=book, accept_noise=True)
    assert booked(tmp_path) == ["reserved", "marked"]
    released = hv.release(city, plan, ledger=book, accept_noise=True)
    assert not released.replayed
    steps = ["reserved", "marked", "lost", "reserved", "marked", "measured", "stored"]
    assert booked(tmp_path) == steps
    assert book.spent == 2 * up(plan.epsilon)
    assert hv.release(city, plan, ledger=book, accept_noise=True).table.equals(released.table)
    assert book.verify().problems == ()


def test_a_lost_draw_is_refused_where_the_budget_does_not_allow_it(city, plan, tmp_path, draws):
    """The refusal says that it is the lost draw that must be paid once more."""
    book = hv.Ledger(tmp_path / "small.sqlite", dataset="buses", budget=up(plan.epsilon))
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(hv.Ledger, "store", failing)
        with pytest.raises(ZeroDivisionError):
            hv.release(city, plan, ledger=book, accept_noise=True)
    drawn = len(draws)
    with pytest.raises(hv.BudgetError, match="a draw of it was lost"):
        hv.release(city, plan, ledger=book, accept_noise=True)
    assert (len(draws), book.spent) == (drawn, up(plan.epsilon))


def test_a_plan_changed_after_its_loss_was_computed_is_not_drawn(city, plan, book, draws):
    """Arrays are read-only; whoever forces a write gets the loss of what is really drawn."""
    before = plan.epsilon
    with pytest.raises(ValueError, match="read-only"):
        plan.allocation.noise_scale_records[:] = plan.allocation.noise_scale_records / 10
    forced = plan.allocation.noise_scale_records
    forced.setflags(write=True)
    forced /= 10
    made = hv.release(city, plan, ledger=book, accept_noise=True)
    assert plan.epsilon == before
    assert made.epsilon > 9 * before
    assert book.spent == up(made.epsilon)
    assert draws


def test_a_grid_that_is_too_fine_needs_consent(city, book, draws):
    """As the command does, a release refuses a map that says no more than one constant."""
    fine = hv.plan(city, epsilon=1, advise=False)
    assert not fine.support.beats_constant
    with pytest.raises(
        hv.InputError, match=r"nothing was spent: this grid is too fine.*accept_noise"
    ):
        hv.release(city, fine, ledger=book)
    assert (draws, book.entries()) == ([], ())
    made = hv.release(city, fine, ledger=book, accept_noise=True)
    assert hv.release(city, fine, ledger=book).table.equals(made.table)


def test_a_constant_draws_no_noise(city, plan, book, draws):
    """Noise is drawn for cells that are noised alone."""
    noised = plan.allocation.noise_scale_records > 0
    assert noised.tolist() == [True, True, False]
    made = hv.release(city, plan, ledger=book, accept_noise=True)
    assert sum(size for _, size in draws) == 2
    assert made["mean_raw"][2] == 30.0


def test_a_release_of_constants_books_nothing(city, book, tmp_path, draws):
    """All constants cost nothing: no booking, no value read, and the statement says so."""
    plan = planned(city, epsilon="0.0001")
    released = hv.release(city, plan, ledger=book, accept_noise=True)
    assert (released.epsilon, released.replayed, draws, book.entries()) == (0, False, [], ())
    assert released.table["mean_raw"].to_pylist() == [30.0] * 3
    assert released.table["mean_quality"].to_pylist() == ["noise"] * 3
    again = hv.release(city, plan, ledger=book, accept_noise=True)
    assert again.table.equals(released.table)
    assert released.manifest["guarantee"]["probability_factor"] == 1.0
    folder = released.write(tmp_path / "map")
    page = (folder / "report.html").read_text("utf-8")
    assert "No value is read: had the values of one vehicle been anything else" in page
    assert "each with a constant: no value was read" in page
    said = " ".join((folder / "README.txt").read_text("utf-8").split())
    assert "No value is read" in said
    assert "would claim" not in said


@pytest.mark.parametrize("name", ["users", "mean_raw", "hexagon", "geometry"])
def test_labels_must_not_take_a_columns_name(book, name, draws):
    """A label column named like a column of the release is refused, nothing is spent."""
    dataset = dataset_of([[3, 1], [2, 2]], 50, cells=(hv.Labels(name), {name: ["a", "b"]}))
    with pytest.raises(hv.InputError, match=f"label column '{name}'"):
        hv.release(dataset, planned(dataset), ledger=book, accept_noise=True)
    assert book.spent == 0
    assert draws == []


def test_a_plan_of_something_else_is_refused(city, plan, book, draws):
    """Bare or other counts, bounds, lattice, unit or cells: the promise was not made for these."""
    bare = hv.plan(city.occupancy, bounds=(0, 60), epsilon=1, advise=False)
    days, finer = small_city(privacy_unit="user-day"), small_city(scale=(0, 60, "0.5"))
    for dataset, made, message in (
        (dataset_of([[3, 2], [2, 2]]), plan, "made for other records"),
        (city, plan.changed(upper=plan.upper + 39), "bounds"),
        (city, planned(finer), "bounds or the quantum"),
        (city, bare, "bare occupancy"),
        (city, city.public, r"made by hv\.plan"),
        (city, planned(days), "privacy unit"),
        (city, planned(dataset_of(COUNTS)), "names of the cells"),
    ):
        with pytest.raises(hv.InputError, match=message):
            hv.release(dataset, made, ledger=book, accept_noise=True)
    assert (book.spent, draws) == (0, [])


def test_a_release_asks_for_a_ledger(city, plan):
    """Without a ledger the refusal says why and shows what to write."""
    with pytest.raises(hv.InputError, match=r"booked first.*hv\.Ledger"):
        hv.release(city, plan)


def test_there_is_no_seed_and_no_switch():
    """Nobody can hand noise, a seed or bounds to a release."""
    import inspect  # noqa: PLC0415  only here

    assert list(inspect.signature(hv.release).parameters) == [
        "dataset", "plan", "ledger", "estimates", "accept_noise", "history",
    ]  # fmt: skip
