"""The pictures of user-level privacy: drawn whole, and with the numbers that the page says."""

import math
from pathlib import Path

import numpy as np
import pytest

from hexveil.accounting.bias import midpoint_mean_bias
from hexveil.accounting.privacy_loss import privacy_loss
from hexveil.accounting.sensitivity import user_midpoint_mean_sensitivity
from hexveil.mechanisms import ArrayAveraging, Baseline
from hexveil.report import figure_style
from hexveil_research.pictures import privacy
from hexveil_research.pictures.__main__ import main
from pictures import cut_off

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "understand" / "user-level-privacy.md").read_text(encoding="utf-8")
LIMIT = 13
"""The limit that the page names."""


@pytest.mark.parametrize("name", privacy.NAMES)
def test_pictures_are_drawn_whole(name):
    """No text of a picture is cut off."""
    pytest.importorskip("matplotlib")
    with figure_style.style():
        assert cut_off(privacy.PICTURES[name]()) == []


def test_every_picture_is_on_the_page():
    """The page shows each picture once."""
    for name in privacy.NAMES:
        assert PAGE.count(f"(../images/{name}.svg)") == 1


def test_belief_moves_by_the_factor():
    """For against, after a release, is e^ε times for against before, up and down."""
    before = np.array([0.01, 0.3, 0.9])
    for epsilon in (-2.0, 0.5, 3.0):
        after = privacy.belief(before, epsilon)
        ratio = after / (1 - after) / (before / (1 - before))
        assert ratio == pytest.approx(np.exp(epsilon))


def test_factors_on_the_page():
    """The page's factors and beliefs are those of its ε, rounded away from what was believed."""
    for epsilon, digits in ((0.3, 2), (1, 2), (3, 1), (5, 0)):
        factor = math.ceil(np.exp(epsilon) * 10**digits) / 10**digits
        assert f"{factor:g} at ε = {epsilon:g}" in PAGE
    one, five = (float(privacy.belief(np.array([0.5]), epsilon)[0]) for epsilon in (1, 5))
    assert f"believe {math.ceil(1000 * one) / 10:.1f} % at most at ε = 1" in PAGE
    assert f"and {math.floor(1000 * (1 - one)) / 10:.1f} % at least" in PAGE
    assert f"it may be {math.ceil(1000 * five) / 10:.1f} %" in PAGE


def test_losses_on_the_page():
    """What buses lose by record and by bus, and what counting cells would claim, are computed."""
    occupancy, made = privacy.fleet(), privacy.planned()
    scales = privacy.SPAN / occupancy.records_per_cell
    by_record = privacy_loss(occupancy, scales, None, privacy.SPAN)
    assert by_record == pytest.approx(occupancy.records_per_user)
    assert f"{by_record.min():.0f} to {by_record.max():.0f} here" in PAGE
    assert made.losses().max() <= 1
    assert f"half of them {np.median(made.losses()):.2f} or less" in PAGE
    assert f"would have claimed {float(made.l0_epsilon):.2f} instead of 1" in PAGE


def test_a_loss_is_the_sum_over_cells():
    """The pieces of a bar add up to what the plan says its bus loses."""
    occupancy, made = privacy.fleet(), privacy.planned()
    summed = np.bincount(occupancy.user, weights=made.pair_losses())
    assert summed == pytest.approx(made.losses())


def test_clipping_on_the_page():
    """The limit is the best there is, and noise and bias at it are those of the page."""
    counts = np.array(privacy.ONE_CELL)
    noise, bias = [], []
    for limit in range(1, counts.max() + 1):
        kept = np.minimum(counts, limit)
        noise.append(user_midpoint_mean_sensitivity(kept, counts, privacy.SPAN).max())
        bias.append(midpoint_mean_bias(kept, counts, privacy.SPAN))
    total = np.add(noise, bias)
    assert int(total.argmin()) + 1 == LIMIT
    best = LIMIT - 1
    words = f"the noise is {noise[best]:.1f} km/h. Clipping brings a bias: at most"
    assert f"{words} {bias[best]:.1f} km/h" in PAGE
    assert f"The sum of both is {total[best]:.1f} instead of {total[-1]:.1f}" in PAGE
    assert f"for {(counts - np.minimum(counts, LIMIT)).sum()} records out of {counts.sum()}" in PAGE


def test_pseudo_users_on_the_page():
    """Their noise, and the bias that is its price."""
    facts = {"bounds": (0, privacy.SPAN), "epsilon": 1}
    arrays = ArrayAveraging(grouping="best_fit", cap=6).plan(privacy.ONE_CELL, **facts)
    plain = Baseline().plan(privacy.ONE_CELL, **facts)
    assert arrays.allocation.groups.n_arrays == 7
    assert f"from {plain.noise_scale:.0f} to {arrays.noise_scale:.0f} km/h" in PAGE
    assert f"{arrays.worst_case_bias:.1f} km/h at worst" in PAGE


def test_the_command_writes_the_named_picture(tmp_path):
    """A file of the name, and no other, in a folder that is made."""
    pytest.importorskip("matplotlib")
    main([str(tmp_path / "new"), "privacy-cells"])
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["privacy-cells.svg"]
    assert (tmp_path / "new" / "privacy-cells.svg").read_bytes().startswith(b"<?xml")
