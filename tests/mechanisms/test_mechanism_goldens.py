"""Goldens of each mechanism: integers and scales at the noise source, and errors recorded before.

A change of integers or scales is a change of what is released: read the proof in the module's head
again before you record others. The errors are those of an independent implementation in floating
point, which these mechanisms replaced: 200,000 trials each, with their standard errors.
"""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from hexveil.mechanisms import parse
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.sensitivity_report import UNMETERED
from hexveil.mechanisms.single_cell import CellProblem
from hexveil.mechanisms.stage_data import PrivateSums
from hexveil_research.mechanisms.foresight import Foresight
from scripted_noise import ScriptedNoise

FILE = Path(__file__).with_name("mechanism_goldens.json")
GOLDENS = json.loads(FILE.read_text(encoding="utf-8"))
COUNTS = [9, 7, 7, 5, 4, 4, 3, 2, 2, 2, 1, 1]
TOTAL = [402, 350, 21, 3000, 1999, 800, 2999, 0, 1000, 1500, 500, 1000]
SPAN, TRIALS = 1000, 100_000


def measured(name):
    """Return the integers and scales that a mechanism hands to the noise source."""
    cell = CellProblem(np.array(COUNTS), Fraction(0), Fraction(1), SPAN)
    allocation = parse(name).allocate_cell(cell, Fraction(3, 2))
    noise = ScriptedNoise([3, 9])
    execute(allocation, PrivateSums(np.array(TOTAL)), noise, MemoryJournal(), UNMETERED)
    return {
        "losses": allocation.losses().tolist(),
        "scores": [np.unique(scores, return_counts=True)[0].tolist() for scores in noise.scores],
        "selection_scales": noise.selection_scales,
        "sums": noise.sums,
        "scales": noise.scales,
    }


@pytest.mark.parametrize("name", GOLDENS["integers"])
def test_integers_and_scales_are_as_recorded(name):
    """Scores, sums and scales at the source are the recorded ones, and so are losses."""
    found, recorded = measured(name), GOLDENS["integers"][name]
    assert found["scores"] == recorded["scores"]
    assert found["sums"] == recorded["sums"]
    for kind in ("losses", "selection_scales", "scales"):
        assert found[kind] == pytest.approx(recorded[kind], rel=1e-12)


@pytest.mark.parametrize("name", GOLDENS["errors"])
def test_errors_are_those_of_the_earlier_implementation(name):
    """Mean absolute errors agree with those recorded, 5 standard errors aside."""
    study = GOLDENS["study"]
    means = np.array(study["user_means"])
    truth = means @ COUNTS / sum(COUNTS)
    mechanism = Foresight() if name == "Foresight()" else parse(name)
    for epsilon, mae, deviation in GOLDENS["errors"][name]:
        plan = mechanism.plan(COUNTS, bounds=study["bounds"], epsilon=epsilon)
        errors = np.abs(plan.simulate(means, np.random.default_rng(5), TRIALS) - truth)
        own = errors.std() / TRIALS**0.5
        assert abs(errors.mean() - mae) < 5 * np.hypot(own, deviation)
