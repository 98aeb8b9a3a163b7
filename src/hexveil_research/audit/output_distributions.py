"""The exact law of a release or of a private choice alone, from the stages themselves.

An allocation makes some private choices and at most one noisy sum. Every branch of every choice is
followed, at the chance that permute-and-flip gives it; at its end stand the value that noise is
added to and the scale. So the law of the outcome is a mixture of Laplace laws and of points,
computed without a mechanism's formulas a second time.

Weakened releases: the same stages with too little noise, as a slip would make it.

An audit that passes a sound release means something only if it refutes these. Two slips of a choice
have one law, since both halve its scale: score sensitivity halved (1 taken where a user in two
arrays of WRAPAROUND moves scores by 2, or one half where it moves them by 1), and the "monotonic"
reading of the vetted noisy max (scale 1/ε instead of 2/ε, ERRATA 12).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Protocol

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.mechanisms.contract import DONE, NoiseSource, Stage
from hexveil.mechanisms.private_quantile import EvenBins, EvenPoints, PrivateQuantile
from hexveil.mechanisms.sensitivity_report import LaplaceNoise, NoisyMax
from hexveil.mechanisms.simulated_noise import SimulatedNoise, law
from hexveil.mechanisms.single_cell import CellPlan
from hexveil.mechanisms.stage_data import Outputs, PrivateSums, Scores, Values


@dataclass(frozen=True)
class Weakening:
    """Factors by which a slip multiplies scales; the claim stays.

    Attributes
    ----------
    name : str
    noise : Fraction
        Factor of the Laplace scale.
    choice : Fraction
        Factor of the scale of every private choice.
    """

    name: str
    noise: Fraction
    choice: Fraction


SOUND = Weakening("as it is", Fraction(1), Fraction(1))
SCALES = Weakening("scales x 0.7", Fraction(7, 10), Fraction(7, 10))
NOISE = Weakening("noise alone x 0.7", Fraction(7, 10), Fraction(1))
SCORES = Weakening("score sensitivity halved, or monotonic", Fraction(1), Fraction(1, 2))


@dataclass(frozen=True)
class WeakenedSource:
    """A noise source that multiplies every scale before it draws.

    Attributes
    ----------
    source : NoiseSource
    weakening : Weakening
    """

    source: NoiseSource
    weakening: Weakening

    def laplace(self, values: Ints, scales: Floats) -> Ints:
        """Return integers plus discrete Laplace noise of too small a scale."""
        # The booking still names the full scales: that gap is the slip.
        return self.source.laplace(values, np.asarray(scales * float(self.weakening.noise)))

    def gaussian(self, values: Ints, deviations: Floats) -> Ints:
        """Return integers plus discrete Gaussian noise of too small a parameter."""
        return self.source.gaussian(values, np.asarray(deviations * float(self.weakening.noise)))

    def noisy_max(self, scores: Ints, sizes: Ints, scale: float) -> Ints:
        """Return the candidate chosen at too small a scale."""
        return self.source.noisy_max(scores, sizes, scale * float(self.weakening.choice))


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


class Subject(Protocol):
    """A thing to be audited."""

    def simulate(self, values: Floats, generator: np.random.Generator, trials: int) -> Floats:
        """Return outcomes with simulated noise, shape (trials,)."""


@dataclass(frozen=True, eq=False)
class AuditedRelease:
    """The release of a cell, or the first choice of it alone.

    Attributes
    ----------
    plan : CellPlan
    choice_alone : bool
        Whether the outcome is the point of the first choice, in value units.
    weakening : Weakening
        Of its noise.
    """

    plan: CellPlan
    choice_alone: bool = False
    weakening: Weakening = SOUND

    def weakened(self, weakening: Weakening) -> AuditedRelease:
        """Return the same release with too little noise."""
        return replace(self, weakening=weakening)

    @property
    def weakenings(self) -> tuple[Weakening, ...]:
        """Weakenings that differ from the release and from each other."""
        if self.choice_alone:
            return SCALES, SCORES
        return (SCALES, NOISE, SCORES) if len(self.plan.allocation.stages) > 1 else (SCALES,)

    @property
    def choice(self) -> PrivateQuantile:
        """The first stage, if it is a choice.

        Raises
        ------
        ValueError
            If the plan makes no choice.
        """
        stage = self.plan.allocation.stages[0]
        if not isinstance(stage, PrivateQuantile):
            raise ValueError("this plan makes no choice, so there is none to audit.")  # noqa: TRY004
        return stage

    def outcomes(self, user_means: Floats, source: NoiseSource) -> Floats:
        """Return outcomes with the noise of a source."""
        sums, weakened = self.plan.cell.sums(user_means), WeakenedSource(source, self.weakening)
        if self.choice_alone:
            # The other choices and the noise would be drawn for nothing.
            request, query = (
                self.choice.noise(Outputs())[0],
                self.choice.measure(sums, Outputs())[0],
            )
            if not (isinstance(request, NoisyMax) and isinstance(query, Scores)):
                raise TypeError(f"the stage {self.choice.name} does not begin with a choice.")
            selected = weakened.noisy_max(query.scores, query.sizes, request.scale)
            return self._points(selected)
        return self.plan.estimates(sums, weakened)

    def simulate(self, values: Floats, generator: np.random.Generator, trials: int) -> Floats:
        """Return outcomes with simulated noise, shape (trials,)."""
        return self.outcomes(values, SimulatedNoise(generator, trials))

    def mixture(self, user_means: Floats) -> Mixture:
        """Return the exact law of the outcomes.

        Examples
        --------
        >>> from hexveil.mechanisms import Baseline
        >>> plan = Baseline().plan([3, 1], bounds=(0, 8), epsilon=2)
        >>> found = AuditedRelease(plan).mixture(np.array([0.0, 8.0]))
        >>> found.weights.tolist(), found.centres.tolist(), found.scales.round(9).tolist()
        ([1.0], [2.0], [3.0])
        >>> found.chance(Event(low=2.0))
        0.5
        """
        leaves = list(self._leaves(self.plan.cell.sums(user_means), Outputs(), 1.0))
        weights, centres, scales = np.array(leaves).T
        return Mixture(weights, centres, scales)

    def _leaves(
        self, sums: PrivateSums, earlier: Outputs, weight: float
    ) -> Iterator[tuple[float, float, float]]:
        """Yield (chance, centre, scale) of the end of every branch after these outputs."""
        stage = self.plan.allocation.next_stage(earlier)
        if stage is DONE:
            yield weight, self._estimate(earlier), 0.0
            return
        request, measured = stage.noise(earlier)[0], stage.measure(sums, earlier)
        if isinstance(request, LaplaceNoise) and isinstance(measured[0], Values):
            centre = measured[0].integers
            scale = float(np.atleast_2d(request.scales)[0, 0] * float(self.weakening.noise))
            # Estimates are linear in the sum; a long step keeps the digits of their difference.
            step = 2**40
            low, high = (
                self._estimate(earlier.extended(stage.name, 1, centre + k * step)) for k in (0, 1)
            )
            # Nothing is released after the noisy sum, so the branch ends here.
            yield weight, low, scale * (high - low) / step
            return
        for row, chance in self._choices(stage, request, measured):
            if self.choice_alone:
                yield weight * chance, float(self._points(row[:, 0])[0]), 0.0
            else:
                extended = earlier.extended(stage.name, stage.entries, row)
                yield from self._leaves(sums, extended, weight * chance)

    def _choices(
        self, stage: Stage, request: object, measured: tuple[object, ...]
    ) -> Iterator[tuple[Ints, float]]:
        """Yield every row of a stage of choices, with its chance."""
        if not isinstance(request, NoisyMax):
            raise TypeError(f"the stage {stage.name} mixes choices and sums.")
        scale = request.scale * float(self.weakening.choice)
        queries = measured[:1] if self.choice_alone else measured
        laws = [_candidate_law(query, scale) for query in queries if isinstance(query, Scores)]
        for row in product(*(range(candidate_law.size) for candidate_law in laws)):
            chance = float(
                np.prod([candidate_law[j] for candidate_law, j in zip(laws, row, strict=True)])
            )
            yield np.array([row], dtype=np.int64), chance

    def _estimate(self, outputs: Outputs) -> float:
        cell = self.plan.cell
        return float(cell.lower + cell.quantum * float(self.plan.allocation.estimate(outputs)[0]))

    def _points(self, selected: Ints) -> Floats:
        """Return the points of these candidates, in value units."""
        cell, candidates = self.plan.cell, self.choice.candidates
        if isinstance(candidates, EvenBins):
            quanta = candidates.double_middles(selected) / 2.0
        elif isinstance(candidates, EvenPoints):
            quanta = candidates.points(selected).astype(np.float64)
        else:
            raise TypeError("the points of a choice are even points or bins.")
        return np.asarray(float(cell.lower) + float(cell.quantum) * quanta)


def _candidate_law(query: Scores, scale: float) -> Floats:
    """Return the chance of each candidate."""
    scores, sizes = (np.broadcast_to(a, (1, a.shape[1]))[0] for a in (query.scores, query.sizes))
    full = np.repeat(scores, sizes)
    # `law` takes costs, of which the least is likeliest, and a stage states scores.
    return law(-full, np.ones(full.size, dtype=np.int64), scale)


def _between(low: Floats, high: Floats) -> Floats:
    """Return the chance that a standard Laplace draw lies between; exact in both tails."""
    # 1 - exp(-x)/2 has no digits left far out on the right: mirrored, the left tail serves both.
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    return np.asarray(_up_to(b) - _up_to(a), dtype=np.float64)


def _up_to(x: Floats) -> Floats:
    half = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, half, 1.0 - half)
