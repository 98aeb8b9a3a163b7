"""Hashes and losses of units, and the key: nothing told, nothing rounded down."""

import hashlib
import os
import pickle
import stat
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil.ledger import Key, hash_losses
from hexveil.ledger.unit_losses import (
    HASH_BYTES,
    MAX_PICO_EPSILON,
    PICO_EPSILON,
    losses_from_bytes,
    make_key,
    read_key,
    to_pico_epsilons,
)

KEY = Key(b"a secret of thirty-two bytes ...")
ONE = Fraction(1)
names = st.lists(st.binary(max_size=40), unique=True, max_size=12)
reals = st.floats(0, 50, allow_subnormal=True)


def made(ids, key=KEY, parts=None, **options):
    """Return losses of one epsilon each."""
    losses = np.ones(len(ids)) if parts is None else np.array(parts, dtype=float)
    return hash_losses(ids, losses, key, max_loss=Fraction(100), **options)


def oracle(user, label="", key=KEY):
    """Return a unit's hash, spelled out."""
    text = user + b"\x1f" + label.encode()
    return hashlib.blake2b(text, key=key.secret, digest_size=16, person=b"unit").digest()


@given(names)
def test_hashes_are_keyed_distinct_and_sorted(ids):
    """Each id has one hash of 16 bytes under a key; the order of the ids does not show."""
    losses = made(ids)
    assert losses.hashes == sorted(map(oracle, ids))
    assert len(set(losses.hashes)) == len(ids)
    assert {len(one) for one in losses.hashes} <= {HASH_BYTES}
    assert made(ids[::-1]).to_bytes() == losses.to_bytes()


@given(st.dictionaries(st.binary(max_size=8), st.floats(0, 40), max_size=12))
def test_each_unit_keeps_its_own_loss(losses):
    """After sorting, each hash stands beside its unit's parts; who loses nothing is left out."""
    found = made(list(losses), parts=list(losses.values()))
    expected = {oracle(name): to_pico_epsilons(np.array([loss]), Fraction(100))[0]
                for name, loss in losses.items() if loss}  # fmt: skip
    assert dict(zip(found.hashes, found.pico_epsilons.tolist(), strict=True)) == expected
    assert found.largest == max(expected.values(), default=0)


