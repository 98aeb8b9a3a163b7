"""The PRIVATE check of values: each finding, and nothing shown by accident."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil.records import RecordFormat
from hexveil.records.value_checks import check_values, unit_jumps

OPTIONS = {"user": "bus", "value": "speed", "bounds": (0, 60)}
DAY = 86_400


def records(values, users=5, day=0):
    """Return records of buses in turn, a minute apart."""
    return pa.table(
        {
            "bus": [f"b{i % users}" for i in range(len(values))],
            "speed": values,
            "at": [1_700_000_000 + day * DAY + 60 * i for i in range(len(values))],
        }
    )


def speeds(size, factor=1.0):
    """Return speeds from 10 to 49 km/h, times a factor."""
    return [float(10 + (7 * i) % 40) * factor for i in range(size)]


def test_shares_beyond_the_bounds():
    """Values below and above the bounds are counted, those at the bounds are not."""
    found = check_values(records([-1.5, 0.0, 30.0, 60.0, 61.0, 1e9, float("nan")]), **OPTIONS)
    assert found.records == 6
    assert found.below_share == pytest.approx(1 / 6)
    assert found.above_share == pytest.approx(2 / 6)


def test_days_and_files_in_another_unit(tmp_path):
    """A day, or a file, in m/s between others in km/h is named; equal ones are not."""
    tables = [records(speeds(200), day=0), records(speeds(90, 1 / 3.6), day=3)]
    both = pa.concat_tables(tables)
    found = check_values(both, **OPTIONS, time="at", timezone="UTC")
    assert [(jump.group, jump.unit) for jump in found.jumps] == [
        ("2023-11-17", "m/s where others are in km/h")
    ]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    found = check_values(str(tmp_path), **OPTIONS)
    (jump,) = found.jumps
    assert jump.group.endswith("1.parquet'")
    assert jump.ratio == pytest.approx(1 / 3.6, rel=0.05)
    assert check_values(tables[0], **OPTIONS, time="at", timezone="UTC").jumps == ()


@pytest.mark.parametrize("factor", [0.7, 1.3, 1.0, 5.0])
def test_days_that_merely_differ_are_no_jump(factor):
    """A slow or a fast day is not one in another unit."""
    quartiles = [10.0, 20.0, 40.0]
    other = [factor * value for value in quartiles]
    assert unit_jumps([("a", 90.0, quartiles), ("b", 80.0, other)]) == ()
    uneven = [quartiles[0] * 3.6, quartiles[1] * 1.1, quartiles[2]]
    assert unit_jumps([("a", 90.0, quartiles), ("b", 80.0, uneven)]) == ()


def test_a_declared_unit_is_read():
    """A value that cannot be read is none; a declared format reads it."""
    values = ["12,5", "13.0", "14 km/h", "15 km/h", "none"]
    found = check_values(records(values), **OPTIONS)
    assert found.records == 1
    declared = check_values(records(values), **OPTIONS, format=RecordFormat(unit_suffix="km/h"))
    assert declared.records == 2


def test_sentinels_constants_and_a_dominant_user():
    """A sentinel, a value of many records, a stuck sensor and one large user are found."""
    values = [-1.0] * 4 + [0.0] * 100 + speeds(200)
    table = records(values, users=1)
    stuck = pa.table({"bus": ["z"] * 30, "speed": [7.0] * 30, "at": [0] * 30})
    found = check_values(pa.concat_tables([table, stuck]), **OPTIONS)
    assert {value for value, _ in found.frequent} == {-1.0, 0.0}
    assert (found.constant_users, found.users) == (1, 2)
    assert found.largest_user_share == pytest.approx(304 / 334)


def test_nothing_private_is_in_a_repr():
    """Neither findings nor jumps show a figure by accident."""
    found = check_values(records(speeds(50) + speeds(50, 1 / 3.6)), **OPTIONS)
    assert repr(found) == "ValueChecks(private)"
    assert "3.6" not in repr(unit_jumps([("a", 90.0, [1, 2, 3]), ("b", 80.0, [3.6, 7.2, 10.8])]))
