"""Repeats of a user and time: the rule of `records.duckdb.counting`, through public doors."""

import itertools
from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil import InputError
from records import oracle
from records.engines import pairs_of
from records.printed import sums_query

PLACES, VALUES, SPAN = ("a", "b", "c"), (0, 1, 4), 4
READING = {
    "user": "bus", "value": "speed", "time": "at", "bounds": (0, SPAN), "quantum": 1,
    "cells": hv.Labels("line"), "select": hv.Select(min_users=1), "accept_single_records": True,
    "max_repeats": 1,
}  # fmt: skip


def table(rows):
    """Return records (bus, second, line, speed)."""
    bus, at, line, speed = zip(*rows, strict=True)
    return pa.table({"bus": bus, "at": at, "line": line, "speed": pa.array(speed, pa.float64())})


def told(rows, **more):
    """Return {(line, bus): (records, sum, squares)} of reading, and the counts of its rules."""
    read = hv.read(table(rows), **{**READING, **more})
    return pairs_of(read), dict(read.public.rules)


def expected(rows):
    """Return the pairs of `told` by plain Python."""
    kept = oracle.without_repeats([(b, at * 10**6, line, speed) for b, at, line, speed in rows])
    pairs = {}
    for bus, _, line, k in kept:
        n, total, squares = pairs.get((line, bus), (0, 0, 0))
        pairs[line, bus] = n + 1, total + k, squares + k * k
    return pairs


def small_worlds():
    """Return every instance of up to three repeats at three places and of three values, as a bus.

    Each at two instants, of which the draws differ.
    """
    records = list(itertools.product(PLACES, VALUES))
    worlds = [w for n in (1, 2, 3) for w in itertools.combinations_with_replacement(records, n)]
    return [
        (f"bus {i}", 1_700_000_000 + second, *record)
        for i, world in enumerate(worlds)
        for second in (0, 1)
        for record in world
    ]


def test_every_small_instance_follows_the_rule():
    rows = small_worlds()
    assert told(rows)[0] == expected(rows)
    # The order of records says nothing: averages are sums of whole numbers.
    assert told(rows[::-1])[0] == expected(rows)


def test_the_query_for_warehouses_follows_the_rule():
    rows = small_worlds()
    records = table(rows)
    options = {name: READING[name] for name in ("user", "value", "time", "bounds", "quantum")}
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.register("given", records)
        engine.execute(
            'CREATE TABLE records AS SELECT * REPLACE (to_timestamp("at") AS "at") FROM given'
        )
        query = sums_query(
            source="records", **options, cells=READING["cells"], select=READING["select"],
            dialect="duckdb",
        )  # fmt: skip
        found = engine.execute(query).fetchall()
    pairs = {(line, bus): (n, total, squares) for line, bus, n, total, squares in found}
    assert pairs == expected(rows)


@pytest.mark.slow
@pytest.mark.parametrize("places", [("a", "a", "b"), ("c", "b", "a"), ("b", "b", "b")])
def test_no_value_decides_who_is_counted_and_a_sum_moves_as_by_one_record(places):
    """All values of one bus at one instant: the same counts, and sums from 0 to the span."""
    facts, totals = [], []
    for values in itertools.product(VALUES, repeat=3):
        rows = [("x", 5, line, v) for line, v in zip(places, values, strict=True)]
        rows += [("y", 5, "a", 1), ("y", 6, "c", 4)]
        pairs, rules = told(rows)
        facts.append((rules, {key: numbers[0] for key, numbers in pairs.items()}))
        totals.append({key: numbers[1] for key, numbers in pairs.items()})
    assert all(fact == facts[0] for fact in facts)
    moved = {key for key in totals[0] if len({total[key] for total in totals}) > 1}
    assert {bus for _, bus in moved} == {"x"}
    spread = sum(max(t[key] for t in totals) - min(t[key] for t in totals) for key in moved)
    assert spread == SPAN


def test_no_other_unit_decides_who_is_counted():
    rows = small_worlds()
    every, _ = told(rows)
    few, _ = told([row for row in rows if row[0] < "bus 2"])
    assert few == {key: numbers for key, numbers in every.items() if key[1] < "bus 2"}


@pytest.mark.slow
def test_no_place_and_no_value_is_favoured():
    """Times floored to the hour: places count as often as they were reported, with their values."""
    rng = np.random.default_rng(4)
    reported = {"a": (0, 5), "b": (2, 2), "c": (4, 3)}
    rows = [
        (f"bus {i}", 3600 * hour, line, int(np.clip(speed + rng.integers(-1, 2), 0, SPAN)))
        for i in range(40)
        for hour in range(60)
        for line, (speed, times) in reported.items()
        for _ in range(times)
    ]
    # In fine steps: averages are rounded to the quantum.
    pairs, _ = told(rows, quantum="0.01")
    counted, total = Counter(), Counter()
    for (line, _), (n, quanta, _) in pairs.items():
        counted[line] += n
        total[line] += quanta
    every = {line: [row[3] for row in rows if row[2] == line] for line in reported}
    for line, (_, times) in reported.items():
        assert counted[line] / 2400 == pytest.approx(times / 10, abs=0.04)
        assert total[line] / counted[line] / 100 == pytest.approx(np.mean(every[line]), abs=0.05)


def test_many_repeats_are_refused_with_both_ways_out():
    rows = [(f"bus {i}", 3600, "a", i % 4) for i in range(10) for _ in range(5)]
    with pytest.raises(
        InputError, match="40 of 50 records \\(80%\\) have the user and time"
    ) as told_of:
        told(rows, max_repeats=0.2)
    assert 'repeats = "keep"' in str(told_of.value)
    assert "max_repeats = 0.8" in str(told_of.value)
    assert told(rows, max_repeats=0.8)[1]["repeats of a user and time"] == 40
    assert told(rows, repeats="keep", max_repeats=0)[1]["records left"] == 50
    with pytest.raises(InputError, match="max_repeats must be a share from 0 to 1"):
        told(rows, max_repeats=20)


def test_readme_and_page_tell_of_many_repeats(tmp_path):
    rows = [(f"bus {i}", 3600 + 60 * k, "a", i % 4) for i in range(40) for k in range(3)]
    read = hv.read(table(rows + rows[:60]), **READING)
    ledger = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=5)
    plan = hv.plan(read, epsilon=2, advise=False)
    hv.release(read, plan, ledger=ledger, accept_noise=True).write(tmp_path / "map")
    told = "60 of 180 records (33%) had the vehicle and time of another. Of each such group"
    for name in ("README.txt", "report.html"):
        assert told in " ".join((tmp_path / "map" / name).read_text("utf-8").split())
    assert hv.verify(tmp_path / "map")["components"][0]["rules"]["repeats of a user and time"] == 60
