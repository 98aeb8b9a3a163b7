"""The named statistics: right on small tables, and like those of real cities."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil_research.city import track_statistics

START = dt.datetime(2024, 1, 1, 6, 0, tzinfo=dt.UTC)
ZONES = {"city_timezone": "UTC", "real_timezone": "UTC"}


def tracks(rows):
    """Return tracks of (user, minutes since 6 o'clock, speed) at one place, or at a given one."""
    return pa.table(
        {
            "user_id": [row[0] for row in rows],
            "lat": [row[3] if len(row) > 3 else 21.2 for row in rows],
            "lon": [74.9 for _ in rows],
            "timestamp": pa.array(
                [START + dt.timedelta(minutes=row[1]) for row in rows], pa.timestamp("us", "UTC")
            ),
            "value": [float(row[2]) for row in rows],
        }
    )


def found(table, statistic):
    """Return a statistic's values by quantile."""
    rows = table.to_pylist()
    return {row["quantile"]: row["value"] for row in rows if row["statistic"] == statistic}


@pytest.fixture(scope="module")
def compared():
    """Compare the city with each real set, once."""
    return {}


def comparisons(shared, compared):
    """Return the comparison with each real set."""
    for name in track_statistics.COUNTERPARTS:
        if name not in compared:
            real = pq.read_table(shared / "data" / f"{name}.parquet")
            compared[name] = track_statistics.compare(name, real)
    return compared


def text(table):
    """Return ratios as text, for a failing test; no number of the real records."""
    return "\n".join(str(row) for row in table.to_pylist())


@pytest.mark.slow
def test_every_statistic_is_like_surats_or_warsaws(shared, compared):
    """Each quantile of each statistic is within a factor of two of Surat's or Warsaw's."""
    table = track_statistics.verdict(comparisons(shared, compared))
    assert table.num_rows == 6 * 6 + 1 + 5
    assert all(table["holds"].to_pylist()), text(table)


@pytest.mark.slow
def test_the_test_can_fail(shared, compared):
    """A city whose buses are three times as fast, or twice as many in a cell, does not hold."""
    sets = comparisons(shared, compared)
    for statistic, factor in (("speed above 0", 3.0), ("users per cell, resolution 7", 3.5)):
        wrong = {}
        for name, table in sets.items():
            of = np.array([row == statistic for row in table["statistic"].to_pylist()])
            ratio = np.asarray(table["ratio"]) * np.where(of, factor, 1.0)
            wrong[name] = table.set_column(4, "ratio", pa.array(ratio))
        assert not all(track_statistics.verdict(wrong)["holds"].to_pylist())


def test_users_records_and_cells_are_counted():
    """By hand: three users, two hexagons, two hours."""
    rows = [
        ("a", 0, 1),
        ("a", 1, 0),
        ("a", 61, 2),
        ("b", 2, 3),
        ("c", 3, 4, 21.9),
        ("c", 4, 0, 21.9),
    ]
    table = track_statistics.statistics(tracks(rows), "UTC")
    assert found(table, "records per user") == pytest.approx(
        {0.1: 1.2, 0.25: 1.5, 0.5: 2, 0.75: 2.5, 0.9: 2.8, 1.0: 3}
    )
    for resolution in (7, 8):
        # Users a and b at 6 o'clock, a at 7, c elsewhere.
        per_cell = found(table, f"users per cell, resolution {resolution}")
        assert (per_cell[0.5], per_cell[1.0]) == (1, 2)
        per_user = found(table, f"cells per user, resolution {resolution}")
        assert (per_user[0.5], per_user[1.0]) == (1, 2)
    assert found(table, "share of speeds that are 0") == {None: pytest.approx(1 / 3)}
    assert found(table, "speed above 0")[0.5] == 2.5


def test_autocorrelation_is_pearsons_of_pairs_so_far_apart():
    """Against a plain loop over pairs, on users of irregular times."""
    generator = np.random.default_rng(4)
    rows = []
    for user in "abc":
        minutes = np.cumsum(generator.uniform(0.05, 0.5, 200))
        rows += [(user, m, v) for m, v in zip(minutes, generator.gamma(2, 9, 200), strict=True)]
    shuffled = [rows[i] for i in generator.permutation(len(rows))]
    table = track_statistics.statistics(tracks(shuffled), "UTC")
    for name, lag in track_statistics.LAGS.items():
        pairs = []
        for user, minute, value in rows:
            later = [(abs(60 * (m - minute) - lag), v) for u, m, v in rows if u == user]
            off, other = min(later)
            if off <= lag / 4:
                pairs.append((value, other))
        expected = np.corrcoef(np.array(pairs).T)[0, 1]
        got = found(table, f"autocorrelation of speed after {name}")[None]
        assert got == pytest.approx(expected, abs=1e-9)


def test_the_city_is_cut_to_the_minutes_of_real_records():
    """Minutes of the day, each by its own clock; the date does not matter."""
    city = tracks([("a", m, m) for m in range(0, 120, 10)])
    real = tracks([("x", 24 * 60 + 20, 1), ("y", 40, 2)])
    cut = track_statistics.same_minutes(city, real, **ZONES)
    assert cut["value"].to_pylist() == [20.0, 40.0]
    later = track_statistics.same_minutes(
        city, real, city_timezone="Europe/Warsaw", real_timezone="UTC"
    )  # an hour ahead of UTC in winter
    assert later["value"].to_pylist() == []
