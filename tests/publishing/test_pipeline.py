"""The order of a release, its replay, its noise, and what it refuses."""

import dataclasses
import math
import sqlite3
from fractions import Fraction

import pytest

import hexveil as hv
from hexveil import report
from hexveil.mechanisms import noise
from hexveil.mechanisms.looks.clipped_mean import ClippedMean
from hexveil.model.cells import CellTable
from hexveil.model.public_metadata import ValueLattice
from publishing.releases import statements_of
from publishing.setting import dataset_of, plan_of, readme_of, units_of


@pytest.fixture
def plan(city):
    """Return a plan of the city whose last cell publishes a constant."""
    return plan_of(city, [2, 2, 0], 1.5)


@pytest.fixture
def door(monkeypatch):
    """Watch the noise door; every call is recorded, nothing is changed."""
    real, calls = noise.add_laplace, []

    def watched(values, scales):
        calls.append((values, scales))
        return real(values, scales)

    monkeypatch.setattr(noise, "add_laplace", watched)
    return calls


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


def test_the_cost_is_booked_before_noise_is_drawn(city, plan, book, tmp_path, monkeypatch):
    """When the door is called, another connection already sees the booking and its mark."""
    seen = []
    real = noise.add_laplace

    def watched(values, scales):
        seen.append(booked(tmp_path))
        return real(values, scales)

    monkeypatch.setattr(noise, "add_laplace", watched)
    released = hv.release(city, plan, ledger=book, accept_noise=True)
    assert seen == [["reserved", "marked"]]
    assert booked(tmp_path) == ["reserved", "marked", "measured", "stored"]
    assert not released.replayed
    assert released.epsilon == plan.epsilon
    assert book.spent == up(plan.epsilon)


def test_a_refused_budget_draws_nothing(city, plan, tmp_path, door):
    """Where the budget does not suffice, no noise is drawn and nothing is booked."""
    small = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget="0.1")
    with pytest.raises(hv.BudgetError):
        hv.release(city, plan, ledger=small, accept_noise=True)
    assert door == []
    assert booked(tmp_path) == []


def test_the_same_request_again_is_the_same_answer(city, plan, book, door):
    """A replay returns identical numbers, costs nothing and does not call the door."""
    first = hv.release(city, plan, ledger=book, accept_noise=True)
    again = hv.release(city, plan_of(city, [2, 2, 0], 1.5), ledger=book, accept_noise=True)
    assert len(door) == 1
    assert again.replayed
    assert again.table.equals(first.table, check_metadata=True)
    assert again.manifest == first.manifest
    assert book.spent == up(plan.epsilon)


def test_a_replay_does_not_look_at_values(city, plan, book):
    """Other values behind the same public request get the same answer: nothing is learnt."""
    first = hv.release(city, plan, ledger=book, accept_noise=True)
    city.sums.total.flags.writeable = True
    city.sums.total[:] = 0
    assert hv.release(city, plan, ledger=book, accept_noise=True).table.equals(first.table)


def crash(monkeypatch, owner, name, *, often=1):
    """Let a function fail the first few times it is called."""
    real, left = getattr(owner, name), [None] * often

    def broken(*arguments, **options):
        if left:
            left.pop()
            raise ZeroDivisionError
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, broken)


@pytest.mark.parametrize(("owner", "name"), [(noise, "add_laplace"), (hv.Ledger, "store")])
def test_a_lost_draw_is_paid_again_once(city, plan, book, tmp_path, monkeypatch, owner, name):
    """Nothing is drawn twice under one booking: what may have been drawn is booked once more."""
    crash(monkeypatch, owner, name)
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


