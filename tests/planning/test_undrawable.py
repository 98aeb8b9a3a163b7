"""What no release could draw is refused by the plan, from public facts."""

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil import InputError

RNG = np.random.default_rng(1)
N = 4000
TABLE = pa.table(
    {
        "bus": [f"b{i % 80}" for i in range(N)],
        "ward": [f"w{i % 3}" for i in range(N)],
        "v": RNG.uniform(0, 60, N),
        "w": RNG.uniform(0, 60, N),
    }
)


def read(**changes):
    """Return the records, within bounds of many quanta."""
    options = {
        "user": "bus", "value": "v", "bounds": ("-1e12", "1e12"), "quantum": "0.01",
        "cells": hv.Labels("ward"),
    }  # fmt: skip
    return hv.read(TABLE, **options | changes)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "equal-split"},
        {"clipping_range": "private"},
        {"delta": "1e-9"},
        {"statistics": ["mean", "variance"]},
    ],
)
def test_a_lattice_that_cannot_be_drawn_is_refused_by_the_plan(options):
    """Before anything is booked, and not only by the release."""
    with pytest.raises(InputError, match="does not fit whole numbers of 64 bits"):
        hv.plan(read(), epsilon=1, advise=False, **options)


def test_of_each_value_column(tmp_path):
    """And beside shares, whose means are drawn too."""
    dataset = read(value=["v", "w"], bounds={"v": ("-1e12", "1e12"), "w": (0, 60)})
    with pytest.raises(InputError, match="64 bits"):
        hv.plan(dataset, epsilon=1, advise=False)
    shares = read(statistics=["share<10"])
    with pytest.raises(InputError, match="64 bits"):
        hv.plan(shares, epsilon=1, statistics=["mean", "share<10"], advise=False)


def test_a_coarser_quantum_is_the_way_out():
    """As the sentence says."""
    assert hv.plan(read(quantum="10000"), epsilon=1, advise=False).epsilon


@pytest.mark.parametrize("delta", [1e-300, "1e-299"])
def test_a_delta_too_small_is_told_to_be_larger(delta):
    """And not that ε alone should be."""
    with pytest.raises(InputError, match="use a larger delta, such as 1e-9"):
        hv.plan(read(bounds=(0, 60)), epsilon=1, delta=delta, advise=False)
