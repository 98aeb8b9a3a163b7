"""Losses are recomputed from a folder's scales, biases, bounds and counts; misfits are said."""

import math
import shutil
from fractions import Fraction

import pyarrow.parquet as pq
import pytest

from hexveil.publishing.kinds import recomputed_losses
from hexveil.publishing.kinds.guarantee import epsilon_text
from hexveil.publishing.kinds.recomputed_losses import ReleaseStatements
from hexveil.publishing.verification import verify
from publishing.releases import (
    forge_manifest,
    forge_table,
    problems_after,
    released,
    said,
)

EXACT = ("means", "per-cell", "clip-user", "equal-split", "interval", "cell-ranges")


class Folders(dict):
    """A folder of each kind of plan that is asked for."""

    def __init__(self, home):
        super().__init__()
        self._home = home

    def __missing__(self, name):
        self[name] = released(self._home / name, name)
        return self[name]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a folder of each kind of plan."""
    return Folders(tmp_path_factory.mktemp("folders"))


def losses(place):
    table = pq.read_table(place / "cells.parquet")
    return recomputed_losses.recompute_losses(
        ReleaseStatements.from_release(said(place), table)
    ), said(place)["losses"]


@pytest.mark.parametrize("plan", EXACT)
def test_the_sum_of_losses_is_known_exactly(folders, plan):
    """Where values are cut to bounds, or to one range, counts cancel and the sum is known."""
    (total, _), stated = losses(folders[plan])
    assert total[0] == pytest.approx(total[1], rel=1e-12)
    assert total[0] == pytest.approx(stated["mean"] * stated["units"], rel=1e-11)


def scaled(key, times, statistic="mean", plus=0.0):
    """Return a forgery: a figure of all cells times a factor, in manifest and tables alike."""

    def forge(place):
        def change(manifest):
            for cell in manifest["cells"]:
                for part in cell["noised"]:
                    if part["statistic"] == statistic:
                        part[key] = times * part[key] + plus
                        part["bound95"] = part["bias"] + part["scale"] * math.log(20)

        column = f"{statistic}_{key}"
        forge_table(place, column, lambda numbers: [times * one + plus for one in numbers])
        forge_manifest(place, change)

    return forge


def stated(*path, to):
    """Return a forgery: a field of the manifest changed by a function of it."""

    def forge(place):
        def change(manifest):
            *above, last = path
            for key in above:
                manifest = manifest[key]
            manifest[last] = to(manifest[last])

        forge_manifest(place, change)

    return forge


def cheaper(place):
    """State half the price everywhere where it is stated."""

    def change(manifest):
        half = manifest["losses"]
        for key in ("max", "p99", "p90", "median", "mean"):
            half[key] /= 2
        spent = half["max"]
        text = epsilon_text(Fraction(spent))
        manifest["guarantee"] |= {
            "epsilon_spent": text,
            "probability_factor": math.exp(spent),
        }
        for step in manifest["plan"]["privacy_steps"]:
            step["epsilon"] = str(float(step["epsilon"]) / 2)

    forge_manifest(place, change)


def without_moved(step):
    return {key: value for key, value in step.items() if key != "moved"}


FORGED = {
    "smaller scale": ("means", scaled("scale", 0.5), "all units together lose"),
    "larger scale": ("per-cell", scaled("scale", 2), "all units together lose"),
    "narrower scale in an interval": ("interval", scaled("scale", 0.5), "all units together lose"),
    "narrower scale in ranges of cells": (
        "cell-ranges", scaled("scale", 0.5), "all units together lose",
    ),
    "scale of a variance": (
        "variance", scaled("scale", 1e-3, "variance"), "all units together lose",
    ),
    "half the price": ("means", cheaper, "all units together lose"),
    "fewer losers": (
        "means", stated("losses", "at_zero", to=lambda _: 29), "the most exposed unit loses",
    ),
    "less asked": (
        "means", stated("guarantee", "epsilon_requested", to=lambda _: "1"), "more was spent",
    ),
    "no composition": (
        "means", stated("guarantee", "l0_epsilon", to=lambda _: "1"), "is no sum over cells",
    ),
    "quantiles out of order": (
        "means", stated("losses", "median", to=lambda x: 3 * x), "are not in order",
    ),
    "fewer units": ("means", stated("losses", "units", to=lambda _: 3), "fewer units than a cell"),
    "a smaller step": (
        "interval", stated("plan", "privacy_steps", 0, "epsilon", to=lambda _: "0.1"),
        "share is not its share",
    ),
    "a step too few": (
        "interval", stated("plan", "privacy_steps", to=lambda steps: steps[1:]),
        "do not add up",
    ),
    "no steps": (
        "means", stated("plan", "privacy_steps", to=lambda _: []), "none where something was",
    ),
    "no word of cells measured anew": (
        "cell-ranges",
        stated("plan", "privacy_steps", -1, to=without_moved),
        "cannot be compared",
    ),
    "no noise kept": (
        "means",
        stated("cells", 0, "noised", 0, "contribution_cap", to=lambda _: 0),
        "keeps no record",
    ),
}  # fmt: skip


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_statement_is_found(folders, tmp_path, forged):
    """A figure that was changed alone, and sealed, does not fit the others."""
    plan, forge, sentence = FORGED[forged]
    problems = problems_after(forge, folders[plan], tmp_path / "map")
    assert any(sentence in problem for problem in problems), problems


def test_a_constant_map_costs_nothing(tmp_path, folders):
    """A release in which no cell has noise has nothing to recompute, and says so."""
    place = shutil.copytree(folders["means"], tmp_path / "map")

    def free(manifest):
        for cell in manifest["cells"]:
            for part in cell["noised"]:
                part["scale"] = 0.0

    forge_manifest(place, free)
    assert any("no cell has noise" in one for one in verify.find_problems(place))
