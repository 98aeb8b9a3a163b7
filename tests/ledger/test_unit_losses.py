"""Hashes and losses of units, and the key: nothing told, nothing rounded down."""

import os
import pickle
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

import hexveil as hv
from ledger.books import PICO, Place, rows, tables, unit_hash

IDS = ("7", "71", "bus 7", "é", "e\u0301", "x" * 300, "1\x1f2")
DAYS = ("2026-11-16", "2026-11-17")
COLUMNS = {"user": "bus", "value": "speed", "time": "time", "bounds": (0, 60), "repeats": "keep",
           "select": hv.Select(min_users=1), "timezone": "UTC"}  # fmt: skip


def feed(ids=IDS, order=1):
    """Return records of some vehicles on two days: of the first one record a day, then more."""
    made = [
        {"bus": bus, "speed": 10.0 + k, "road": "A", "time": f"{day}T10:00:{k:02d}Z"}
        for number, bus in enumerate(ids)
        for day in DAYS
        for k in range(number + 1)
    ]
    return pa.Table.from_pylist(made[::order])


def read(records, **options):
    """Read records into one cell of a road."""
    return hv.read(records, cells=hv.Labels("road"), **COLUMNS | options)


def booked(book, request):
    """Return hashes and losses of the units of a reservation, as its event has them."""
    ((blob,),) = rows(book, "SELECT units FROM hexveil_events WHERE request = :name "
                            "AND kind = 'reserved'", name=request)  # fmt: skip
    size = len(blob) // 28
    hashes = [blob[k : k + 16] for k in range(0, 16 * size, 16)]
    parts = [int.from_bytes(blob[k : k + 8], "little") for k in range(16 * size, 24 * size, 8)]
    return dict(zip(hashes, parts, strict=True))


def released(place, data, epsilon="0.7"):
    """Release the mean of records, and return the ledger and what is booked of each unit."""
    book, plan = place.open(budget=10**9), hv.plan(data, epsilon=epsilon, advise=False)
    hv.release(data, plan, ledger=book, accept_noise=True)
    return book, plan, booked(book, book.entries()[0].request)


def test_hashes_are_keyed_distinct_and_sorted(plain, tmp_path):
    """Each id has one hash of 16 bytes under a key; the order of the records does not show."""
    book, _, units = released(plain, read(feed()))
    assert list(units) == sorted(unit_hash(book.key, name) for name in IDS)
    assert {row[2] for row in tables(book)["hexveil_balances"]} == set(units)
    again = Place(f"{tmp_path}/again.sqlite", str(book.key_file))
    assert released(again, read(feed(order=-1)))[2] == units
    other, _, others = released(Place(f"{tmp_path}/other.sqlite"), read(feed()))
    assert list(others) == sorted(unit_hash(other.key, name) for name in IDS)
    assert units.keys().isdisjoint(others)


def test_a_user_day_is_its_user_and_its_day(plain):
    """A separator ends the id; the day of a unit stands beside its balance."""
    book, _, units = released(plain, read(feed(), privacy_unit="user-day"))
    days = {unit_hash(book.key, name, day): day for name in IDS for day in DAYS}
    assert list(units) == sorted(days)
    assert {row[2]: row[3] for row in tables(book)["hexveil_balances"]} == days


@pytest.mark.parametrize("epsilon", ["0.7", "1", "7/3", "29", "1000000/7"])
def test_each_unit_keeps_its_own_loss(plain, epsilon):
    """It is rounded up against exact fractions, by at most two parts or ulps, and capped."""
    data = read(feed())
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
    data = read(feed())
    with pytest.raises(hv.InputError, match="no ledger takes a loss above epsilon 4611686"):
        released(plain, data, 10**7)
    most = Fraction(2**62, PICO)
    assert 2**61 < max(released(plain, data, most)[2].values()) <= 2**62


# ---- the key ----


def open_with(key, folder):
    """Open a new ledger with the file of a key, and return the key."""
    return hv.Ledger(folder / "ledger.sqlite", dataset="buses", budget=1, key=key).key


@pytest.fixture
def key_file(tmp_path):
    """Return the file of a key that a ledger made."""
    (tmp_path / "the key").mkdir()
    made = hv.Ledger(tmp_path / "the key" / "l", dataset="buses", budget=1).key_file
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
