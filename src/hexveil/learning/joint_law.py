"""Joint normal law of many numbers, each with a likelihood of its own in bins.

Expectation propagation (Minka, 2001): each likelihood stands for a normal factor whose moments
together with all others' agree with those of the likelihood itself. What numbers share is few
numbers u, so that nothing is inverted that is larger than these (Woodbury).
"""

import math
from dataclasses import dataclass

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.normal_law import ndtr
from hexveil.base.read_only import ReadOnlyArrays

SWEEPS, FIRST_SWEEPS = 2, 12
"""Of a day, and of a first one: under a wide prior of what all share, sweeps overshoot."""
DAMPING = 0.5
"""Part of a step in a sweep of a first day."""
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class NumberLaw:
    """Normal law of many numbers: mean + roots · u + residuals.

    Attributes
    ----------
    mean, residual : ndarray of float, shape (n,)
        Of the numbers, and the variances of their own parts, the residuals.
    roots : ndarray of float, shape (n, k)
        By independent standard normal numbers u.
    with_residual : ndarray of float, shape (n, ...)
        Covariances of the residual with something else of a cell.
    """

    mean: Floats
    residual: Floats
    roots: Floats
    with_residual: Floats

    @property
    def variance(self) -> Floats:
        """Variance of each number."""
        return np.asarray(self.residual + np.sum(self.roots**2, axis=1))


@dataclass(frozen=True, eq=False)
class Conditioned:
    """What normal factors of numbers say of everything else.

    Attributes
    ----------
    remaining : ndarray of float, shape (n,)
        What a factor leaves of the variance of a number's residual.
    weight, shift : ndarray of float, shape (n,)
        Given u, what has covariance c with the residual of a number moves by
        c · (shift - weight · roots · u), and its variance shrinks by c² · weight.
    mean : ndarray of float, shape (k,)
    whitener : ndarray of float, shape (k, k)
        u is now mean + whitenerᵀ · v, with independent standard normal v.
    log_mass : float
        Minus half of the log determinant of 1 + covariance · precision.
    """

    remaining: Floats
    weight: Floats
    shift: Floats
    mean: Floats
    whitener: Floats
    log_mass: float

    def variance(self, numbers: NumberLaw, law: NumberLaw) -> Floats:
        """Return the variances of numbers, by the law of those that the factors are of."""
        gain = numbers.with_residual * self.weight
        roots = (numbers.roots - gain[:, None] * law.roots) @ self.whitener.T
        return np.asarray(
            numbers.residual - gain * numbers.with_residual + np.sum(roots**2, axis=1)
        )


def condition(law: NumberLaw, precision: Floats, shift: Floats) -> Conditioned:
    """Return what normal factors say.

    Parameters
    ----------
    law : NumberLaw
    precision, shift : ndarray of float, shape (n,)
        Of each factor: 1 / variance, and (its mean - that of the law) / variance.
    """
    remaining = 1.0 / (1.0 + law.residual * precision)
    weight, shift = remaining * precision, remaining * shift
    weighted = np.sqrt(weight)[:, None] * law.roots
    lower = np.linalg.cholesky(np.eye(weighted.shape[1]) + weighted.T @ weighted)
    whitener = np.linalg.inv(lower)
    mean = whitener.T @ (whitener @ (shift @ law.roots))
    log_mass = 0.5 * np.sum(np.log(remaining)) - np.sum(np.log(np.diag(lower)))
    return Conditioned(remaining, weight, shift, mean, whitener, float(log_mass))


@dataclass(frozen=True, eq=False)
class Update(ReadOnlyArrays):
    """Update of a joint normal prior by likelihoods.

    Attributes
    ----------
    posterior : Conditioned
        The law of the numbers given the normal factors of their likelihoods.
    evidence : float
        Log of the likelihood's expectation under the prior.
    mean, variance : ndarray of float, shape (n,)
        Of each number by everything but its own likelihood.
    """

    posterior: Conditioned
    evidence: float
    mean: Floats
    variance: Floats


