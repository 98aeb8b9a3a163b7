"""Codes of missing readings: a short list, outside the bounds, one for each account."""

import pyarrow as pa
import pytest

import hexveil as hv
from hexveil import InputError
from records.printed import sums_query

MODELS = ("values", "presence")


def arguments(model="values", **select):
    """Return the arguments of a reading of one ward."""
    values = {"values": ["x"]} if model == "presence" else {}
    return {
        "user": "bus", "value": "v", "bounds": (0, 60), "cells": hv.Labels("ward", **values),
        "protect": model, "select": hv.Select(**select),
    }  # fmt: skip


def read(model="values", **select):
    """Return records of 40 buses, some without a reading."""
    values = [float(k % 59) if k % 7 else -1.0 for k in range(160)]
    rows = {"bus": [f"b{k // 4}" for k in range(160)], "v": values, "ward": ["x"] * 160}
    return hv.read(pa.table(rows), **arguments(model, **select))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("code", [1, "30", 59.999])
def test_a_code_within_the_bounds_is_refused_unless_it_is_accepted(code, model):
    """It could be a reading, and its exact count is not noised; at a bound or beyond it may be."""
    with pytest.raises(InputError, match="accept_value_dependent_counts = true"):
        read(model, drop_values=[code])
    assert read(model, drop_values=[code], accept_value_dependent_counts=True)
    assert read(model, drop_values=[-1, 0, 60, 9999])


def test_declared_readings_and_queries_refuse_the_same():
    """No record is needed for it."""
    with pytest.raises(InputError, match="drop_values: 7 lies within the bounds"):
        hv.declare(**arguments("presence", drop_values=[7]))
    options = {name: one for name, one in arguments(drop_values=[7]).items() if name != "protect"}
    with pytest.raises(InputError, match="drop_values: 7 lies within the bounds"):
        sums_query(source="trips", dialect="duckdb", **options)


def test_codes_are_few():
    """A filter of values is none of them."""
    assert hv.Select(drop_values=range(100, 108)).drop_values
    with pytest.raises(InputError, match="at most 8 codes of a missing reading, got 9"):
        hv.Select(drop_values=range(100, 109))
    with pytest.raises(InputError, match="accept_value_dependent_counts must be true or false"):
        hv.Select(accept_value_dependent_counts="yes")


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_an_account_takes_one_list_of_codes(model, tmp_path):
    """Its spelling and order are free; with another list values could be counted one by one."""
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=20)

    def release(edition, *codes):
        fleet = {"fleet": 40} if model == "presence" else {}
        dataset = read(model, drop_values=codes)
        plan = hv.plan(dataset, epsilon=2, edition=edition, **fleet)
        return hv.release(dataset, plan, ledger=book, accept_noise=True)

    release("a", -1, 999)
    assert release("a", "999.0", -1.0).replayed
    assert not release("b", 999, "-1").replayed
    for codes in ((), (-1,), (-1, 998, 999)):
        with pytest.raises(InputError, match="drop the missing-value codes -1,999, this one"):
            release("c", *codes)
    assert book.account.missing_values == "-1,999"
    assert not book.verify().problems
