"""Hashes and losses of units, and the key: nothing told, nothing rounded down."""

import contextlib
import os
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from ledger.books import PICO, Place, execute, tables, unit_hash

IDS = ("7", "71", "bus 7", "é", "e\u0301", "x" * 300, "1\x1f2")
DAYS = ("2026-11-16", "2026-11-17")


def read(order=1, **options):
    """Read records of some vehicles on two days: of the first one record a day, then more."""
    rows = [
        {"bus": bus, "speed": 10.0 + k, "time": f"{day}T10:00:{k:02d}Z"}
        for number, bus in enumerate(IDS)
        for day in DAYS
        for k in range(number + 1)
    ]
    return hv.read(
        pa.Table.from_pylist(rows[::order]), user="bus", value="speed", time="time",
        bounds=(0, 60), cells=hv.OneCell(), select=hv.Select(min_users=1), timezone="UTC",
        **options,
    )  # fmt: skip


def released(place, data, epsilon="0.7"):
    """Release the mean of records, and return ledger, plan and what its event says of units."""
    book, plan = place.open(budget=10**9), hv.plan(data, epsilon=epsilon, advise=False)
    hv.release(data, plan, ledger=book, accept_noise=True)
    blob = execute(book, "SELECT units FROM hexveil_events WHERE kind = 'reserved'")[0]["units"]
    size = len(blob) // 28
    hashes = [blob[k : k + 16] for k in range(0, 16 * size, 16)]
    return (
        book,
        plan,
        dict(zip(hashes, np.frombuffer(blob, "<i8", size, 16 * size).tolist(), strict=True)),
    )


def test_hashes_are_keyed_distinct_and_sorted(plain, tmp_path):
    """Each id has one hash of 16 bytes under a key; the order of the records does not show."""
    book, _, units = released(plain, read())
    assert list(units) == sorted(unit_hash(book.key, name) for name in IDS)
    assert {row[2] for row in tables(book)["hexveil_balances"]} == set(units)
    again = Place(f"{tmp_path}/again.sqlite", str(book.key_file))
    assert released(again, read(order=-1))[2] == units
    other, _, others = released(Place(f"{tmp_path}/other.sqlite"), read())
    assert list(others) == sorted(unit_hash(other.key, name) for name in IDS)
    assert units.keys().isdisjoint(others)


def test_a_user_day_is_its_user_and_its_day(plain):
    """A separator ends the id; the day of a unit stands beside its balance."""
    book, _, units = released(plain, read(privacy_unit="user-day"))
    days = {unit_hash(book.key, name, day): day for name in IDS for day in DAYS}
    assert list(units) == sorted(days)
    assert {row[2]: row[3] for row in tables(book)["hexveil_balances"]} == days


