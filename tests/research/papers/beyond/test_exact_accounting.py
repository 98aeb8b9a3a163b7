"""Exact accounting and the joint plan: the figure of one draw, and what turns its verdicts."""

from dataclasses import replace

import numpy as np
import pytest

from hexveil_research.papers.beyond import STUDIES, exact_accounting
from hexveil_research.papers.comp.runs import Run, constants_error
from hexveil_research.papers.study import Setting

GOOD = Run(1.0, 12, 5, 400.0, 400.0, 0, 390.0, 395.0, 1.5, 1.45)
USELESS = replace(GOOD, bound=900.0)
COSTLY = replace(GOOD, plain_loss=5.5, kept_loss=5.4)


@pytest.fixture(scope="module")
def outcome():
    return exact_accounting.make(Setting(trials=1))


def found(runs=(GOOD, USELESS), joint=(0.2, 0.0), same_loss=(60.0, 80.0)):
    """Return what one draw gives."""
    rows = (tuple(runs),)
    return {3: exact_accounting.GammaResults(rows, np.array([joint]), np.array([same_loss]))}


def verdicts(**changed):
    """Return the verdicts of all four claims."""
    return [claim.holds for claim in exact_accounting.claims(found(**changed))]


def test_studies_are_named():
    """Three studies of this family, in the order of the package."""
    names = [study.name for study in STUDIES]
    assert names == ["beyond:accounting", "beyond:clipping", "beyond:capping"]


@pytest.mark.slow
def test_the_figure_has_its_lines(outcome):
    """A share for each gamma below the reference at 1, and loss against error."""
    exact, joint, trade = outcome.panels
    for panel in (exact, joint):
        reference, *gammas = panel.lines
        assert [line.name for line in gammas] == ["gamma = 3", "gamma = 6", "gamma = 9"]
        assert all(line.whose == "ours" for line in gammas)
        assert reference.whose == "reference"
        assert (reference.y == 1).all()
        assert gammas[0].x[[0, -1]].tolist() == [0.1, 10.0]
    counted, clipped, plain, planned, constants = (line.y for line in trade.lines)
    assert (planned <= plain).all()
    assert (plain < clipped).all()
    assert (clipped < counted).all()
    assert (trade.lines[-1].x == constants_error(65.0)).all()
    assert constants.max() == counted.max()


@pytest.mark.slow
def test_all_claims_hold_on_a_draw(outcome):
    """Exact loss below Kε, suppression saves little, the joint plan costs a part, or errs less."""
    assert [claim.verdict for claim in outcome.claims] == ["holds"] * 4
    assert all(claim.reading == "ours" and claim.paper == "hexveil" for claim in outcome.claims)
    assert "\n" not in "".join(claim.measured for claim in outcome.claims)


@pytest.mark.slow
def test_the_joint_plan_is_what_is_said(outcome):
    """At every ε it loses no more than the release, whose error it is held to."""
    exact, joint = outcome.panels[:2]
    for plain, planned in zip(exact.lines[1:], joint.lines[1:], strict=True):
        assert (planned.y < plain.y).all()


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


@pytest.mark.slow
def test_draws_are_few():
    """Three of them however many trials there are, one where one is asked for."""
    few = exact_accounting.solved(Setting(trials=1), 9)
    assert few.joint.shape == (1, len(exact_accounting.EPSILONS))
    assert exact_accounting.seeds(Setting())[: exact_accounting.DRAWS] == range(3)
