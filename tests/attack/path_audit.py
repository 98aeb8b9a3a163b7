"""Draws from the publishing path, the attacker's best test, and the bound on a loss it proves.

Outcome: the noisy whole numbers of every cell and statistic at once. With left and right the two
neighbours' numbers without noise, and R the noise scales (public), the likelihood ratio of an
outcome z is exp(l(z)), l(z) = Σ (|z - right| - |z - left|) / R, for the noise is discrete Laplace.
Events are {l >= t}: no event of equal chance tells the neighbours apart better (Neyman, Pearson).
The mirror image {l <= -t} is the event of the other direction.

Rules as in the audit of a single cell (docs/understand/). t is one of a fixed list, chosen in two
ways: by exact laws, before anything is drawn; and by the first half of the sample, where only
events of the second half are counted, so that Clopper-Pearson's ends hold. The latter needs no law
to be right. All bounds of the folder hold together but for a chance of one in a million.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from unittest.mock import patch

import numpy as np

from hexveil.mechanisms import noise
from hexveil_research.audit import detection, loss_bound
from hexveil_research.audit.run import FAMILY
from publishing import measuring
from publishing.drawing import drawn as drawn_by

AUDITS = 40
"""Bounds that are compared with a claim, in the long form; test_path_audit.py counts them."""
STRATEGIES, DIRECTIONS, ENDS = 2, 2, 2
LEVEL = FAMILY / (AUDITS * STRATEGIES * DIRECTIONS * ENDS)
"""The chance allowed per end."""

SHARES = (0.98, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
"""Thresholds t, as shares of the largest l."""


@dataclass(frozen=True, eq=False)
class Pair:
    """What two neighbours hand to the noise door, entry by entry; all of it known to the attacker.

    Attributes
    ----------
    left, right : ndarray of int, shape (..., n_entries)
        Numbers without noise.
    scales : ndarray of float, shape (..., n_entries)
        Of the noise that is really drawn.
    """

    left: np.ndarray
    right: np.ndarray
    scales: np.ndarray

    @property
    def exact(self):
        """Return the exact loss between the two, as a fraction; the largest of several."""
        moved = np.abs(self.left - self.right).reshape(-1, self.left.shape[-1]).tolist()
        scales = self.scales.reshape(-1, self.left.shape[-1]).tolist()
        return max(
            sum(Fraction(d) / Fraction(r) for d, r in zip(*row, strict=True))
            for row in zip(moved, scales, strict=True)
        )

    def evidence(self, outcomes):
        """Return l of each outcome: above zero it speaks for the left."""
        right, left = np.abs(outcomes - self.right), np.abs(outcomes - self.left)
        return ((right - left) / self.scales).sum(axis=-1)

    def twice(self):
        """Return the pair of an attacker who sees two independent answers."""
        return Pair(*(np.concatenate([one, one], -1) for one in self.entries))

    @property
    def entries(self):
        """Return the three arrays."""
        return self.left, self.right, self.scales


def handed(dataset, plan):
    """Return what one release of a plan hands to the noise door: whole numbers, and scales."""
    seen = []

    def door(values, scales):
        seen.append((values.copy(), scales.copy()))
        return values

    with patch.object(noise, "add_laplace", door):
        drawn(dataset, plan)
    (one,) = seen
    return one


def drawn(dataset, plan):
    """Return the noisy whole numbers by statistic, as a release draws them."""
    measuring.check(dataset, plan)
    return drawn_by(dataset, plan)


def pair_of(left, right, plan):
    """Return the pair of two data sets under one plan."""
    (numbers, scales), (others, same) = handed(left, plan), handed(right, plan)
    assert scales.tolist() == same.tolist()
    return Pair(numbers, others, scales)


def draws(dataset, plan, n):
    """Return n outcomes, a row each: the publishing functions' own numbers, through the door.

    The numbers of a release are the same every time, so that they are computed once, and the door
    is asked once for all releases.
    """
    door, batches = noise.add_laplace, []

    def many(values, scales):
        batches.append(door(np.tile(values, n), np.tile(scales, n)).reshape(n, -1))
        return batches[0][0].copy()

    with patch.object(noise, "add_laplace", many):
        drawn(dataset, plan)
    (batch,) = batches
    return batch


def bound(pair, for_left, for_right, level=LEVEL):
    """Return the largest loss proven by outcomes under either input.

    By the event that exact laws recommend, on the whole sample; and by the event that the first
    half of the sample recommends, on the second half.

    Parameters
    ----------
    pair : Pair
    for_left, for_right : ndarray of int
        Outcomes under the left input and under the right one.
    """
    for_left, for_right = (pair.evidence(one).ravel() for one in (for_left, for_right))
    ways = (for_left, for_right), (-for_right, -for_left)
    fixed, half = recommended(pair, for_left.size, level)[0], for_left.size // 2
    proven = [_proven(*way, fixed, level) for way in ways]
    for sample, other in ways:
        first = partial(_proven, sample[:half], other[:half], level=level)
        chosen = max((share * float(pair.exact) for share in SHARES), key=first)
        proven.append(_proven(sample[half:], other[half:], chosen, level))
    return max(proven)


def _proven(sample, other, t, level):
    counts = (int((one >= t).sum()) for one in (sample, other))
    return loss_bound(*counts, sample.size, level)


def audit(pair, left, right, n):
    """Return the loss proven by n outcomes of either input, drawn by two functions."""
    return bound(pair, left(n), right(n))


BINS = 4000
"""Steps of a law's grid from zero to the largest l."""


