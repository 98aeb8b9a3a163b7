"""The PRIVATE check of values: each finding, and nothing shown by accident."""

import pyarrow as pa
import pytest

from hexveil.records.value_checks import check_values

OPTIONS = {"user": "bus", "value": "speed", "bounds": (0, 60)}


def records(values, users=5):
    """Return records of buses in turn."""
    return pa.table(
        {
            "bus": [f"b{i % users}" for i in range(len(values))],
            "speed": values,
        }
    )


def speeds(size):
    """Return speeds from 10 to 49 km/h."""
    return [float(10 + (7 * i) % 40) for i in range(size)]


def test_shares_beyond_the_bounds():
    """Values below and above the bounds are counted, those at the bounds are not."""
    found = check_values(records([-1.5, 0.0, 30.0, 60.0, 61.0, 1e9, float("nan")]), **OPTIONS)
    assert found.records == 6
    assert found.below_share == pytest.approx(1 / 6)
    assert found.above_share == pytest.approx(2 / 6)


def test_sentinels_and_a_dominant_user():
    """A sentinel, a value of many records and one large user are found; a repr shows nothing."""
    values = [-1.0] * 4 + [0.0] * 100 + speeds(200)
    table = records(values, users=1)
    stuck = pa.table({"bus": ["z"] * 30, "speed": [7.0] * 30})
    found = check_values(pa.concat_tables([table, stuck]), **OPTIONS)
    assert {value for value, _ in found.frequent} == {-1.0, 0.0}
    assert found.users == 2
    assert found.largest_user_share == pytest.approx(304 / 334)
    assert repr(found) == "ValueChecks(private)"
