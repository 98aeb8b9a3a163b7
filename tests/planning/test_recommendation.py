"""Which grid is proposed, and in which words."""

from dataclasses import replace

import pytest

import hexveil as hv
from hexveil.planning.feasibility.grid_assessment import (
    GridAssessment,
    cheapest,
    recommend,
    recommendation_text,
)

OFFER = GridAssessment(
    hv.Cells(6, "6h", "Europe/Warsaw", "pooled"),
    "user",
    cells=41,
    users=300,
    floor=1.0,
    predicted_error=1.94,
    baseline_error=4.5,
    better=40,
    planned=True,
    epsilon_least=0.1,
)


def on(resolution, timeslot="6h", **changes):
    """Return an offer on another grid."""
    return replace(OFFER, grid=hv.Cells(resolution, timeslot, "Europe/Warsaw"), **changes)


def short(epsilon, resolution=6, error=3.0, **changes):
    """Return an offer that would do at a larger loss only."""
    return on(resolution, predicted_error=error, epsilon_halved=epsilon, **changes)


def test_the_finest_that_halves_is_proposed():
    """Of those whose error is under half of one constant's, the one of most cells."""
    coarse = on(4, cells=5, predicted_error=0.1)
    fine = short(7.5, resolution=7, cells=90)
    offers = (coarse, OFFER, fine)
    assert recommend(offers, "user") is OFFER
    assert recommendation_text(offers, "user", 1.0) == (
        "proposed: resolution 6 in 6h slots, unit user: 41 cells, error 1.9, baseline error 4.5. "
        "The finer resolution 7 in 6h slots (90 cells) needs epsilon 7.5."
    )


def test_of_equally_many_cells_the_better_is_proposed():
    """Two grids of as many cells are told apart by their error."""
    better = on(6, "1d", predicted_error=1.0)
    assert recommend((OFFER, better), "user") is better


@pytest.mark.parametrize("reverse", [False, True])
def test_a_tie_goes_to_smaller_hexagons_and_shorter_slots(reverse):
    """Hexagons the size of a country are never proposed because they have as many cells."""
    coarse = [on(r, t) for r in (0, 3) for t in ("1h", "1d", None)]
    offers = sorted([*coarse, OFFER], key=lambda one: one.resolution, reverse=reverse)
    assert recommend(offers, "user") is OFFER
    needing = [replace(one, predicted_error=3.0, epsilon_halved=2.0) for one in offers]
    assert cheapest(needing, "user").resolution == 6


def test_one_cell_is_no_map():
    """A grid of one cell always does well, and says nothing of differences."""
    alone = replace(OFFER, cells=1)
    assert recommend((alone,), "user") is None
    assert (
        recommendation_text((alone,), "user", 1.0)
        == "no grid tried leaves a map of three cells, or of three hexagons."
    )


def test_where_no_grid_halves_the_cheapest_is_named():
    """The grid that would take the least loss, and that loss."""
    noisy = short(None, resolution=8, error=9.0, cells=400)
    offers = (short(2.4), short(7.5, resolution=7, error=9.0, cells=90), noisy)
    assert recommendation_text(offers, "user", 1.0) == (
        "no grid has an error below half the baseline at epsilon 1; resolution 6 in 6h slots "
        "(41 cells) needs epsilon 2.4. The finest usable grid is resolution 6 in 6h slots "
        "(41 cells, error 3, baseline error 4.5)."
    )
    noisy = short(2.4, error=9.0)
    assert "usable" not in recommendation_text((noisy,), "user", 1.0)
    assert "nor at ten times that" in recommendation_text((short(None),), "user", 0.1)


def test_labels_are_named_by_their_columns():
    """A level of labels is its columns."""
    level = replace(OFFER, grid=hv.Labels("origin", "hour"))
    assert recommendation_text((level,), "user", 1.0).startswith(
        "proposed: origin x hour, unit user: 41"
    )


@pytest.mark.parametrize(
    ("unit", "other", "named"),
    [
        ("user", "user-day", True),
        ("user", "user-week", True),
        ("user-week", "user-day", True),
        ("user-day", "user", False),
        ("user-week", "user", False),
    ],
)
def test_the_unit_is_never_changed(unit, other, named):
    """Proposed is a grid of the asked unit; finer ones of weaker units have a sentence apart."""
    asked = replace(OFFER, privacy_unit=unit, cells=5)
    elsewhere = replace(OFFER, privacy_unit=other, cells=99)
    assert recommend((asked, elsewhere), unit) is asked
    said = recommendation_text((asked, elsewhere), unit, 1.0)
    assert said.startswith(f"proposed: resolution 6 in 6h slots, unit {unit}: 5 cells")
    assert ("With a weaker promise: " in said) is named
    assert (f"unit {other}: 99 cells" in said) is named
    said = recommendation_text((short(3.0, privacy_unit=unit), elsewhere), unit, 1.0)
    assert said.startswith("no grid has an error below half the baseline at epsilon 1; ")