@pytest.mark.parametrize("epsilon", ["0.7", "1", "7/3", "29", "1000000/7"])
def test_each_unit_keeps_its_own_loss(plain, epsilon):
    """It is rounded up against exact fractions, by at most two parts or ulps, and capped."""
    data = read()
    book, plan, units = released(plain, data, Fraction(epsilon))
    top = -(-Fraction(epsilon) * PICO // 1)
    exact = dict(zip(data.units.ids(), plan.losses(), strict=True))
    assert len(set(exact.values())) > 2
    for name, loss in exact.items():
        true, found = Fraction(float(loss)) * PICO, units[unit_hash(book.key, name.decode())]
        assert min(true, top) <= found <= min(true * (1 + Fraction(1, 2**51)) + 2, top)
    assert book.entries()[0].cost == Fraction(max(units.values()), PICO)


def test_a_loss_that_no_book_counts_is_refused(plain):
    """What would leave 64 bits is refused rather than wrapped around to a refund."""
    data = read()
    with pytest.raises(hv.InputError, match="no ledger takes a loss above epsilon 4611686"):
        released(plain, data, 10**7)
    most = Fraction(2**62, PICO)
    assert 2**61 < max(released(plain, data, most)[2].values()) <= 2**62


def test_three_releases_of_a_third_fit_a_budget_of_one(plain):
    """Their losses are booked rounded up; a fourth has nothing left."""
    data, book = read(), plain.open()
    options = {"epsilon": Fraction(1, 3), "method": "per-cell", "advise": False}
    for edition in "1234":
        plan = hv.plan(data, edition=edition, **options)
        with pytest.raises(hv.BudgetError) if edition == "4" else contextlib.nullcontext():
            hv.release(data, plan, ledger=book, accept_noise=True)
    assert 1 < book.spent <= 1 + Fraction(2, PICO)
    assert (book.remaining, book.verify().problems) == (0, ())


# ---- the key ----


def open_with(key, folder):
    """Open a new ledger with the file of a key, and return the key."""
    return hv.Ledger(folder / "ledger.sqlite", dataset="buses", budget=1, key=key).key


@pytest.fixture
def key_file(tmp_path):
    """Return the file of a key that a ledger made."""
    made = hv.Ledger(tmp_path / "l.sqlite", dataset="buses", budget=1).key_file
    return made.rename(tmp_path / "a key")


def test_a_key_is_made_once(tmp_path, key_file):
    """It has 32 bytes, differs from any other, and serves a new ledger as it is."""
    content = key_file.read_bytes()
    key = open_with(key_file, tmp_path)
    assert (key.secret, len(key.secret)) == (bytes.fromhex(content.decode()), 32)
    assert key_file.read_bytes() == content
    assert hv.Ledger(tmp_path / "other", dataset="buses", budget=1).key != key


@pytest.mark.parametrize("text", ["", "abc", "zz" * 32, "ab" * 8 + "\xe9", "ab" * 15, "ab" * 65])
def test_a_file_that_holds_no_key_is_refused(tmp_path, key_file, text):
    """Too short, too long, or no hex: one sentence that does not quote the file."""
    key_file.write_text(text, "utf-8")
    with pytest.raises(hv.InputError, match=r"no key|64 bytes") as refusal:
        open_with(key_file, tmp_path)
    assert not text or text not in str(refusal.value)


def test_a_key_that_is_gone_is_asked_for(plain):
    """Under a new one all units would look new: the ledger makes none."""
    file = plain.open().key_file
    file.unlink()
    with pytest.raises(hv.InputError, match=r"is not there\. Bring it back"):
        plain.open()
    assert not file.exists()


def test_a_key_shows_its_fingerprint_alone(tmp_path, key_file):
    """Neither repr nor fingerprint holds the secret, and a key is not pickled."""
    key = open_with(key_file, tmp_path)
    for shown in (repr(key), str(key), key.fingerprint):
        assert key.secret.hex()[:8] not in shown
        assert repr(key.secret)[2:8] not in shown
    assert len(key.fingerprint) == 16
    assert hv.Ledger(tmp_path / "other", dataset="b", budget=1).key.fingerprint != key.fingerprint
    with pytest.raises(hv.InputError, match="not pickled"):
        pickle.dumps(key)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o660, 0o601])
def test_a_key_that_others_can_read_is_refused(tmp_path, key_file, mode):
    """Rights of a group or of others are refused, and the sentence says how to take them away."""
    secret = key_file.read_text().strip()
    key_file.chmod(mode)
    with pytest.raises(hv.InputError, match=r"by others.*chmod 600 '.*a key'") as refusal:
        open_with(key_file, tmp_path)
    assert secret not in str(refusal.value)
    key_file.chmod(0o400)
    assert open_with(key_file, tmp_path).secret.hex() == secret


@pytest.mark.parametrize(("mode", "taken"), [(0o440, True), (0o640, True), (0o644, False)])
def test_a_group_may_read_a_key_that_root_gave_it(tmp_path, key_file, monkeypatch, mode, taken):
    """As a container's secrets are given: root's, for a group that the process is in."""
    key_file.chmod(mode)
    look = Path.stat
    owner = key_file.stat()
    given = os.stat_result([*owner[:4], 0, *owner[5:]])
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    monkeypatch.setattr(
        Path, "stat", lambda path, **more: given if path == key_file else look(path, **more)
    )
    if taken:
        assert open_with(key_file, tmp_path).secret.hex() == key_file.read_text().strip()
    else:
        with pytest.raises(hv.InputError, match="by others"):
            open_with(key_file, tmp_path)
