"""Simultaneous tests of claims about simulated errors at many points.

A margin is a difference of two simulated errors, positive where the claim is right. A claim holds
if data like these would be seen with a probability of at most 1% were it wrong; it fails if they
would be seen with a probability of at most 1% were it right; otherwise it is undecided within
noise. All points count at once, and nothing is assumed of how errors at different points depend on
each other: "everywhere" holds if each point passes (an intersection-union test), and fails by
Bonferroni's correction; "at k points at least" by the partial conjunction of Benjamini and Heller
(2008), of which both are the ends.
Means of thousands of trials are taken as normal, means of a few drawn cells as Student's t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hexveil.base.arrays import Bools, Floats
from hexveil_research.papers.study import Claim

LEVEL = 0.01
"""Probability of a wrong verdict, either way."""
POWER = 0.9
"""Probability with which the smallest difference that is stated would be seen."""
_FAR = 1e3
"""Standard errors that no p-value needs."""


@dataclass(frozen=True)
class Evidence:
    """Evidence of simulated errors for and against a claim.

    Attributes
    ----------
    p_wrong, p_right : float
        P-values of the data if the claim were wrong, and if it were right.
    visible : float
        Smallest difference, in parts of the larger error, that would decide for the claim with
        probability `POWER`.
    """

    p_wrong: float
    p_right: float
    visible: float

    @property
    def holds(self) -> bool | None:
        """Whether the claim holds; None where noise leaves it open.

        Examples
        --------
        >>> Evidence(0.001, 1.0, 0.02).holds, Evidence(0.2, 0.9, 0.02).holds
        (True, None)
        """
        # Against it first: a claim up to a tolerance may have both.
        if self.p_right <= LEVEL:
            return False
        return True if self.p_wrong <= LEVEL else None

    @property
    def note(self) -> str:
        """The power of the test, for the reader.

        Examples
        --------
        >>> Evidence(0.001, 1.0, 0.0213).note
        '; differences from 2.1% would be seen (power 90%)'
        """
        return f"; differences from {self.visible:.1%} would be seen (power {POWER:.0%})"


@dataclass(frozen=True, eq=False)
class Margins:
    """Estimated differences of errors, positive where a claim is right.

    Attributes
    ----------
    estimate, noise : ndarray of float, shape (n_points,)
        The noise is a standard error, 0 where the difference is computed.
    scale : ndarray of float, shape (n_points,)
        The error that a difference is stated in parts of.
    degrees : float
        Degrees of freedom of the standard errors.
    """

    estimate: Floats
    noise: Floats
    scale: Floats
    degrees: float = np.inf

    @property
    def p_wrong(self) -> Floats:
        """P-values at each point if the margin were not positive."""
        return _tail(self._deviation, self.degrees)

    @property
    def p_right(self) -> Floats:
        """P-values at each point if the margin were positive."""
        return _tail(-self._deviation, self.degrees)

    @property
    def positive(self) -> Bools:
        """Where a margin is positive beyond noise, each point by itself."""
        return np.asarray(self.p_wrong <= LEVEL)

    @property
    def negative(self) -> Bools:
        """Where a margin is negative beyond noise, each point by itself."""
        return np.asarray((self.p_right <= LEVEL) & (self.estimate < 0))

    @property
    def _deviation(self) -> Floats:
        # A computed margin of 0 is not positive.
        exact = np.where(self.estimate > 0, np.inf, -np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.noise > 0, self.estimate / self.noise, exact)

    def visible(self, n_passing: int = 1, n_corrected: int = 1) -> float:
        """Return the smallest relative margin that would be seen.

        Parameters
        ----------
        n_passing : int
            Tests that must pass together.
        n_corrected : int
            Tests that the level is divided by.
        """
        levels = (1 - LEVEL / n_corrected, 1 - (1 - POWER) / n_passing)
        reach = sum(_quantile(level, self.degrees) for level in levels)
        return float((reach * self.noise / self.scale).max(initial=0.0))


def _tail(deviation: Floats, degrees: float) -> Floats:
    from scipy.special import stdtr  # noqa: PLC0415  importing hexveil_research must stay light

    return np.asarray(stdtr(degrees, -deviation))


def _quantile(p: float, degrees: float) -> float:
    from scipy.special import stdtrit  # noqa: PLC0415  importing hexveil_research must stay light

    return float(stdtrit(degrees, p))


def everywhere(*margins: Margins) -> Evidence:
    """Return the evidence for all margins being positive.

    Examples
    --------
    >>> one = np.ones(3)
    >>> everywhere(Margins(one, one / 9, one)).holds
    True
    >>> everywhere(Margins(np.array([1, 1, 0.1]), one / 9, one)).holds is None
    True
    >>> everywhere(Margins(np.array([1, 1, -1]), one / 9, one)).holds
    False
    """
    n_points = sum(one.estimate.size for one in margins)
    return at_least(n_points, *margins)


def at_least(k: int, *margins: Margins) -> Evidence:
    """Return the evidence for k margins at least being positive.

    Parameters
    ----------
    k : int
    *margins : Margins
    """
    wrong, right = (
        np.concatenate([getattr(one, name) for one in margins]) for name in ("p_wrong", "p_right")
    )
    visible = max(one.visible(k, wrong.size - k + 1) for one in margins)
    return counted(k, wrong, right, visible)


def counted(k: int, wrong: Floats, right: Floats, visible: float) -> Evidence:
    """Return the evidence for k points at least being right.

    Parameters
    ----------
    k : int
    wrong, right : ndarray of float, shape (n_points,)
        P-values of each point if it were wrong, and if it were right.
    visible : float
        See `Evidence`.
    """
    n = wrong.size
    # Of n hypotheses "wrong" at least n - k + 1 are true unless k points are right.
    p_wrong = (n - k + 1) * np.sort(wrong)[k - 1]
    p_right = k * np.sort(right)[n - k]
    return Evidence(min(1.0, float(p_wrong)), min(1.0, float(p_right)), visible)


def on_average(*margins: Margins) -> Evidence:
    """Return the evidence for the mean over points of the smallest margin being positive.

    Parameters
    ----------
    *margins : Margins
        For one rival each, at the same points.
    """
    estimate, noise = (
        np.array([getattr(one, name) for one in margins]) for name in ("estimate", "noise")
    )
    degrees = min(one.degrees for one in margins)
    mean = Margins(
        estimate.min(axis=0).mean(keepdims=True),
        # However points depend on each other, their mean has no more noise than this.
        noise.max(axis=0).mean(keepdims=True),
        np.array([one.scale for one in margins]).mean(axis=0).mean(keepdims=True),
        degrees,
    )
    if len(margins) == 1 or not noise.any():
        return everywhere(mean)
    # The smallest margin of several rivals: bounds of all rivals at all points are right at once.
    p_wrong, p_right = (
        min(1.0, estimate.size * float(_tail(np.array(deviation), degrees)))
        for deviation in (_reach(estimate, noise), _reach(-estimate, noise, np.max))
    )
    return Evidence(p_wrong, p_right, mean.visible(n_corrected=estimate.size))


def _reach(estimate: Floats, noise: Floats, pick: Callable[..., Floats] = np.min) -> float:
    """Return how many standard errors bring the mean of the picked margins to 0."""

    def remaining(deviation: float) -> float:
        return float(pick(estimate - deviation * noise, axis=0).mean())

    low, high = -_FAR, _FAR
    if remaining(low) <= 0:
        return -np.inf
    if remaining(high) > 0:
        return np.inf
    # Falls with the deviation: bisection, to far less than any error of the margins.
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if remaining(middle) > 0 else (low, middle)
    return low


def all_of(evidence: Sequence[Evidence]) -> Evidence:
    """Return the evidence for all of several claims.

    Examples
    --------
    >>> all_of([Evidence(0.001, 1.0, 0.1), Evidence(1.0, 0.004, 0.2)])
    Evidence(p_wrong=1.0, p_right=0.008, visible=0.2)
    """
    return Evidence(
        max(one.p_wrong for one in evidence),
        min(1.0, len(evidence) * min(one.p_right for one in evidence)),
        max(one.visible for one in evidence),
    )


def opposite(evidence: Evidence) -> Evidence:
    """Return the evidence for a claim being wrong."""
    return Evidence(evidence.p_right, evidence.p_wrong, evidence.visible)


def supported_or_refuted(supporting: Evidence, refuting: Evidence) -> Evidence:
    """Return the evidence for a claim that holds by one test, and fails by another.

    Parameters
    ----------
    supporting : Evidence
        For the claim, perhaps up to a tolerance.
    refuting : Evidence
        For the contrary.
    """
    return Evidence(supporting.p_wrong, refuting.p_wrong, supporting.visible)


def judge(claim: Claim, evidence: Evidence) -> Claim:
    """Return a claim with the verdict of the evidence, and the power of its test."""
    holds = evidence.holds
    return replace(
        claim, measured=claim.measured + evidence.note, holds=holds, within_noise=holds is None
    )
