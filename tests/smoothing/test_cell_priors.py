"""Priors of cells against scipy's laws, and the map's parameters against brute force."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import stats

from examples import examples
from hexveil.smoothing import cell_priors
from hexveil.smoothing.cell_priors import CellPrior, fit_parameters
from hexveil.smoothing.user_mean_law import UserMeanSpread
from smoothing.clipped_cells import BOUNDS, even_design

SPREAD = UserMeanSpread(40.0, 10.0, 10.0, 6.0)
EDGES = np.linspace(*BOUNDS, 201)


def truncated(edges, centre, sd):
    """Return the masses of a normal law, given the bounds."""
    below = stats.norm.cdf(edges, centre, sd)
    return np.diff(below) / (below[-1] - below[0])


@examples(40)
@given(
    st.floats(0.0, 100.0),
    st.floats(0.1, 40.0),
    st.sampled_from([0.0, 0.25, 0.5]),
    st.lists(st.integers(1, 400), min_size=2, max_size=5),
)
def test_masses_are_the_stated_mixture(centre, deviation, exponent, users):
    """Every cell's bins have the printed law, which adds up to one between the bounds."""
    design = even_design(users)
    masses = CellPrior.of(design, SPREAD, BOUNDS).masses(
        np.tile(EDGES, (len(users), 1)), centre, deviation, exponent
    )
    typical = np.exp(np.mean(np.log(users)))
    for row, n in zip(masses, users, strict=True):
        sd = math.sqrt(deviation**2 * (n / typical) ** (-2 * exponent) + 36.0 / n)
        stated = (
            0.83 * truncated(EDGES, centre, sd)
            + 0.15 * truncated(EDGES, centre, 3 * sd)
            + 0.02 * np.diff(EDGES) / 100.0
        )
        assert row == pytest.approx(stated, abs=1e-9)
        assert row.sum() == pytest.approx(1.0)


def seen(numbers, sd):
    """Return the likelihood of normal numbers in each bin."""
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    return np.exp(-0.5 * ((numbers[:, None] - middle) / sd) ** 2)


def fitted(numbers, sd, design):
    """Return the nodes for cells that show these numbers."""
    prior = CellPrior.of(design, SPREAD, BOUNDS)
    edges = np.tile(EDGES, (numbers.size, 1))
    return fit_parameters([(prior, edges, seen(numbers, sd))], SPREAD, BOUNDS)


def averages(parameters):
    """Return the posterior means of m0 and log τ."""
    weight = parameters.weight
    return [float((weight * x).sum()) for x in (parameters.centre, np.log(parameters.deviation))]


def test_parameters_of_three_cells_are_those_of_a_fine_grid():
    """Nodes laid around each other give the posterior means that brute force gives."""
    numbers, design = np.array([30.0, 36.0, 52.0]), even_design([20, 50, 90])
    prior = CellPrior.of(design, SPREAD, BOUNDS)
    edges, likelihood = np.tile(EDGES, (3, 1)), seen(numbers, 4.0)
    between = math.log(8.0)  # the root of 100 less 36
    total, sums = 0.0, np.zeros(2)
    for centre in np.linspace(5.0, 85.0, 41):
        for log_deviation in np.linspace(between - 3.0, between + 2.0, 36):
            weak = (
                -0.5 * ((centre - 40.0) / 15.0) ** 2
                - 0.5 * ((log_deviation - between) / cell_priors.LOG_DEVIATION_SD) ** 2
            )
            for exponent in cell_priors.EXPONENTS:
                masses = prior.masses(edges, centre, math.exp(log_deviation), exponent)
                weight = math.exp(weak) * np.prod((likelihood * masses).sum(axis=1))
                total += weight
                sums += weight * np.array([centre, log_deviation])
    centre, log_deviation = averages(fitted(numbers, 4.0, design))
    assert centre == pytest.approx(sums[0] / total, abs=0.7)
    assert log_deviation == pytest.approx(sums[1] / total, abs=0.12)
