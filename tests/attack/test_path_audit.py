"""The audit of the whole path: no claim is refuted, and a broken twin is caught.

A claim is the loss of the unit that changed, as planned and as booked. Short forms run in the
suite, long ones with HEXVEIL_ATTACK=1 (docs/understand/audit.md).
"""

import re
from dataclasses import replace
from fractions import Fraction

import pytest

import hexveil as hv
from attack.path_audit import AUDITS, Pair, bound, by_fleet, draws, pair_of, runs
from attack.path_files import Setting, losses_of_target
from examples import LONG
from hexveil.mechanisms import noise
from source_trees import DOCS

pytestmark = pytest.mark.slow

PAGE = DOCS / "understand" / "audit.md"
DRAWS = 100_000 if LONG else 15_000
"""Of either input."""
RUNS, FLEETS = (500, 250) if LONG else (3, 750)
"""Whole runs of either file; each is of many fleets."""
SEEN = 0.3
"""The share of a claim that has to be proven where nothing is broken: the audit is not blind."""
BOTH = ("mean", "variance")
CITY = {"x": [6, 2, 2, 1, 1, 1, 1, 1], "y": [4, 1, 2, 2, 1, 1, 1], "z": [5, 0, 1, 1, 2, 1, 1, 3]}
CROWD = {"x": [6, 3, *[1] * 30], "y": [4, 2, *[1] * 30], "z": [5, 0, *[1] * 30]}
DAYS = {"privacy_unit": "user-day", "time": "at", "timezone": "Asia/Kolkata"}
HOURS = {
    "time": "at",
    "lat": "lat",
    "lon": "lon",
    "cells": hv.Cells(6, "1h", "Asia/Kolkata", slot="pooled"),
}
CASES = {
    "each cell alone, every statistic": Setting(
        CROWD, {"method": "per-cell", "epsilon": 2, "statistics": ("mean", "variance", "sd")}
    ),
    "factors, least largest error, both": Setting(
        CROWD, {"epsilon": 2, "statistics": BOTH, "objective": "max"}
    ),
    "suppression, both": Setting(CROWD, {"method": "clip-user", "epsilon": 2, "statistics": BOTH}),
    "composition, pooled hours": Setting(
        CITY,
        {"method": "equal-split", "mechanism": hv.mechanisms.Baseline(), "epsilon": 1},
        HOURS,
        days=2,
        moving=2,
    ),
    "days of a user": Setting(CITY, {"method": "per-cell", "epsilon": 1}, DAYS, days=2),
}
WHOLE = Setting(
    {"x": [3, *[1] * 9], "y": [2, *[1] * 9]},
    {"method": "per-cell", "epsilon": 2, "statistics": ("mean", "variance", "sd")},
)
"""A fleet with four noisy numbers: the standard deviation has no noise of its own."""
ALONE = Setting({"x": [3, 1, 1, 1]}, {"method": "per-cell", "epsilon": "1.5"}, groups=300)


def printed(name):
    """Return what the page says of a case: claim, exact loss, and what was proven."""
    (row,) = re.findall(
        rf"^\| {re.escape(name)} \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    _, *figures = row.split(" | ")
    return [float(figure) for figure in figures]


def fleets_of(pair, setting):
    """Return a pair with a row for each fleet."""
    return Pair(*(by_fleet(one, setting) for one in (pair.left, pair.right, pair.scales)))


@pytest.mark.parametrize("name", CASES)
def test_draws_do_not_refute_the_claim(name, tmp_path):
    """Draws under neighbours prove no more than the unit's loss, and a good part of it."""
    left, right, plan = CASES[name].both(tmp_path)
    claim = max(losses_of_target(left, plan))
    pair = pair_of(left, right, plan)
    assert 0.85 * claim < pair.exact <= Fraction(claim) <= plan.epsilon
    assert printed(name)[:2] == pytest.approx([claim, float(pair.exact)], abs=6e-4)
    proven = bound(pair, draws(left, plan, DRAWS), draws(right, plan, DRAWS))
    assert SEEN * claim < proven <= claim


def test_the_level_covers_every_bound():
    """At most so many bounds are compared with a claim as share the one chance in a million."""
    assert len(CASES) + 3 <= AUDITS


@pytest.mark.parametrize(
    ("fleets", "epsilon", "seen"), [(FLEETS, 2, SEEN), *([(1, 4, 0.02)] if LONG else [])]
)
def test_whole_runs_do_not_refute_what_is_booked(fleets, epsilon, seen, tmp_path):
    """Outcomes read from folders prove no more than the ledger says, and a good part of it.

    The long form has one fleet alone as well: 500 runs of two files that are neighbours.
    """
    setting = replace(WHOLE, groups=fleets, plan=WHOLE.plan | {"epsilon": epsilon})
    left, right, plan = setting.both(tmp_path)
    pair = fleets_of(pair_of(left, right, plan), setting)
    (one, spent), (other, same) = (runs(setting, file, RUNS) for file in setting.files(tmp_path))
    assert spent == same >= max(losses_of_target(left, plan))
    assert one.shape == other.shape == (RUNS, fleets, 4)
    assert seen * float(spent) < bound(pair, one, other) <= spent


def test_whole_runs_of_a_broken_twin_are_caught(tmp_path, monkeypatch):
    """With half the noise that was booked, outcomes read from folders prove more than the book."""
    pair = fleets_of(pair_of(*ALONE.both(tmp_path)), ALONE)
    real = noise.add_laplace
    monkeypatch.setattr(noise, "add_laplace", lambda values, scales: real(values, scales / 2))
    (one, spent), (other, _) = (runs(ALONE, file, 4) for file in ALONE.files(tmp_path))
    assert bound(Pair(pair.left, pair.right, pair.scales / 2), one, other) > spent
