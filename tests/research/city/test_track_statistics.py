"""The statistics of the simulated city are like those of real cities."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil_research.city import track_statistics

ZONES = {"city_timezone": "UTC", "real_timezone": "UTC"}


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
