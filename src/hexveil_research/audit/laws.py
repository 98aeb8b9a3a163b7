"""The exact law of what a plan or a private choice puts out, from its own release path.

A release draws some private choices and at most one Laplace noise. Handed a source that follows
every branch of every choice, it tells for each the value that noise is added to and the scale; the
chances of the branches are the law of permute-and-flip. So the law of the outcome is a mixture of
Laplace laws and of points, worked out without a mechanism's formulas a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms.permute_and_flip import law
from hexveil.mechanisms.selection import Choice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.mechanisms.cell_plan import CellPlan, NoiseSource

    Floats = NDArray[np.float64]
    Subject = CellPlan | Choice


@dataclass(frozen=True)
class Event:
    """That an outcome lies within [low, high]; fixed before anything is drawn."""

    low: float = -np.inf
    high: float = np.inf

    def count(self, outcomes: Floats) -> int:
        """Return how many outcomes lie within."""
        return int(np.count_nonzero((outcomes >= self.low) & (outcomes <= self.high)))


@dataclass(frozen=True, eq=False)
class Mixture:
    """A law: with chance `weights[i]`, `centres[i]` plus Laplace noise of `scales[i]`, 0 for none.

    Attributes
    ----------
    weights, centres, scales : ndarray of float, shape (n,)
    """

    weights: Floats
    centres: Floats
    scales: Floats

    def chance(self, event: Event) -> float:
        """Return the chance of an event."""
        inside = (self.centres >= event.low) & (self.centres <= event.high)
        smooth = self.scales > 0
        scales = np.where(smooth, self.scales, 1.0)
        low, high = ((end - self.centres) / scales for end in (event.low, event.high))
        return float(self.weights @ np.where(smooth, _between(low, high), inside))


def release(subject: Subject, values: Floats, noise: NoiseSource) -> float:
    """Return one outcome of a plan, for user means, or of a choice, for the values it ranks."""
    if isinstance(subject, Choice):
        return subject.draw(values, noise)
    return subject.release(values, noise)


def mixture(subject: Subject, values: Floats) -> Mixture:
    """Return the exact law of `release`.

    Examples
    --------
    >>> from hexveil.mechanisms import Baseline
    >>> plan = Baseline().plan([3, 1], bounds=(0, 8), epsilon=2)
    >>> found = mixture(plan, np.array([0.0, 8.0]))
    >>> found.weights.tolist(), found.centres.tolist(), found.scales.tolist()
    ([1.0], [2.0], [3.0])
    >>> found.chance(Event(low=2.0))
    0.5
    """
    leaves, todo = [], [_Branch((), 1.0)]
    while todo:
        branch = todo.pop()
        centre = release(subject, values, branch)
        if branch.odds is None:
            leaves.append((branch.weight, centre, branch.scale))
        else:
            todo += [
                _Branch((*branch.path, i), branch.weight * float(odds))
                for i, odds in enumerate(branch.odds)
            ]
    weights, centres, scales = np.array(leaves).T
    return Mixture(weights, centres, scales)


class _Branch:
    """A source that makes given choices, notes the odds of the next one, and adds no noise."""

    def __init__(self, path: tuple[int, ...], weight: float) -> None:
        self.path, self.weight = path, weight
        self.odds: Floats | None = None
        self.scale, self._made = 0.0, 0

    def laplace(self, scale: float) -> float:
        """Note the scale; return no noise."""
        self.scale = scale
        return 0.0

    def noisy_max(self, scores: NDArray[np.int64], scale: float) -> int:
        """Return the given choice; note the odds of the first that is not given."""
        if self._made < len(self.path):
            self._made += 1
            return self.path[self._made - 1]
        if self.odds is None:
            self.odds = law(-scores, np.ones(scores.size, dtype=np.int64), scale)
        return 0


def _between(low: Floats, high: Floats) -> Floats:
    """Return the chance that a standard Laplace draw lies between; exact in both tails."""
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    return np.asarray(_up_to(b) - _up_to(a), dtype=np.float64)


def _up_to(x: Floats) -> Floats:
    half = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, half, 1.0 - half)
