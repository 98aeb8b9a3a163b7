"""Private presence in Spark: the totals, counts and declared facts of one machine."""

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.accounting.noise_law import Laplace
from hexveil.mechanisms.presence import PresenceSums
from hexveil.mechanisms.presence.count_map import unit_counts
from hexveil.mechanisms.stage_data import Outputs
from hexveil.publishing import pipeline

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def records(n=900):
    """Return records of cars on routes; some are unusable, elsewhere, or repeats."""
    draw = np.random.default_rng(3)
    return pa.table(
        {
            "car": [f"car {i}" for i in draw.integers(0, 60, n)],
            "route": [f"r{i}" for i in draw.integers(0, 7, n)],
            "speed": np.where(draw.random(n) < 0.1, np.nan, draw.uniform(-5, 65, n)),
            "time": 1767225600 + draw.integers(0, 2 * 1440, n) * 60,
        }
    )


OPTIONS = {
    "user": "car", "value": "speed", "bounds": (0, 60), "time": "time", "timezone": "UTC",
    "cells": hv.Labels("route", values=[f"r{i}" for i in range(6)]), "protect": "presence",
}  # fmt: skip


class Middle:
    """Noise that returns what it is given, and a middle candidate by the scores."""

    def laplace(self, values, scales):  # noqa: ARG002  see NoiseSource
        """Return the measured numbers themselves."""
        return values.copy()

    def noisy_max(self, scores, sizes, scale):  # noqa: ARG002  see NoiseSource
        """Return the best candidate."""
        return scores.argmax(axis=1).astype(np.int64)


STATISTICS = {
    ("mean",): {"user_cap": 40},
    ("mean", "p50", "share>30"): {},
}


@pytest.mark.parametrize(
    "statistics",
    [one if len(one) == 1 else pytest.param(one, marks=pytest.mark.slow) for one in STATISTICS],
)
def test_spark_adds_up_what_one_machine_does(spark, tmp_path, monkeypatch, statistics):
    """Every stage of a release measures the same numbers, whichever engine holds the pairs."""
    from hexveil.records.spark import pair_blocks  # noqa: PLC0415  only where Spark is

    monkeypatch.setattr(pair_blocks, "BLOCK_PAIRS", 200)
    monkeypatch.setattr(pipeline, "VettedNoise", Middle)
    days = hv.Select(dates=("2026-01-01", "2026-01-02"))
    options = OPTIONS | {"privacy_unit": "user-day", "select": days, "statistics": statistics}
    here = hv.read(records(), **options)
    there = hv.read(records(), engine=spark, **options)
    assert there.counts.lines() == here.counts.lines()
    assert there.public.identity == here.public.identity
    stage = unit_counts(6, 2, Laplace(1.0))
    counts = [
        stage.measure(PresenceSums(data.pairs), Outputs())[0].integers for data in (here, there)
    ]
    assert np.array_equal(*counts)
    assert counts[0].all()
    # For stages that do not add up over units, all pairs come to the driver.
    assert np.array_equal(np.sort(there.pairs.collect().mean), np.sort(here.pairs.mean))
    more = {"fleet": 5000, "advise": False, **STATISTICS[statistics]}
    plan = hv.plan(here, statistics=statistics, epsilon=2, **more)
    tables = []
    for number, data in enumerate((here, there)):
        book = hv.Ledger(tmp_path / f"{number}.sqlite", dataset="cars", budget=9)
        tables.append(hv.release(data, plan, ledger=book, accept_noise=True).table)
    assert tables[0].equals(tables[1])
    assert tables[0]["weight"].to_pylist()[0] > 0
    there.close()


def test_no_records_are_refused_in_spark(spark):
    """Records without a usable value are a data set like any other, and nothing is shown of it."""
    unusable = records(30).set_column(2, "speed", pa.array([None] * 30, pa.float64()))
    made = hv.read(unusable, engine=spark, **OPTIONS)
    assert made.pairs.collect().cell.size == 0
    (counts,) = unit_counts(6, 2, Laplace(1.0)).measure(PresenceSums(made.pairs), Outputs())
    assert counts.integers.tolist() == [[0] * 6]
    assert (repr(made.pairs), repr(made)[-16:]) == ("SparkPairBlocks(private)", "records private)")
    made.close()
