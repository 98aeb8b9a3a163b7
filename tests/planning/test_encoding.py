"""Plans as bytes: what comes back is what was kept, and anything else is one sentence."""

import contextlib
import json
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import hexveil as hv
from hexveil.base.errors import InputError, StorageError
from hexveil.planning.serialization import plan_codec
from hexveil.planning.serialization.plan_codec import decode, encode, made_by

COUNTS = np.array([[2, 1, 4], [1, 0, 1], [1, 3, 1], [5, 1, 2]])
ASKED = {
    "joint": {"epsilon": 2},
    "both": {"epsilon": 2, "statistics": ("mean", "variance")},
    "target": {"target_error": "20%"},
    "per cell": {"epsilon": 2, "method": "per-cell"},
    "equal split": {"epsilon": 2, "method": "equal-split"},
    "suppressed": {"epsilon": 2, "method": "clip-user"},
    "interval": {"epsilon": 2, "clipping_range": "private"},
    "interval, both": {"epsilon": 2, "clipping_range": "private", "statistics": ("mean", "sd")},
    "cells": {"epsilon": 2, "clipping_range": "per-cell"},
}


def planned(name="joint", counts=COUNTS):
    """Return a plan of a small occupancy."""
    occupancy = hv.Occupancy.from_dense(counts)
    return hv.plan(occupancy, bounds=(0, 10), advise=False, **ASKED[name])


@pytest.mark.parametrize("name", ASKED)
def test_a_plan_comes_back_to_the_bit(name):
    """Rows, bounds, losses and errors of a kept plan are those of the plan."""
    plan = planned(name)
    noise, factor = plan.allocation.noise_scale_records * 3, plan.allocation.contribution_factor / 2
    other = replace(
        plan,
        allocation=replace(plan.allocation, noise_scale_records=noise, contribution_factor=factor),
    )
    back = decode(encode(plan), other)
    assert encode(back) == encode(plan)
    assert np.array_equal(back.losses(), plan.losses())
    assert back.epsilon == plan.epsilon
    assert back.table.equals(plan.table)
    assert back.users.equals(plan.users)
    assert (back.lower_bound, back.bound_kind) == (plan.lower_bound, plan.bound_kind)
    assert not back.allocation.noise_scale_records.flags.writeable


def test_dropped_pairs_come_back():
    """Pairs of which nothing is kept are part of the plan."""
    plan = planned("suppressed")
    dropped = np.arange(plan.occupancy.n_pairs) % 3 == 0
    made = replace(plan, allocation=replace(plan.allocation, suppressed_pairs=dropped))
    assert np.array_equal(decode(encode(made), plan).allocation.suppressed_pairs, dropped)


def test_the_version_that_made_it_is_known():
    """A half-drawn release is finished by the version that began it."""
    assert made_by(encode(planned())) == hv.__version__


def changed(kept, change):
    """Return a kept plan whose header was changed."""
    start = len(plan_codec.MAGIC) + 8
    size = int.from_bytes(kept[start - 8 : start], "little")
    plain = pa.decompress(kept[start:], size, codec="zstd", asbytes=True)
    end = 8 + int.from_bytes(plain[:8], "little")
    words = json.dumps(change(json.loads(plain[8:end]))).encode()
    whole = len(words).to_bytes(8, "little") + words + plain[end:]
    packed = pa.compress(whole, codec="zstd", asbytes=True)
    return plan_codec.MAGIC + len(whole).to_bytes(8, "little") + packed


def test_a_later_format_is_refused_by_its_version():
    """The sentence says which version wrote it."""
    kept = changed(encode(planned()), lambda said: said | {"format": 9, "hexveil": "7.1"})
    with pytest.raises(InputError, match=r"written by hexveil 7\.1 \(format 9\)"):
        decode(kept, planned())


def test_a_plan_of_other_counts_is_refused():
    """Arrays of other lengths are no plan of these records."""
    with pytest.raises(StorageError, match="is damaged"):
        decode(encode(planned(counts=COUNTS[:, :2])), planned())


@pytest.mark.parametrize("byte", range(8))
def test_a_damaged_size_is_one_sentence(byte):
    """Memory is asked for by the size that is kept, however large it became."""
    kept = bytearray(KEPT)
    kept[len(b"hexveil plan\n") + byte] ^= 0x40
    with pytest.raises(StorageError, match="is damaged"):
        decode(bytes(kept), PLAN)


@given(st.data())
def test_damage_is_one_sentence(data):
    """Whatever happens to the bytes, the answer is a plan or one sentence."""
    kept, plan = bytearray(KEPT), PLAN
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(kept) - 1))
        kept[place] ^= 1 << data.draw(st.integers(0, 7))
    kept = bytes(kept[: data.draw(st.integers(0, len(kept)))])
    with contextlib.suppress(StorageError, InputError):
        assert decode(kept, plan).occupancy is plan.occupancy


PLAN = planned("interval")
KEPT = encode(PLAN)