def test_a_lost_draw_is_refused_where_the_budget_does_not_allow_it(city, plan, tmp_path, door):
    """The refusal says that it is the lost draw that must be paid once more."""
    book = hv.Ledger(tmp_path / "small.sqlite", dataset="buses", budget=up(plan.epsilon))
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(hv.Ledger, "store", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            hv.release(city, plan, ledger=book, accept_noise=True)
    with pytest.raises(hv.BudgetError, match="a draw of it was lost"):
        hv.release(city, plan, ledger=book, accept_noise=True)
    assert (len(door), book.spent) == (1, up(plan.epsilon))


def test_a_plan_changed_after_its_loss_was_computed_is_not_drawn(city, plan, book, door):
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
    assert len(door) == 1


def test_scales_below_those_that_were_booked_are_refused(city, plan, book, monkeypatch, door):
    """The loss is recomputed from the scales that go to the door, whatever the plan says."""
    real = ClippedMean.scales.fget
    monkeypatch.setattr(ClippedMean, "scales", property(lambda mean: real(mean) / 10))
    with pytest.raises(hv.HexveilError, match="more than was booked"):
        hv.release(city, plan, ledger=book, accept_noise=True)
    assert door == []


def test_a_grid_that_is_too_fine_needs_consent(city, book, door):
    """As the command does, a release refuses a map that says no more than one constant."""
    fine = hv.plan(city, epsilon=1, advise=False)
    assert not fine.support.beats_constant
    with pytest.raises(
        hv.InputError, match=r"nothing was spent: this grid is too fine.*accept_noise"
    ):
        hv.release(city, fine, ledger=book)
    assert (door, book.entries()) == ([], ())
    made = hv.release(city, fine, ledger=book, accept_noise=True)
    assert hv.release(city, fine, ledger=book).table.equals(made.table)


def test_a_constant_draws_no_noise(city, book, door):
    """Only live cells pass the door."""
    hv.release(city, plan_of(city, [2, 0, 0]), ledger=book, accept_noise=True)
    assert [values.size for values, _ in door] == [1]


def test_a_release_of_constants_books_nothing(city, book, door):
    """All constants cost nothing: no booking, no value read, and the statement says so."""
    released = hv.release(city, plan_of(city, 0), ledger=book, accept_noise=True)
    assert (released.epsilon, released.replayed, door, book.entries()) == (0, False, [], ())
    assert released.table["mean_raw"].to_pylist() == [30.0] * 3
    assert released.table["mean_quality"].to_pylist() == ["noise"] * 3
    again = hv.release(city, plan_of(city, 0), ledger=book, accept_noise=True)
    assert again.table.equals(released.table)
    assert released.manifest["guarantee"]["probability_factor"] == 1.0
    page = report.render(released.table, statements_of(released))
    assert "No value is read: had the values of one vehicle been anything else" in page
    assert "each with a constant: no value was read" in page
    said = " ".join(readme_of(released.table, released.manifest, mapped=True).split())
    assert "No value is read" in said
    assert "would claim" not in said


@pytest.mark.parametrize("name", ["users", "mean_raw", "hexagon", "geometry"])
def test_labels_must_not_take_a_columns_name(book, name, door):
    """A label column named like a column of the release is refused, nothing is spent."""
    cells = CellTable(hv.Labels(name), labels={name: ("a", "b")})
    dataset = dataset_of([[3, 1], [2, 2]], 50, cells=cells)
    with pytest.raises(hv.InputError, match=f"label column '{name}'"):
        hv.release(dataset, plan_of(dataset, 2), ledger=book, accept_noise=True)
    assert book.spent == 0
    assert door == []


def changed(dataset, **facts):
    """Return the same counts and sums under other public facts."""
    public = dataclasses.replace(dataset.public, **facts)
    units = units_of(dataset.occupancy.n_users, public.privacy_unit)
    return hv.Dataset(public, dataset.sums, units)


def test_a_plan_of_something_else_is_refused(city, plan, book, door):
    """Bare or other counts, bounds, lattice, unit or cells: the promise was not made for these."""
    counts = [[3, 2, 1], [2, 2, 0], [1, 4, 0], [5, 1, 0]]
    bare = hv.plan(city.occupancy, bounds=(0, 60), epsilon=1, advise=False)
    days = dataset_of(counts, cells=city.public.cells, privacy_unit="user-day")
    coarser = changed(city, lattice=ValueLattice.of((0, 60), "0.5"))
    for dataset, made, message in (
        (dataset_of([[3, 2], [2, 2]]), plan, "made for other records"),
        (city, plan_of(city, 2, upper=99), "multiple of the quantum"),
        (city, plan_of(coarser, 2), "bounds or the quantum"),
        (city, bare, "bare occupancy"),
        (city, city.public, r"made by hv\.plan"),
        (city, plan_of(days, 2), "privacy unit"),
        (city, plan_of(dataset_of(counts), 2), "names of the cells"),
    ):
        with pytest.raises(hv.InputError, match=message):
            hv.release(dataset, made, ledger=book, accept_noise=True)
    assert (book.spent, door) == (0, [])


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
