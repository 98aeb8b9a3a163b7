"""Integers, scales and losses of mechanisms of one cell: recorded.

Those of whole releases are seen in tests/test_golden_releases.py.
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
from mechanisms.scripted_noise import ScriptedNoise

FILE = Path(__file__).with_name("mechanism_goldens.json")
CELL_GOLDENS = json.loads(FILE.read_text(encoding="utf-8"))
CELL_COUNTS = [9, 7, 7, 5, 4, 4, 3, 2, 2, 2, 1, 1]
TOTAL = [402, 350, 21, 3000, 1999, 800, 2999, 0, 1000, 1500, 500, 1000]
SPAN = 1000


def measured(name):
    """Return the integers and scales that a mechanism hands to the noise source."""
    cell = CellProblem(np.array(CELL_COUNTS), Fraction(0), Fraction(1), SPAN)
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


@pytest.mark.parametrize("name", CELL_GOLDENS["integers"])
def test_integers_and_scales_are_as_recorded(name):
    """Scores, sums and scales at the source are the recorded ones, and so are losses."""
    found, recorded = measured(name), CELL_GOLDENS["integers"][name]
    assert found["scores"] == recorded["scores"]
    assert found["sums"] == recorded["sums"]
    for kind in ("losses", "selection_scales", "scales"):
        assert found[kind] == pytest.approx(recorded[kind], rel=1e-12)