def tilted(
    mean: Floats, variance: Floats, edges: Floats, density: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return log mass, mean and variance of normal numbers times their likelihoods.

    Parameters
    ----------
    mean, variance : ndarray of float, shape (n,)
    edges, density : ndarray of float, shapes (n, n_bins + 1) and (n, n_bins)
    """
    sd = np.sqrt(variance)
    z = (edges - mean[:, None]) / sd[:, None]
    height = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    height[:, [0, -1]] = 0.0  # the outer bins reach to infinity
    mass = np.einsum("ij,ij->i", density, _normal_masses(z))
    linear, square = (
        np.einsum("ij,ij->i", density, moment[:, :-1] - moment[:, 1:])
        for moment in (height, z * height)
    )
    total = np.maximum(mass, TINY)
    centre = linear / total
    spread = np.maximum((mass + square) / total - centre**2, 1e-8)
    return np.log(total), mean + sd * centre, variance * spread


def log_masses(mean: Floats, variance: Floats, edges: Floats, density: Floats) -> Floats:
    """Return the log mass of normal numbers times their likelihoods, perhaps by many laws."""
    mass = _normal_masses((edges - mean[..., None]) / np.sqrt(variance)[..., None])
    return np.asarray(np.log(np.maximum(np.einsum("ij,...ij->...i", density, mass), TINY)))


def bin_masses(mean: Floats, variance: Floats, edges: Floats, density: Floats) -> Floats:
    """Return the posterior probability of each bin."""
    mass = _normal_masses((edges - mean[:, None]) / np.sqrt(variance)[:, None])
    weighted = mass * density + TINY
    return np.asarray(weighted / np.sum(weighted, axis=1, keepdims=True))


def _normal_masses(z: Floats) -> Floats:
    """Return the mass of the standard normal law in each bin; the outer bins reach to infinity."""
    # By the nearer tail, so that no digits are lost far out; the bin of 0 has 1 less both tails.
    tail = np.copysign(ndtr(-np.abs(z)), -z)
    tail[..., [0, -1]] = 0.0
    is_above = np.signbit(tail)
    is_above[..., [0, -1]] = False, True
    mass = tail[..., 1:] - tail[..., :-1] + (is_above[..., 1:] > is_above[..., :-1])
    return np.asarray(np.maximum(mass, 0.0))


def update(law: NumberLaw, edges: Floats, density: Floats, *, is_first: bool = False) -> Update:
    """Return the update of a joint normal prior by the likelihoods of its numbers.

    Parameters
    ----------
    law : NumberLaw
    edges, density : ndarray of float, shapes (n, n_bins + 1) and (n, n_bins)
    is_first : bool
        Whether the prior knows next to nothing.
    """
    edges = edges - law.mean[:, None]
    prior = law.variance
    _, centre, variance = tilted(np.zeros_like(prior), prior, edges, density)
    precision, shift = np.maximum(1.0 / variance - 1.0 / prior, 1e-10), centre / variance
    sweeps, step = (FIRST_SWEEPS, DAMPING) if is_first else (SWEEPS, 1.0)
    for sweep in range(sweeps + 1):
        posterior = condition(law, precision, shift)
        spread = np.sum((law.roots @ posterior.whitener.T) ** 2, axis=1)
        variance = posterior.remaining * (law.residual + posterior.remaining * spread)
        centre = posterior.remaining * (law.roots @ posterior.mean) + law.residual * posterior.shift
        others = np.maximum(1.0 / variance - precision, 1e-10)
        cavity_variance = 1.0 / others
        cavity = cavity_variance * (centre / variance - shift)
        mass, tilted_mean, tilted_variance = tilted(cavity, cavity_variance, edges, density)
        if sweep == sweeps:
            break
        aimed = np.maximum(1.0 / tilted_variance - others, 0.0)
        precision = (1.0 - step) * precision + step * aimed
        shift = (1.0 - step) * shift + step * (tilted_mean / tilted_variance - cavity * others)
    evidence = (
        np.sum(mass)
        + posterior.log_mass
        + 0.5 * shift @ centre
        - 0.5 * np.sum(np.log(variance) + centre**2 / variance)
        + 0.5 * np.sum(np.log(cavity_variance) + cavity**2 / cavity_variance)
    )
    return Update(posterior, float(evidence), law.mean + cavity, cavity_variance)
