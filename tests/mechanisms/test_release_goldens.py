"""Integers, scales and losses of small releases: recorded, and added up again by the meter."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms import noise, parse
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.looks.one_range import PrivateRange
from hexveil.mechanisms.sensitivity_report import UNMETERED
from hexveil.mechanisms.single_cell import CellProblem
from hexveil.mechanisms.stage_data import PrivateSums
from hexveil.model.pair_columns import WEIGHT_RESOLUTION, FactoredWeights, SuppressedPairs
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning import codec
from mechanisms.listed_weights import ListedWeights
from mechanisms.scripted_noise import ScriptedNoise
from mechanisms.setting import dataset_of, plan_of

GOLDENS = json.loads(Path(__file__).with_name("release_goldens.json").read_text("utf-8"))
COUNTS = np.array([[3, 2, 1], [2, 2, 0], [1, 4, 0], [5, 1, 0]])
TOTALS = [173, 101, 29, 187, 73, 97, 139, 41, 37]
SQUARES = [10_009, 5_281, 841, 7_609, 2_689, 4_709, 4_865, 1_681, 1_369]


def records(scale=None):
    """Return four users in three cells, with sums of squares, on a lattice of 60 or more steps."""
    return dataset_of(COUNTS, TOTALS, np.array(SQUARES), scale=scale)


def clipped(dataset, *, rows=None, **request):
    """Return a plan of clipped statistics."""
    made = {
        "contribution_factor": np.array([1.0, 0.5, 0.75, 1.0]),
        "noise_scale_records": np.array([6.5, 9.0, 0.0]),
    }
    return plan_of(dataset, [2, 3, 0], rows=made | (rows or {}), **request)


def variances(**rows):
    """Return rows of variances, of the last cell none."""
    made = {"variance_cap": np.array([5, 2, 0]), "variance_noise": np.array([0.75, 0.5, 0.0])}
    return made | rows


def whole(dataset):
    """Return a plan that keeps all records of both statistics."""
    rows = {
        "contribution_factor": np.ones(4),
        "noise_scale_records": np.array([6.5, 9.0, 4.0]),
        "variance_cap": np.array([5, 4, 1]),
        "variance_noise": np.array([0.75, 0.5, 0.0]),
    }
    return plan_of(dataset, [5, 4, 1], rows=rows, statistics=("mean", "variance"))


def dropped(dataset):
    """Return a plan without some pairs, as user suppression makes."""
    counts, gone = dataset.occupancy, np.arange(9) % 4 == 1
    pairs = SuppressedPairs.of_rows(counts, counts.cell[gone], counts.user[gone])
    rows = variances(suppressed_pairs=pairs)
    return clipped(dataset, rows=rows, method="clip-user", statistics=("mean", "variance"))


INTERVAL = PrivateRange(
    epsilon=Fraction(1, 4),
    quantiles=(Fraction(1, 5), Fraction(4, 5)),
    widening=Fraction(5, 4),
    width=0.25,
    clipping_error=0.01,
    weight=None,
)
WEIGHT = np.array([WEIGHT_RESOLUTION // k for k in (2, 3, 4, 5, 6, 7, 8, 9, 1)])


def weighted(dataset, radius=None, **more):
    """Return a plan with a private clipping range."""
    weights = ListedWeights(dataset.occupancy, WEIGHT)
    noise_records = np.array([30.0, 40.0, 20.0])
    rows = {
        "clipping": replace(INTERVAL, radius=radius, weight=weights),
        "noise_scale_records": noise_records,
        "contribution_factor": np.ones(4),
    } | more
    asked = {
        "clipping_range": "private",
        "method": "joint",
        "mechanism": None,
        "epsilon": Fraction(3),
    }
    statistics = ("mean", "variance") if "variance_noise" in more else ("mean",)
    return plan_of(dataset, [5, 4, 1], rows=rows, statistics=statistics, **asked)


def with_variance(dataset):
    """Return the same with variances; the last cell has one record, hence none."""
    return weighted(dataset, Fraction(3, 2), variance_noise=np.array([2.5, 3.5, 0.0]))


LATTICE = ValueLattice.of((0, 60), "1")
BOTH = {"statistics": ("mean", "variance")}
APART = {"cell_epsilon": Fraction(1), "contribution_factor": np.ones(4)}
KINDS = {
    "clipped means": clipped,
    "means and variances": lambda data: clipped(data, rows=variances(), **BOTH),
    "means and variances of whole cells": whole,
    "variances": lambda data: clipped(data, rows=variances(), statistics=("variance",)),
    "cells planned apart": lambda data: clipped(data, rows=APART),
    "suppressed pairs": dropped,
    "private clipping range": weighted,
    "private clipping range with variances": with_variance,
}


def handed_to_the_door(dataset, plan, monkeypatch, book):
    """Return what a release hands to the noise source, and the rows that its ledger stores."""
    calls = []

    def add_laplace(values, scales):
        calls.append({"values": values.tolist(), "scales": scales.tolist()})
        return values + np.arange(values.size)

    monkeypatch.setattr(noise, "add_laplace", add_laplace)
    # The ledger keeps a plan, and weights made by hand are those of no plan.
    monkeypatch.setitem(codec.NAMES, "ListedWeights", ListedWeights)
    monkeypatch.setitem(codec.NAMES, "Weights", FactoredWeights | ListedWeights)
    shown = hv.release(dataset, plan, ledger=book, accept_noise=True)
    (entry,) = book.entries()
    stages = {name: list(row) for name, row in book.find(entry.request).stages.items()}
    columns = [f"{name}_noisy" for name in plan.statistics]
    published = {name: shown.table[name].to_pylist() for name in columns}
    return {"calls": calls, "stages": stages, "published": published}


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_hands_these_integers_and_scales_to_the_door(kind, monkeypatch, tmp_path):
    """Every kind of plan measures, scales and publishes exactly what it did when recorded."""
    dataset = records(LATTICE)
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=100_000)
    made = handed_to_the_door(dataset, KINDS[kind](dataset), monkeypatch, book)
    assert made == GOLDENS[kind]


# ---- mechanisms of one cell ----

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