@given(st.lists(reals, max_size=20), st.fractions(Fraction(1, 10**6), 60))
def test_parts_are_never_below_the_true_loss_nor_above_the_most(losses, most):
    """Rounded up against exact fractions, by at most two parts or ulps, capped by the proof."""
    parts = to_pico_epsilons(np.array(losses, dtype=float), most)
    top = -(-(most * PICO_EPSILON) // 1)
    for loss, found in zip(losses, parts.tolist(), strict=True):
        true = Fraction(loss) * PICO_EPSILON
        assert found >= min(true, top)
        assert found <= top
        assert found <= true * (1 + Fraction(1, 2**51)) + 2
        assert (found == 0) == (loss == 0)


@pytest.mark.parametrize("most", [Fraction(1, 3), ONE, Fraction(9007199254740993, PICO_EPSILON),
                                  Fraction(2**61 + 1, PICO_EPSILON)])  # fmt: skip
def test_the_cap_is_exact(most):
    """The most that no unit exceeds is kept to the part, also where doubles have gaps."""
    above = float(most) * 1.01
    assert to_pico_epsilons(np.array([above]), most).tolist() == [-(-(most * PICO_EPSILON) // 1)]


def test_a_loss_that_no_book_counts_is_refused():
    """What would leave 64 bits is refused rather than wrapped around to a refund."""
    with pytest.raises(hv.InputError, match="no ledger takes a loss above epsilon"):
        hash_losses([b"a"], np.array([1e8]), KEY, max_loss=Fraction(10**8))
    most = Fraction(MAX_PICO_EPSILON, PICO_EPSILON)
    assert hash_losses([b"a"], np.array([1e200]), KEY, max_loss=most).largest == MAX_PICO_EPSILON


@given(names, st.data())
def test_a_blob_comes_back(ids, data):
    """Hashes, parts and periods survive as bytes."""
    labels = data.draw(st.lists(st.sampled_from("xyz"), min_size=len(ids), max_size=len(ids)))
    losses = made(ids, periods=labels)
    again = losses_from_bytes(losses.to_bytes(), losses.periods)
    assert (again.hashes, again.periods) == (losses.hashes, losses.periods)
    assert again.pico_epsilons.tolist() == losses.pico_epsilons.tolist()
    assert again.period.tolist() == losses.period.tolist()


@pytest.mark.parametrize(
    "blob",
    [
        b"x",
        made([b"a", b"b"]).to_bytes()[:-1],
        made([b"a"]).to_bytes() * 2,
        b"\0" * 28,
        b"\xff" * 28,
    ],
)
def test_bytes_that_are_no_losses_are_refused(blob):
    """A wrong length, hashes out of order, and parts of nothing or below it are no losses."""
    with pytest.raises(ValueError, match="losses"):
        losses_from_bytes(blob, ("",))


def test_a_new_key_is_the_owners_alone(tmp_path):
    """A key's file has rights 0600 whatever the umask, and is never overwritten."""
    before = os.umask(0)
    try:
        key = make_key(tmp_path / "k")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    assert read_key(tmp_path / "k") == key
    assert len(key.secret) == 32
    assert [path.name for path in tmp_path.iterdir()] == ["k"]
    content = (tmp_path / "k").read_bytes()
    with pytest.raises(hv.InputError, match="never overwritten"):
        make_key(tmp_path / "k")
    assert (tmp_path / "k").read_bytes() == content
    assert make_key(tmp_path / "other") != key


@pytest.mark.parametrize("text", ["", "abc", "zz" * 32, "ab" * 8 + "\xe9", "ab" * 15, "ab" * 65])
def test_a_file_that_holds_no_key_is_refused(tmp_path, text):
    """Too short, too long, or no hex: one sentence that does not quote the file."""
    (tmp_path / "k").write_text(text, "utf-8")
    (tmp_path / "k").chmod(0o600)
    with pytest.raises(hv.InputError, match=r"no key|64 bytes") as refusal:
        read_key(tmp_path / "k")
    assert not text or text not in str(refusal.value)


def test_a_key_shows_its_fingerprint_alone():
    """Neither repr nor fingerprint holds the secret, and a key is not pickled."""
    for shown in (repr(KEY), str(KEY), KEY.fingerprint):
        assert KEY.secret.hex() not in shown
        assert "secret of" not in shown
    assert len(KEY.fingerprint) == 16
    assert Key(b"x" * 32).fingerprint != KEY.fingerprint
    with pytest.raises(hv.InputError, match="not pickled"):
        pickle.dumps(KEY)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o660, 0o601])
def test_a_key_that_others_can_read_is_refused(tmp_path, mode):
    """Rights of a group or of others are refused, and the sentence says how to take them away."""
    key = make_key(tmp_path / "the key")
    (tmp_path / "the key").chmod(mode)
    with pytest.raises(hv.InputError, match=r"by others.*chmod 600 '.*the key'") as refusal:
        read_key(tmp_path / "the key")
    assert key.secret.hex() not in str(refusal.value)
    (tmp_path / "the key").chmod(0o400)
    assert read_key(tmp_path / "the key") == key


@pytest.mark.parametrize(("mode", "taken"), [(0o440, True), (0o640, True), (0o644, False)])
def test_a_group_may_read_a_key_that_root_gave_it(tmp_path, monkeypatch, mode, taken):
    """As a container's secrets are given: root's, for a group that the process is in."""
    key = make_key(tmp_path / "k")
    (tmp_path / "k").chmod(mode)
    owner = (tmp_path / "k").stat()
    given = os.stat_result([*owner[:4], 0, *owner[5:]])
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    monkeypatch.setattr("pathlib.Path.stat", lambda *_, **__: given)
    if taken:
        assert read_key(tmp_path / "k") == key
    else:
        with pytest.raises(hv.InputError, match="by others"):
            read_key(tmp_path / "k")