def recommended(pair, n, level=LEVEL):
    """Return the threshold t that is likely to prove most of n outcomes each, and two chances.

    They are that of l >= t under the left, not above the true one, and under the right, not below.
    """
    moved, scales = (
        one.reshape(-1, one.shape[-1])[0] for one in (pair.left - pair.right, pair.scales)
    )
    found = zip(SHARES, _laws(np.abs(moved), scales), strict=True)
    share, (p, q) = max(
        found, key=lambda each: loss_bound(int(n * each[1][0]), int(n * each[1][1]) + 1, n, level)
    )
    return share * float(pair.exact), p, q


def _laws(moved, scales):
    """Return the two chances of each threshold.

    l is a sum of independent entries. Of an entry that moves by d under scale R, l under the left
    is at least t if the noise, counted towards the right, is at most (d - t R) / 2; under the right
    it is the same with the other sign. Each entry is rounded down to a grid: under the left that
    makes the chance smaller, under the right larger.
    """
    most = sum(d / scale for d, scale in zip(moved.tolist(), scales.tolist(), strict=True))
    step, law = most / BINS, np.ones(1)
    for d, scale in zip(moved.tolist(), scales.tolist(), strict=True):
        if d:
            bins = math.ceil(d / scale / step)
            survival = _at_least(step * np.arange(-bins, bins + 1), d, scale)
            law = np.convolve(law, -np.diff(survival, append=0.0))
    grid = step * (np.arange(law.size) - law.size // 2)
    return [(law[grid >= t].sum(), law[grid <= -t].sum()) for t in most * np.array(SHARES)]


def _at_least(t, d, scale):
    """Return P(l >= t) of one entry under the left, a hair less at ties."""
    room = np.floor((d - t * scale) / 2.0 - 1e-9)
    inside = 1.0 - np.exp(-(np.maximum(room, -1.0) + 1.0) / scale) / (1.0 + math.exp(-1.0 / scale))
    return np.where(t <= -d / scale, 1.0, np.where(t * scale > d, 0.0, inside))


def power(pair, n, claim, level=LEVEL):
    """Return a chance with which, or with more, `bound` of n outcomes each exceeds a claim.

    By exact laws and binomial tails, from the recommended event alone.
    """
    _, p, q = recommended(pair, n, level)
    return detection(p, q, n, level, claim)
