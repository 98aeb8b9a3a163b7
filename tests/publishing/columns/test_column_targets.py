"""Target errors and baseline errors of several value columns: each its own, the sum exact."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil import BudgetError, InputError
from publishing.releases import called, forge_whole

BOUNDS = {"pm25": (0, 100), "no2.air": (0, 200)}
READ = {
    "user": "sensor", "bounds": BOUNDS, "quantum": "0.1", "cells": hv.Labels("ward"),
    "max_bad_rows": 0.5,
}  # fmt: skip
TARGETS = {"pm25": 2, "no2.air": "3%"}


@pytest.fixture(scope="module")
def table():
    """Return readings of 96 sensors, of which every eighth lacks the second column."""
    rng = np.random.default_rng(3)
    rows = [(u, k) for u in range(96) for k in range(1 + u % 9)]
    no2 = rng.normal(60, 9, len(rows)).round(1)
    return pa.table(
        {
            "sensor": [f"s{u}" for u, _ in rows],
            "ward": [f"w{(u + k) % 3}" for u, k in rows],
            "pm25": rng.normal(20, 5, len(rows)).round(1),
            "no2.air": pa.array(no2, mask=np.array([u % 8 == 0 for u, _ in rows])),
        }
    )


@pytest.fixture(scope="module")
def dataset(table):
    """Return both columns."""
    return hv.read(table, value=[*BOUNDS], **READ)


@pytest.fixture(scope="module")
def plan(dataset):
    """Return a plan within the targets of each column."""
    return hv.plan(dataset, target_error=TARGETS, advise=False)


def test_each_column_costs_what_it_costs_alone_and_the_sum_is_exact(table, plan):
    """Errors meet the targets; parts are those of one column; units lose the sum of their parts."""
    total = [Fraction(0)] * plan.facts.n_units
    for (column, own), target in zip(plan.plans.items(), (2.0, 6.0), strict=True):
        alone = hv.plan(hv.read(table, value=column, **READ), target_error=target, advise=False)
        assert own.epsilon == alone.epsilon == Fraction(plan.column_epsilons()[column])
        assert 0.999 * target < own.worst_case_error <= target
        for unit, loss in zip(plan.facts.units[column], own.losses(), strict=True):
            total[unit] += Fraction(float(loss))
    assert all(sum_ <= booked for sum_, booked in zip(total, plan.losses(), strict=True))
    assert float(plan.epsilon) == pytest.approx(float(max(total)), rel=1e-12)
    assert plan.requested_epsilon is None
    assert plan.epsilon_limit == plan.epsilon


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"target_error": {"pm25": 2}}, "leaves out the value column 'no2.air'; name each of pm25"),
        ({"target_error": {**TARGETS, "so2": 3}}, "has 'so2', which is no value column"),
        ({"target_error": {"pm25": 2, "no2.air": "x"}}, "target_error of no2.air must be a finite"),
        ({"target_error": {"pm25": 0, "no2.air": 2}}, "target_error of pm25 must be positive"),
        ({"target_error": 2, "weights": {"pm25": 2}}, "leave weights out"),
        ({"target_error": 2, "statistics": ["p50"]}, "name epsilon, or plan and release"),
        (
            {"epsilon": 1, "baseline_error": {"pm25": 90}},
            "^pm25: baseline_error must be at most 50",
        ),
        (
            {"epsilon": 1, "baseline_error": 90, "statistics": ["p50"]},
            "^pm25: baseline_error must be at most 50",
        ),
    ],
)
def test_what_has_no_meaning_is_one_sentence(dataset, options, sentence):
    """The option and the column are named."""
    with pytest.raises(InputError, match=sentence) as caught:
        hv.plan(dataset, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_goal_is_released_saved_and_answered_again(dataset, plan, table, tmp_path):
    """Other spellings and orders are the same request; the folder states the targets."""
    book = hv.Ledger(tmp_path / "book.sqlite", dataset="air", budget=8)
    made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    assert float(book.remaining) == pytest.approx(8 - float(plan.epsilon), abs=1e-9)
    other = hv.read(table, value=[*BOUNDS][::-1], **READ)
    for again in (
        hv.plan(other, target_error={"no2.air": 6, "pm25": "2%"}, advise=False),
        hv.Plan.load(plan.save(tmp_path / "plan"), dataset),
    ):
        assert (again.requested_epsilon, again.weights) == (None, {})
        assert hv.release(
            other if [*again.plans] != [*BOUNDS] else dataset, again, ledger=book, accept_noise=True
        ).replayed
    another = hv.plan(dataset, target_error=TARGETS | {"pm25": "2.1"}, advise=False)
    with pytest.raises(BudgetError, match="would exceed the budget 8"):
        hv.release(dataset, another, ledger=book, accept_noise=True)
    folder = made.write(tmp_path / "map")
    stated = hv.verify(folder)["components"]
    targets = [one["plan"]["request"]["targets"] for one in stated]
    assert [one[0]["largest"] for one in targets] == [2.0, 6.0]
    assert all("weight" not in one for one in stated)
    assert "| no2.air | mean | 6 |" in called("dossier", folder)
    assert "errors that were asked of each column" in " ".join(
        (folder / "README.txt").read_text().split()
    )
    forge_whole(folder, lambda m: m["components"][0].update(weight="1"))
    with pytest.raises(InputError, match="components/weight does not belong"):
        hv.verify(folder)


def test_targets_that_constants_meet_cost_nothing_in_their_column(dataset, tmp_path):
    """A column of constants beside one with noise: booked is the other's loss alone."""
    plan = hv.plan(dataset, target_error={"pm25": 3, "no2.air": "50%"}, advise=False)
    assert plan.column_epsilons()["no2.air"] == 0
    assert 0 <= plan.epsilon - plan.plans["pm25"].epsilon < Fraction(1, 10**12)
    book = hv.Ledger(tmp_path / "book.sqlite", dataset="air", budget=9)
    made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    assert hv.verify(made.write(tmp_path / "map"))["request"] == made.manifest["request"]
