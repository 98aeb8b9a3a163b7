"""What public facts refuse is refused before a booking: over bounds, quanta and statistics."""

from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given

import hexveil as hv
from examples import examples

PLAIN = ("mean", "p50", "p85", "histogram")
DISTRIBUTIONS = [{"estimator": kind} for kind in ("auto", "ranks", "bins")]
MOMENTS = [
    {},
    {"method": "per-cell", "mechanism": "Auto"},
    *({"clipping_range": kind} for kind in ("private", "per-cell", "auto")),
]


def records(lower, upper):
    """Return records of 40 vehicles in two wards, with values within bounds and beyond."""
    rng = np.random.default_rng(3)
    bus = np.repeat(np.arange(40), 6)
    ward = rng.integers(0, 2, bus.size)
    value = float(lower) + float(upper - lower) * rng.normal(0.5, 0.3, bus.size)
    return pa.table({"bus": bus.astype(str), "ward": ward.astype(str), "v": value})


@st.composite
def requests(draw):
    """Return bounds, quantum, statistics, privacy model and options of a plan."""
    quantum = draw(st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 10), Fraction(5)]))
    lower = quantum * draw(st.integers(-3, 3))
    upper = lower + quantum * draw(st.integers(1, 90))
    model = draw(st.sampled_from(["values", "presence"]))
    # At the bounds themselves as well: whether a vehicle stands is the share above 0.
    threshold = float(draw(st.sampled_from([lower, lower + quantum, upper - quantum])))
    names = (*PLAIN, f"share<={threshold:g}", f"share>{threshold:g}")
    names += ("variance", "sd") if model == "values" else ("users",)
    asked = tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True)))
    options = {"delta": draw(st.sampled_from([None, "0.001"]))}
    if model == "values":
        shaped = not {*asked} <= {"mean", "variance", "sd"}
        options |= draw(st.sampled_from(DISTRIBUTIONS if shaped else MOMENTS))
    epsilon = draw(st.sampled_from(["1", "20"]))
    return (lower, upper), quantum, asked, model, {"epsilon": epsilon, **options}


def publish(bounds, quantum, asked, model, options):
    """Release into a new ledger; return it, and the release or why there is none."""
    book = hv.Ledger("memory://", dataset="buses", budget="100", delta=options["delta"])
    declared = {"values": ["0", "1"]} if model == "presence" else {}
    fleet = {"fleet": 40} if model == "presence" else {}
    read = {
        "user": "bus", "value": "v", "bounds": bounds, "quantum": quantum, "statistics": asked,
        "protect": model, "cells": hv.Labels("ward", **declared),
    }  # fmt: skip
    try:
        dataset = hv.read(records(*bounds), **read)
        plan = hv.plan(dataset, statistics=asked, **options, **fleet)
        return book, hv.release(dataset, plan, ledger=book, accept_noise=True)
    except hv.InputError as error:
        return book, error


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hexveil.GridTooFineWarning")
@examples(40)
@given(requests())
@example(((0, 10), 1, ("histogram",), "values", {"epsilon": "20", "delta": None}))
@example(((0, 10), 1, ("histogram", "mean"), "presence", {"epsilon": "20", "delta": None}))
@example(((0, 1), 1, ("p50", "histogram"), "values", {"epsilon": "20", "delta": None}))
@example(((0, 80), 1, ("share>0",), "presence", {"epsilon": "1", "delta": None}))
def test_a_release_is_refused_before_it_is_booked_or_made(request):
    """Whatever bounds, quantum and statistics: a sentence and nothing spent, or a release."""
    book, made = publish(*request)
    if isinstance(made, hv.InputError):
        assert not book.spent, made
    else:
        assert made.table.num_rows == 2
