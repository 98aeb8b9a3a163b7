"""Maps that say no more than one number for all cells: said of a release, refused beforehand."""

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from publishing.releases import problems_of, said

FLEET = hv.FleetDeclaration(1500, 20, 6)
LINES = [str(number) for number in range(20)]


def records(spread, users=1500, seed=2):
    """Return records of buses on twenty lines with averages of this spread."""
    rng = np.random.default_rng(seed)
    bus = np.repeat(np.arange(users), 20)
    line = rng.integers(0, len(LINES), (users, 6))[bus, rng.integers(0, 6, bus.size)]
    speed = 40.0 + spread * rng.normal(size=len(LINES))[line] + rng.normal(0, 4, users)[bus]
    speed = (speed + rng.normal(0, 9, bus.size)).clip(0, 120).round(1)
    return pa.table({"bus": bus.astype(str), "line": line.astype(str), "speed": speed})


def released(tmp_path, spread, statistics, protect, epsilon=2):
    """Return a release of these records."""
    options = {"user": "bus", "value": "speed", "bounds": (0, 120), "quantum": "0.1"}
    terms = [name for name in statistics if name != "mean"]
    options |= {"statistics": terms} if terms else {}
    planned = {"statistics": statistics, "epsilon": epsilon, "advise": False}
    if protect == "presence":
        planned["fleet"] = FLEET
        options |= {"protect": protect, "cells": hv.Labels("line", values=LINES)}
    else:
        options["cells"] = hv.Labels("line")
    dataset = hv.read(records(spread), **options)
    ledger = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=10)
    return hv.release(dataset, hv.plan(dataset, **planned), ledger=ledger, accept_noise=True)


@pytest.mark.slow
@pytest.mark.parametrize("protect", ["values", "presence"])
@pytest.mark.parametrize("statistics", [["mean"], ["p50"]])
def test_a_release_says_where_one_number_would_do(tmp_path, protect, statistics):
    """In Python, manifest, README.txt and page, for cells alike; not for cells that differ."""
    alike = released(tmp_path, 0.0, statistics, protect, epsilon="1")
    (sentence,) = alike.warnings
    assert "One number for the whole map would do as well" in sentence
    folder = alike.write(tmp_path / "map")
    assert problems_of(folder) == ()
    for name in ("README.txt", "report.html"):
        text = " ".join((folder / name).read_text("utf-8").split())
        assert "One number for the whole map would do as well" in text
    (stated,) = said(folder)["accuracy"]
    assert stated["beats_constant"] is False
    apart = released(tmp_path, 15.0, statistics, protect)
    assert apart.warnings == ()


@pytest.mark.parametrize("statistics", [["p50"], ["p50", "p85"], ["mean", "share<30"]])
def test_a_grid_that_averages_are_refused_for_is_refused_for_all(statistics):
    """Each statistic has a predicted error and a baseline, and the refusal of averages."""
    terms = [name for name in statistics if name != "mean"]
    dataset = hv.read(
        records(2.0, users=60), user="bus", value="speed", bounds=(0, 120), quantum="0.1",
        cells=hv.Labels("line"), statistics=terms,
    )  # fmt: skip
    with pytest.warns(hv.GridTooFineWarning, match="one number for all cells"):
        plan = hv.plan(dataset, statistics=statistics, epsilon=1)
    assert plan.refusal is not None
    assert [one.statistic for one in plan.statistic_errors] == statistics
    assert plan.to_json()["statistic_errors"][-1]["baseline_error"] > 0
    with pytest.warns(hv.GridTooFineWarning):
        averages = hv.plan(dataset, epsilon=1)
    assert not averages.support.beats_constant
