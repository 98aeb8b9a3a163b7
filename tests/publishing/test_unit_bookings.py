"""What a release books, unit by unit; and that no id leaves by it."""

import hashlib
import math
import sqlite3
from contextlib import closing
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv

PICO_EPSILON = 10**12
"""A ledger keeps whole multiples of one part of so many."""
IDS = ("canary-Ω", "canary-omega", "canary-ω", "canary-7 ")
HERE, THERE = (21.10, 72.75), (21.25, 72.85)


def up(epsilon):
    """Return a loss as the ledger keeps it: a whole number of 10^-12, rounded up."""
    return Fraction(math.ceil(Fraction(epsilon) * PICO_EPSILON), PICO_EPSILON)


def buses(ids=IDS, places=(HERE, THERE), days=1):
    """Return records of buses: each at each place at 08:00 on one day, at 18:00 on the next."""
    start = 1_708_300_800 + 9_000  # a Monday, 08:00 in Kolkata
    rows = [
        {"bus": name, "lat": lat, "lon": lon, "v": 10.0 * k + day,
         "at": start + 86_400 * day + 60 * k + (36_000 if name in ids[2:] else 0)}
        for day in range(days)
        for k, (lat, lon) in enumerate(places)
        for name in ids
    ]  # fmt: skip
    return pa.Table.from_pylist(rows)


def read(table, privacy_unit="user", timezone="Asia/Kolkata", **select):
    """Return the data set of some of the records."""
    return hv.read(
        table, user="bus", value="v", lat="lat", lon="lon", time="at", bounds=(0, 60),
        privacy_unit=privacy_unit, cells=hv.Cells(6, None), timezone=timezone,
        select=hv.Select(min_users=1, **select), max_repeats=1,
    )  # fmt: skip


def released(dataset, book, epsilon="1.5"):
    """Return a release of means, with its plan."""
    plan = hv.plan(dataset, epsilon=epsilon, method="per-cell", advise=False)
    return hv.release(dataset, plan, ledger=book, accept_noise=True), plan


@pytest.fixture
def ledger(tmp_path):
    """Return a function that opens the ledger for a data set, all of one account."""
    return lambda name="buses", budget=100: hv.Ledger(
        tmp_path / "ledger.sqlite", dataset=name, account="fleet", budget=budget
    )


def booked(book):
    """Return what a ledger on disk has of each unit, by the keyed hash of its id."""
    with closing(sqlite3.connect(book.address)) as file:
        return dict(file.execute("SELECT unit, spent FROM hexveil_balances WHERE window = ''"))


def test_each_unit_is_booked_its_own_loss_rounded_up(ledger):
    """Booked is what the plan says of each unit: never below, at most a part of 10^12 above."""
    counts = np.random.default_rng(1).integers(0, 9, (40, 5)).tolist()
    rows = [
        (f"r{g}", f"bus {u}", n, 7.0 * n)
        for u, own in enumerate(counts) for g, n in enumerate(own) if n
    ]  # fmt: skip
    columns = dict(
        zip(("cell", "user", "n", "sum"), map(list, zip(*rows, strict=True)), strict=True)
    )
    dataset, book = hv.from_sums(pa.table(columns), bounds=(0, 60)), ledger()
    _, plan = released(dataset, book)
    key, spent = bytes.fromhex(book.key_file.read_text()), booked(book)
    for name, loss in zip(dataset.units.ids(), plan.losses().tolist(), strict=True):
        hashed = hashlib.blake2b(name + b"\x1f", key=key, digest_size=16, person=b"unit").digest()
        exact = Fraction(loss) * PICO_EPSILON
        assert exact <= spent.pop(hashed, 0) <= math.ceil(exact) + 1
    assert spent == {}
    assert up(plan.epsilon) == book.spent


def test_days_of_an_owner_add_up(ledger):
    """User-days are booked each for itself; the owner's lifetime loss is the sum over days."""
    book = ledger()
    dataset = read(buses(days=3), privacy_unit="user-day")
    _, plan = released(dataset, book)
    assert book.account.unit == "user-day (Asia/Kolkata)"
    losses, days = plan.losses(), np.array(dataset.units.periods())
    most = [max(losses[days == day].tolist()) for day in np.unique(days)]
    assert len(most) == 3
    spend = book.spend()
    assert spend.window == up(plan.epsilon)
    assert (
        sum(up(one) for one in most)
        <= spend.lifetime
        <= sum(map(up, most)) + Fraction(3, PICO_EPSILON)
    )
    assert spend.lifetime > 2 * spend.window


def test_sums_of_days_say_their_day_or_are_refused(ledger):
    """Ids of user-days that do not end with a day are refused before anything is booked."""
    book = ledger()

    def sums(*ids):
        columns = {"cell": ["x"] * 3, "user": list(ids), "n": [1] * 3, "sum": [5.0] * 3}
        return hv.from_sums(pa.table(columns), bounds=(0, 60), privacy_unit="user-day", min_users=1)

    with pytest.raises(hv.InputError, match="needs the day of each id") as refused:
        released(sums("canary 2026-11-20", "canary 2026-11-21", "canary"), book)
    assert "canary" not in str(refused.value)
    assert book.entries() == ()
    _, plan = released(sums("a 2026-11-20", "a 2026-11-21", "b 2026-11-21"), book)
    assert book.spend().lifetime == 2 * up(plan.epsilon) == 2 * book.spent


@pytest.mark.slow
@pytest.mark.parametrize("step", ["begin_draw", "complete"])
def test_a_stopped_release_is_not_drawn_for_other_vehicles(ledger, draws, monkeypatch, step):
    """Same counts, other ids: the request is the same, but these were charged nothing."""
    book = ledger()

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr(hv.Ledger, step, stop)
        with pytest.raises(KeyboardInterrupt):
            released(read(buses()), book)
    before = list(draws)
    assert bool(before) == (step == "complete")
    other = read(buses([f"other {name}" for name in IDS]))
    with pytest.raises(hv.InputError, match="for other vehicles with the same counts"):
        released(other, book)
    assert draws == before
    spent = book.spent
    made, _ = released(read(buses()), book)
    once = list(draws)
    assert once
    assert before in ([], once)
    assert (book.spent, made.replayed) == (spent, False)
    # Now its numbers are stored, and whoever asks the same is answered with them.
    assert released(other, book)[0].table.equals(made.table)
    assert (draws, book.spent) == (once, spent)
