"""The unit that an account pins: its days are by the slots' clock and by that of naive times."""

import datetime as dt

import pyarrow as pa
import pyarrow.csv
import pytest

import hexveil as hv
from publishing.setting import dataset_of

WARSAW, KOLKATA = "Europe/Warsaw", "Asia/Kolkata"
HOURS = [dt.datetime.fromisoformat(f"2026-11-20T{hour}:00:00") for hour in ("01", "09", "17", "22")]
NAIVE = [hour.isoformat() for hour in HOURS]
OFFSET = [f"{hour.isoformat()}+05:30" for hour in HOURS]
TIMES = {
    "naive text": pa.array(NAIVE * 2),
    "text with offsets": pa.array(OFFSET * 2),
    "some naive text": pa.array(OFFSET + NAIVE),
    "naive times": pa.array(HOURS * 2, pa.timestamp("us")),
    "times with offsets": pa.array(HOURS * 2, pa.timestamp("us", "UTC")),
    "numbers": pa.array([1_763_600_000 + 3600 * i for i in range(8)]),
}
NEEDS_SECOND = {"naive text", "some naive text", "naive times"}


def read(times, timezone=None, privacy_unit="user-day", **more):
    """Return the records of two buses at eight times."""
    size = len(times)
    rows = {
        "bus": ["a", "b"] * (size // 2), "v": [1.0] * size, "at": times, "lat": [52.2] * size,
        "lon": [21.0] * size,
    }  # fmt: skip
    arguments = {
        "user": "bus", "value": "v", "lat": "lat", "lon": "lon", "time": "at", "bounds": (0, 60),
        "privacy_unit": privacy_unit, "cells": hv.Cells(5, "1d", WARSAW), "timezone": timezone,
        "max_repeats": 1,
        "select": hv.Select(min_users=1),
    }  # fmt: skip
    return hv.read(pa.table(rows), **arguments | more)


def pinned(dataset):
    """Return the unit of the account that a first release opens."""
    book = hv.Ledger("memory://", dataset="buses", budget=100)
    plan = hv.plan(dataset, epsilon=20, method="per-cell", advise=False)
    hv.release(dataset, plan, ledger=book, accept_noise=True)
    return book.account.unit


@pytest.mark.slow
@pytest.mark.parametrize("kind", TIMES)
def test_the_second_clock_is_named_where_it_matters(kind):
    """Only where some kept time has no offset, and is read on another clock than that of slots."""
    found = [pinned(read(TIMES[kind], zone)) for zone in (None, WARSAW, KOLKATA)]
    second = f"; times without an offset: {KOLKATA}" if kind in NEEDS_SECOND else ""
    days = f"user-day ({WARSAW})"
    assert found == [days, days, f"user-day ({WARSAW}{second})"]


def test_users_have_no_clock():
    """What a user loses does not depend on when days begin."""
    assert pinned(read(TIMES["naive text"], KOLKATA, privacy_unit="user")) == "user"


def test_sums_that_say_no_clock_are_of_none():
    """Sums made elsewhere without slots do not say by which clock their days are."""
    assert pinned(dataset_of([[3, 2], [2, 2]])) == "user"
    rows = {"cell": ["x"], "user": ["a 2026-11-20"], "n": [1], "sum": [1.0]}
    days = hv.from_sums(pa.table(rows), bounds=(0, 60), privacy_unit="user-day", min_users=1)
    assert pinned(days) == "user-day (clock not named)"


@pytest.mark.slow
def test_one_reading_is_not_charged_to_two_days(tmp_path):
    """Naive times read on two clocks are two populations; the second is refused, both are named."""
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=100)

    def release(zone):
        data = read(TIMES["naive text"], zone)
        plan = hv.plan(data, epsilon=20, method="per-cell", advise=False)
        return hv.release(data, plan, ledger=book)

    release("UTC")
    with pytest.raises(hv.InputError, match=r"offset: UTC.*without an offset: Asia/Kolkata"):
        release(KOLKATA)
    assert len(book.entries()) == 1


@pytest.mark.parametrize("is_first", [False, True])
def test_a_map_without_noise_is_refused_where_presence_is_private(is_first):
    """Constants cost nothing, but the counts beside them say who was there: before and after."""
    book, counted = hv.Ledger("memory://", dataset="buses", budget=100), dataset_of([[3, 2]] * 30)
    declared = hv.read(
        pa.table({"bus": ["a"], "v": [1.0], "ward": ["0"]}), user="bus", value="v", bounds=(0, 60),
        protect="presence", cells=hv.Labels("ward", values=["0", "1"]),
    )  # fmt: skip
    plan = hv.plan(declared, epsilon=1, fleet=2000, advise=False)
    constants = hv.plan(counted, target_error=40, advise=False)
    assert not constants.epsilon
    private, public = (declared, plan), (counted, constants)
    first, second = (public, private) if is_first else (private, public)
    hv.release(*first, ledger=book, accept_noise=True)
    with pytest.raises(hv.InputError, match=r"protect a user.*this one a user"):
        hv.release(*second, ledger=book, accept_noise=True)
    assert len(book.entries()) == (not is_first)
    assert book.verify().problems == ()
