"""The grid that several value columns have in common: judged by the one that it serves worst."""

from dataclasses import replace

import pytest

from hexveil.cli.output.common_grid_text import common_lines
from hexveil.planning.feasibility.capacity import Capacity
from hexveil.planning.feasibility.common_grid import choose_common_grids, common_grids
from hexveil.planning.feasibility.grid_assessment import GridAssessment

OFFER = GridAssessment(
    privacy_unit="user", resolution=6, timeslot=None, slot=None, labels=None, cells=7, users=90,
    floor=0.1, predicted_error=1.0, baseline_error=5.0, better=7, planned=True,
    beats_constant=True, halved=True, epsilon_needed=None, epsilon_halved=None, epsilon_least=0.0,
)  # fmt: skip


def table(*errors):
    """Return a table of ever finer grids with these errors, of a constant's 5."""
    offers = [
        replace(
            OFFER, resolution=5 + number, cells=7 ** (number + 1), predicted_error=error,
            beats_constant=error < 5, halved=error < 2.5,
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
    assert common_lines(chosen, {"a": "", "b": ""}, "1")[0].startswith("No common grid")
