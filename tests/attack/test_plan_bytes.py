"""Plans as bytes: what comes back is what was kept, and anything else is one sentence."""

import contextlib
import json

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import hexveil as hv
from examples import some
from hexveil import InputError, StorageError
from hexveil.planning.codec import MAGIC
from hexveil.planning.component import goal
from hexveil.planning.saved_plans import decode, encode, made_by
from mechanisms.setting import dataset_of
from planning.kinds_of_plans import KINDS, planned, records_of

PLAN = planned("range", records_of("range"))
KEPT = encode(PLAN)


def test_the_version_that_made_it_is_known():
    """A half-drawn release is finished by the version that began it."""
    assert made_by(KEPT) == hv.__version__


@pytest.mark.parametrize("kind", some(KINDS, 6))
def test_what_is_kept_comes_back_to_the_last_bit(kind):
    """A plan of each kind is the same after its bytes: losses, decisions, and the bytes again."""
    plan = planned(kind, records_of(kind))
    kept = encode(plan)
    again = decode(kept, plan)
    assert encode(again) == kept
    assert again.losses().tobytes() == plan.losses().tobytes()
    assert goal(again) == goal(plan)


def changed(kept, change):
    """Return a kept plan whose header was changed."""
    start = len(MAGIC) + 8
    size = int.from_bytes(kept[start - 8 : start], "little")
    plain = pa.decompress(kept[start:], size, codec="zstd", asbytes=True)
    end = 8 + int.from_bytes(plain[:8], "little")
    words = json.dumps(change(json.loads(plain[8:end]))).encode()
    whole = len(words).to_bytes(8, "little") + words + plain[end:]
    packed = pa.compress(whole, codec="zstd", asbytes=True)
    return MAGIC + len(whole).to_bytes(8, "little") + packed


def test_a_later_format_is_refused_by_its_version():
    """The sentence says which version wrote it."""
    kept = changed(KEPT, lambda said: said | {"format": 9, "hexveil": "7.1"})
    with pytest.raises(InputError, match=r"written by hexveil 7\.1 \(format 9\)"):
        decode(kept, PLAN)


def test_a_plan_of_other_counts_is_refused():
    """Arrays of other lengths are no plan of these records."""
    with pytest.raises(StorageError, match="is damaged"):
        decode(
            KEPT,
            planned("range", dataset_of([[1, 2], [2, 0]], squares=np.zeros(3, dtype=np.int64))),
        )


@pytest.mark.parametrize("byte", range(8))
def test_a_damaged_size_is_one_sentence(byte):
    """Memory is asked for by the size that is kept, however large it became."""
    kept = bytearray(KEPT)
    kept[len(MAGIC) + byte] ^= 0x40
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
