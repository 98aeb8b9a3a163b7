"""Maps that say no more than one number for all cells: said of a release, refused beforehand."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.publishing.verification.verify import find_problems
from hexveil.report.accuracy_text import describe_one_number
from publishing.releases import restated, said, statements_of

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
    alike = released(tmp_path, 0.0, statistics, protect, epsilon="0.5")
    assert alike.no_better_than_constant == tuple(statistics)
    (sentence,) = alike.warnings
    assert "One number for the whole map would do as well" in sentence
    folder = alike.write(tmp_path / "map")
    assert find_problems(folder) == ()
    for name in ("README.txt", "report.html"):
        text = " ".join((folder / name).read_text("utf-8").split())
        assert "One number for the whole map would do as well" in text
    (stated,) = said(folder)["accuracy"]
    assert stated["beats_constant"] is False
    apart = released(tmp_path, 15.0, statistics, protect)
    assert apart.no_better_than_constant == () == apart.warnings


@pytest.mark.slow
@pytest.mark.parametrize("protect", ["values", "presence"])
def test_a_forged_statement_is_found(tmp_path, protect):
    """Verification makes it again of the error and the deviation."""
    apart = released(tmp_path, 15.0, ["mean"], protect)
    stated = [statements_of(apart)["accuracy"][0] | {"beats_constant": False}]
    forged = restated(apart, accuracy=stated)
    assert any("beats_constant" in one for one in find_problems(forged.write(tmp_path / "map")))


def test_bins_of_a_histogram_are_named_together():
    """Twenty sentences would say one thing."""
    one = {"typical_error": 1.0, "between_cells": 0.0, "beats_constant": False}
    accuracy = [one | {"statistic": f"histogram_{number:02}"} for number in range(1, 21)]
    manifest = {"dataset": {"value_unit": ""}, "accuracy": accuracy}
    (sentence,) = describe_one_number(manifest)
    assert "20 bins" in sentence


@pytest.mark.slow
def test_private_grades_compare_with_how_much_cells_differ(tmp_path):
    """By noisy numbers: intervals that were widened do not make cells that differ alike."""
    released_map = released(tmp_path, 4.0, ["mean"], "presence", epsilon=4)
    (stated,) = statements_of(released_map)["accuracy"]
    truth = records(4.0).group_by("line").aggregate([("speed", "mean")])["speed_mean"].to_numpy()
    assert stated["between_cells"] == pytest.approx(truth.std(), rel=0.3)
    assert released_map.table["quality"].to_pylist().count("noise") < 4


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


def test_a_declared_grid_is_refused_for_medians_as_for_averages():
    """Under private presence too, for medians and shares."""
    options = {"user": "bus", "value": "speed", "bounds": (0, 120), "protect": "presence"}
    options["cells"] = hv.Labels("line", values=LINES)
    for statistics in (["mean"], ["p50"], ["share<30"], ["mean", "p85"]):
        terms = [name for name in statistics if name != "mean"]
        facts = hv.declare(**options, statistics=terms)
        with pytest.warns(hv.GridTooFineWarning, match="one number for all cells"):
            few = hv.plan(facts, epsilon=1, fleet=60, statistics=statistics)
        assert [one.statistic for one in few.statistic_errors] == statistics
        with warnings.catch_warnings():
            warnings.simplefilter("error", hv.GridTooFineWarning)
            assert hv.plan(facts, epsilon=1, fleet=2000, statistics=statistics).refusal is None


@pytest.mark.slow
def test_under_one_range_the_estimate_borrows_from_all_cells(tmp_path):
    """The best number that was made is the estimate, whether smoothed ones are asked for or not."""
    dataset = hv.read(
        records(4.0, users=200), user="bus", value="speed", bounds=(0, 120), quantum="0.1",
        cells=hv.Labels("line"),
    )  # fmt: skip
    plan = hv.plan(dataset, epsilon=1, clipping_range="private", advise=False)
    ledger = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=10)
    release = hv.release(
        dataset, plan, ledger=ledger, estimates=("raw", "smoothed"), accept_noise=True
    )
    again = hv.release(dataset, plan, ledger=ledger, accept_noise=True)
    assert release["mean_estimate"].tolist() == release["mean_smoothed"].tolist()
    assert again["mean_estimate"].tolist() == release["mean_estimate"].tolist()
    assert (again["mean_low"] <= again["mean_estimate"]).all()
    assert (again["mean_estimate"] <= again["mean_high"]).all()
