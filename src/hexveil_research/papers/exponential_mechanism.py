"""The exponential mechanism, as the papers print it, in place of permute-and-flip: for study only.

Source: IOT Algorithm 3 and section III-E, with ERRATA 11 and 12. A candidate of cost c is chosen
with a chance proportional to exp(-c/scale). At the scale of permute-and-flip, 2 votes/ε, it has
the same loss ε; so both differ in their error alone. Costs are those of the errata.

Costs of the papers' private choices, for values written as decimals: the code's own costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from hexveil.base.arrays import Floats, Ints
from hexveil.base.rational import Number
from hexveil.mechanisms import CellMechanism
from hexveil.mechanisms.contract import NoiseSource
from hexveil.mechanisms.private_quantile import EvenBins, EvenPoints, MiddleCost, RankCost
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.single_cell import CellAllocation, CellPlan, CellProblem
from hexveil.mechanisms.stage_data import Outputs, PrivateSums

PRINTED = "exponential mechanism (printed)"
"""The choice, for the names of lines."""


class ExponentialNoise(SimulatedNoise):
    """Simulated noise whose choices are those of the exponential mechanism."""

    @classmethod
    def like(cls, noise: SimulatedNoise) -> ExponentialNoise:
        """Return noise that goes on with the stream and the trials of another."""
        return cls(noise._generator, noise._trials)  # noqa: SLF001  of its own base class

    def noisy_max(self, scores: Ints, sizes: Ints, scale: float) -> Ints:
        """Return the candidate chosen in each trial: see `SimulatedNoise.noisy_max`."""
        run = choose_exponential(-scores, sizes, scale, self._generator, self._trials)
        begin = np.cumsum(sizes, axis=1) - sizes
        row = 0 if len(sizes) == 1 else np.arange(self._trials)
        # The candidates of a run have one score, so each is chosen alike.
        within = self._generator.random(self._trials) * sizes[row, run]
        return np.asarray(begin[row, run] + within.astype(np.int64))


class PrintedPlan(CellPlan):
    """The plan of one cell whose simulated choices are those of the exponential mechanism."""

    def outputs(self, sums: PrivateSums, source: NoiseSource) -> Outputs:
        """Return the noisy integers of all stages: see `CellPlan.outputs`."""
        assert isinstance(source, SimulatedNoise)  # noqa: S101  vetted noise has no such choice
        return super().outputs(sums, ExponentialNoise.like(source))


@dataclass(frozen=True, repr=False)
class PrintedChoice(CellMechanism):
    """A mechanism with the choice that the paper prints, for study only.

    Parameters
    ----------
    mechanism : CellMechanism
        As it is released: with permute-and-flip.
    """

    mechanism: CellMechanism

    @property
    def name(self) -> str:
        """The mechanism's, and the choice."""
        return f"{self.mechanism.name}, {PRINTED}"

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> CellAllocation:
        """Return the allocation of one cell: that of the mechanism."""
        return self.mechanism.allocate_cell(cell, epsilon)

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> PrintedPlan:
        """Return the public plan of one cell: see `CellMechanism.plan`."""
        plan = self.mechanism.plan(counts, bounds=bounds, epsilon=epsilon)
        return PrintedPlan(plan.allocation)


def exponential_law(costs: Ints, sizes: Ints, scale: float) -> Floats:
    """Return the chance of each run of candidates of one cost, for each row.

    Examples
    --------
    >>> exponential_law(np.array([[0, 1]]), np.array([[1, 1]]), 1 / np.log(4)).tolist()
    [[0.8, 0.2]]
    """
    least = np.where(sizes > 0, costs, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
    # An empty run may cost less than any candidate: it must not overflow before it counts 0.
    weights = sizes * np.exp(-np.maximum(costs - least, 0) / scale)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def choose_exponential(
    costs: Ints, sizes: Ints, scale: float, generator: np.random.Generator, trials: int
) -> Ints:
    """Return the run that the exponential mechanism chooses in each trial.

    Parameters
    ----------
    costs, sizes, scale, generator, trials
        As for `hexveil.mechanisms.simulated_noise.choose`.
    """
    ends = exponential_law(costs, sizes, scale).cumsum(axis=1)
    draws = generator.random(trials) * ends[:, -1]
    if len(ends) == 1:
        return np.asarray(np.searchsorted(ends[0], draws, side="right"), dtype=np.int64)
    return np.asarray((ends <= draws[:, None]).sum(axis=1), dtype=np.int64)


QUANTA = 1000
"""Quanta of a unit of value in which the bins of a middle are told apart."""


def middle_costs(values: ArrayLike, upper: int, bins: int) -> Ints:
    """Return the cost of each of `bins` equal bins of [0, upper]: values below, or above if more.

    Examples
    --------
    >>> middle_costs([6.9, 7.0, 7.2], 8, 4).tolist()
    [3, 3, 3, 0]
    """
    quanta = np.rint(np.asarray(values, dtype=np.float64) * QUANTA).astype(np.int64)
    places = EvenBins(upper * QUANTA, bins).places(quanta)
    cumulative = np.cumsum(np.bincount(places, minlength=bins + 1))
    return np.asarray(MiddleCost().costs(cumulative[None])[0])


def rank_costs(values: ArrayLike, steps: int, target: int) -> Ints:
    """Return the cost of each point j/steps of [0, 1]: values at or below it, less the target.

    Values are multiples of 1/steps.

    Examples
    --------
    >>> rank_costs([0.0, 0.5], 2, 1).tolist()
    [0, 1, 1]
    """
    quanta = np.rint(np.asarray(values, dtype=np.float64) * steps).astype(np.int64)
    places = EvenPoints(steps, steps).places(quanta)
    cumulative = np.cumsum(np.bincount(places, minlength=steps + 2))
    return np.asarray(RankCost(target).costs(cumulative[None])[0])
