"""The grid that several value columns have in common: judged by the one that it serves worst."""

from dataclasses import replace
from fractions import Fraction

import pytest

import hexveil as hv
from hexveil.cli.output.grid_text import common_rows
from hexveil.planning.feasibility.advice import (
    DeclaredAssessment,
    choose_common_grids,
    common_grids,
)
from hexveil.planning.feasibility.capacity import Capacity
from hexveil.planning.feasibility.grid_assessment import GridAssessment

OFFER = GridAssessment(
    hv.Cells(6, None), "user", cells=7, users=90, floor=0.1, predicted_error=1.0,
    baseline_error=5.0, better=7, planned=True,
)  # fmt: skip


def table(*errors):
    """Return a table of ever finer grids with these errors, of a constant's 5."""
    offers = [
        replace(
            OFFER, grid=hv.Cells(5 + number, None), cells=7 ** (number + 1), predicted_error=error,
        )
        for number, error in enumerate(errors)
    ]  # fmt: skip
    return Capacity(tuple(offers), 1.0, "user")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((0.5, 1, 2, 9), (1, 2, 4, 4), (7, 6, 5)),
        ((1, 1, 1, 1), (1, 1, 1, 1), (8, 8, 8)),
        # None is below half for both: balanced is the most accurate one.
        ((1, 2, 3, 4), (4, 4.5, 3, 9), (7, 7, 7)),
    ],
)
def test_the_worst_column_decides(first, second, expected):
    """Finest, balanced and accurate are those of the column that a grid serves worst."""
    chosen = choose_common_grids(common_grids({"a": table(*first), "b": table(*second)}))
    named = {choice: grid.leading.resolution for choice, grid in chosen.items()}
    assert named == dict(zip(("finest", "balanced", "accurate"), expected, strict=True))


def test_no_common_grid_is_said():
    """Grids that serve either column do not serve both."""
    chosen = choose_common_grids(common_grids({"a": table(1, 9), "b": table(9, 1)}))
    assert chosen == {}
    assert common_rows(chosen, {"a": "", "b": ""}, "1")[0][0] == "No common grid"


AREA = hv.Cells(7, "1d", "Europe/Warsaw", "pooled", area=(20.8, 52.05, 21.3, 52.35))


@pytest.mark.parametrize("statistics", ["mean", ("mean", "p50"), "users", ("mean", "users")])
def test_declared_grids_are_judged_by_their_plans(statistics):
    """Closed cells are off by one constant's error; a map that is refused beats none."""
    facts = hv.declare(
        user="car", value="speed", bounds=(0, 90), lat="lat", lon="lon", time="time", cells=AREA,
        protect="presence", statistics=statistics,
    )  # fmt: skip
    offers = [
        DeclaredAssessment(
            hv.plan(facts, epsilon=epsilon, fleet=3000, statistics=statistics, advise=False)
        )
        for epsilon in (Fraction(1, 100), 1, 100)
    ]
    errors = [offer.relative_error for offer in offers]
    assert errors == sorted(errors, reverse=True)
    assert [offer.beats_constant for offer in offers][::2] == [False, True]
    assert [offer.halved for offer in offers][::2] == [False, True]
    for offer in offers:
        assert (offer.grid.resolution, offer.grid.timeslot) == (7, "1d")
        assert offer.beats_constant is (offer.plan.refusal is None)
        closed = 1 - offer.plan.figures().get("open_traffic", 1.0)
        own = offer.predicted_error / offer.baseline_error
        expected = (1 - closed) * own + closed
        if statistics == ("mean", "users"):
            counts = offer.plan.prediction.counts
            expected = max(expected, counts.count_error / counts.typical_count)
        assert offer.relative_error == pytest.approx(expected)
