"""Exact accounting and the joint plan: the figure of one draw, and what turns its verdicts."""

from dataclasses import replace

import numpy as np
import pytest

from hexveil_research.papers.beyond import exact_accounting
from hexveil_research.papers.comp.runs import Run

GOOD = Run(1.0, 12, 5, 400.0, 400.0, 0, 390.0, 395.0, 1.5, 1.45)
USELESS = replace(GOOD, bound=900.0)
COSTLY = replace(GOOD, plain_loss=5.5, kept_loss=5.4)


def found(runs=(GOOD, USELESS), joint=(0.2, 0.0), same_loss=(60.0, 80.0)):
    """Return what one draw gives."""
    rows = (tuple(runs),)
    return {3: exact_accounting.GammaResults(rows, np.array([joint]), np.array([same_loss]))}


def verdicts(**changed):
    """Return the verdicts of all four claims."""
    return [claim.holds for claim in exact_accounting.claims(found(**changed))]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, [True, True, True, True]),
        ({"runs": (COSTLY, USELESS)}, [False, True, True, True]),
        ({"runs": (replace(GOOD, kept_loss=0.5), USELESS)}, [True, False, True, True]),
        ({"joint": (1.2, 0.0)}, [True, True, False, True]),
        ({"joint": (0.2, 0.1)}, [True, True, False, True]),
        ({"runs": (USELESS, USELESS), "joint": (0.0, 0.0)}, [True, True, False, True]),
        ({"same_loss": (400.0, 80.0)}, [True, True, True, False]),
    ],
)
def test_each_verdict_turns_on_its_own_number(changed, expected):
    """A costly release, suppression that saves, a costly plan, no release of use, no gain."""
    assert verdicts(**changed) == expected
