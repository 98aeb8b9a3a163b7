"""Second ranges: who moves, where to, and that noise alone moves nobody."""

import math

import numpy as np
import pytest

from hexveil.smoothing import range_selection
from hexveil.smoothing.clipped_posterior import fit
from hexveil.smoothing.range_selection import select_ranges
from hexveil.smoothing.user_mean_law import ClippedLook, UserMeanSpread
from smoothing.clipped_cells import BOUNDS, draw_cells, even_design, look

SHARE = 0.3


def first_range(spread):
    """Return a range of 1.6 deviations either way, within the bounds."""
    low, high = spread.centre - 1.6 * spread.below, spread.centre + 1.6 * spread.above
    return max(low, BOUNDS[0]), min(high, BOUNDS[1])


def selected(numbers, noise, spread, users=60):
    """Return the ranges of cells with these first numbers, and the first look."""
    size = len(numbers)
    low, high = (np.full(size, x) for x in first_range(spread))
    design, per_width = even_design([users] * size), np.full(size, noise)
    seen = ClippedLook(np.array(numbers), low, high, per_width * (high - low) / SHARE)
    posterior = fit([seen], design, spread, BOUNDS)
    return select_ranges(posterior, [seen], design, spread, per_width, SHARE, BOUNDS), seen


SPREAD = UserMeanSpread(40.0, 10.0, 10.0, 4.0)


def test_a_cell_beyond_its_range_moves_to_where_it_is():
    """Cells whose clipped average is at an end are looked at again beyond that end."""
    ranges, seen = selected([24.1, 40.0, 41.0, 38.0, 55.9], 3e-3, SPREAD)
    assert ranges.moved[[0, 4]].all()
    assert ranges.lower[0] < seen.lower[0]
    assert ranges.upper[4] > seen.upper[4]
    assert ranges.upper[0] < 50.0
    assert ranges.lower[4] > 30.0
    stay = ~ranges.moved
    assert np.all(ranges.lower[stay] == seen.lower[stay])
    assert np.all(ranges.upper[stay] == seen.upper[stay])


def test_like_cells_seldom_move():
    """Where cells are alike and noise is not small, hardly a cell is looked at twice."""
    rng = np.random.default_rng(1)
    drawn = draw_cells(rng, 120, between=1.5, within=8.0)
    low, high = first_range(drawn.spread)
    noise = np.full(120, 0.02)
    seen = look(rng, drawn, low, high, noise * (high - low) / SHARE)
    posterior = fit([seen], drawn.design, drawn.spread, BOUNDS)
    ranges = select_ranges(posterior, [seen], drawn.design, drawn.spread, noise, SHARE, BOUNDS)
    assert ranges.moved.mean() <= 0.05


def test_the_criterion_is_the_standard_error_of_a_plain_cell():
    """Far from both ends a kept cell's error is that of noise and prior, by the printed formula."""
    noise, users = 1e-3, 10_000
    spread = UserMeanSpread(50.0, 20.0, 20.0, 1.0)
    design = even_design([users])
    one = [np.array([x]) for x in (50.0, 18.0, 82.0)]
    seen = ClippedLook(*one, np.array([noise * 64.0 / SHARE]))
    posterior = fit([seen], design, spread, BOUNDS)
    law = range_selection.UserMeanLaw.of(design, spread, BOUNDS)
    nodes = np.array([[48.0, 50.0, 52.0]])
    found = range_selection._information(law, design, law.modes(nodes), seen, seen.scale)
    assert found == pytest.approx(1.0 / (2.0 * (noise * 64.0 / SHARE) ** 2), rel=1e-3)
    error = range_selection._expected_error(found)
    expected = math.sqrt(2.0 / math.pi) * math.sqrt(2.0) * noise * 64.0 / SHARE
    assert error == pytest.approx(expected, rel=1e-3)
    assert posterior.mean_abs_error()[0] == pytest.approx(noise * 64.0 / SHARE, rel=0.25)
