"""Public design of a map with private presence: stages, shares of ε, candidates, caps.

The defaults were chosen on flights of New York and buses of Surat and Warsaw; see
`benchmarks/presence.py` for the division into tuning and judging sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from hexveil.base.errors import InputError
from hexveil.mechanisms.presence.contribution import PARTS
from hexveil.mechanisms.private_quantile import ListedPoints

ONE_SHOT_CLIPPED, RESIDUAL_CLIPPED = 4, 2
"""Share of means that are clipped, per unit of expected noise relative to a cell's weight: around
one centre for all cells, and around a centre for each."""
MEAN_NOISE = Fraction(3, 2)
"""E|X + Y| of two independent Laplace numbers of scale 1."""
MIN_QUANTILE, MAX_QUANTILE = 60, 95


def quantile_for_noise(scale: Fraction, weight: Fraction, clipped_per_noise: int) -> Fraction:
    """Return the quantile of distances at which clipping is about as harmful as noise.

    A radius that is larger by a factor has more noise by that factor, and fewer distances beyond
    it. Their derivatives balance where the share beyond is near the relative noise 1.5 b / W.

    Parameters
    ----------
    scale : Fraction
        b of the map.
    weight : Fraction
        W of a typical cell, in the same unit; noise alone if it is not positive.
    clipped_per_noise : int
        Share of distances beyond the radius, per unit of relative noise.

    Examples
    --------
    >>> quantile_for_noise(Fraction(2), Fraction(60), RESIDUAL_CLIPPED)
    Fraction(9, 10)
    >>> quantile_for_noise(Fraction(2), Fraction(1), RESIDUAL_CLIPPED)
    Fraction(3, 5)
    """
    clipped = 100 * clipped_per_noise * MEAN_NOISE * scale / weight if weight > 0 else 100
    return Fraction(min(max(100 - round(clipped), MIN_QUANTILE), MAX_QUANTILE), 100)


@dataclass(frozen=True)
class RangeDesign:
    """Candidates and quantiles of the private choices.

    Attributes
    ----------
    n_centres, n_radii : int
        Centres lie evenly over the bounds; a radius is 2^-¼ of the one above it, the largest half
        the span.
    radius_quantile : Fraction
        Of distances from the centre of the range.
    """

    n_centres: int = 64
    n_radii: int = 27
    radius_quantile: Fraction = Fraction("0.85")

    def centres(self) -> ListedPoints:
        """Return the candidates for the centre: middles of equal bins, in parts of the span."""
        bins = np.arange(self.n_centres, dtype=np.int64)
        return ListedPoints(PARTS * (2 * bins + 1) // (2 * self.n_centres))

    def radii(self) -> ListedPoints:
        """Return the candidates for a radius, in parts of the span."""
        halvings = np.arange(self.n_radii, dtype=np.float64)[::-1] / 4.0
        radii = np.rint(PARTS / 2 * 2.0**-halvings).astype(np.int64)
        return ListedPoints(np.maximum(radii, 1))


DEFAULT_RANGES = RangeDesign()


@dataclass(frozen=True)
class NoCap:
    """Every unit has its full weight, however few records it has."""


@dataclass(frozen=True)
class DeclaredCap:
    """Units of fewer records than declared weigh less, in proportion.

    Attributes
    ----------
    records : int
        Declared; at least 1.
    """

    records: int


@dataclass(frozen=True)
class PrivateCap:
    """As `DeclaredCap`, at a private quantile of the units' priced records.

    Attributes
    ----------
    quantile, share : Fraction
        Share of ε.
    units : int
        Declared. Each half octave costs a cap `CAP_PENALTY` of their votes: above the largest unit
        all caps would be at the same quantile.
    """

    quantile: Fraction = Fraction("0.8")
    share: Fraction = Fraction("0.05")
    units: int = 0

    @property
    def penalty_votes(self) -> int:
        """Whole votes that each half octave costs."""
        return round(self.units * CAP_PENALTY)

    @staticmethod
    def candidates(typical_price: int) -> ListedPoints:
        """Return caps half an octave apart, from 2^-6 to 2^19.5 records of this price."""
        octaves = np.arange(CAP_CANDIDATES, dtype=np.float64) / 2.0 - CAP_OCTAVES_BELOW
        caps = np.rint(typical_price * 2.0**octaves).astype(np.int64)
        return ListedPoints(np.unique(np.maximum(caps, 1)))


CAPPED_WEIGHT = Fraction(1, 2)
"""Part of the units' weight that a private cap is expected to leave: 0.4 to 0.65 on tuning sets."""
NO_CAP = NoCap()
UserCap: TypeAlias = NoCap | DeclaredCap | PrivateCap
CAP_PENALTY = Fraction("0.02")
CAP_CANDIDATES, CAP_OCTAVES_BELOW = 52, 6


@dataclass(frozen=True)
class OneShot:
    """Range, then one map.

    Attributes
    ----------
    range_share : Fraction
        Share of ε; the map has the others.
    cap : NoCap or DeclaredCap
    """

    range_share: Fraction = Fraction("0.2")
    cap: NoCap | DeclaredCap = NO_CAP

    def __post_init__(self) -> None:
        """Refuse shares that would not add up to one."""
        _check_shares(self.range_share, self.map_share)

    @property
    def map_share(self) -> Fraction:
        """Share of ε of the map that is published."""
        return 1 - self.range_share


@dataclass(frozen=True)
class ThreeStages:
    """Range, coarse map, residual radius, fine map.

    Attributes
    ----------
    range_share, coarse_share, residual_share : Fraction
        Shares of ε; the fine map has what these and the cap leave.
    cap : NoCap, DeclaredCap or PrivateCap
    """

    range_share: Fraction = Fraction("0.1")
    coarse_share: Fraction = Fraction("0.2")
    residual_share: Fraction = Fraction("0.05")
    cap: UserCap = NO_CAP

    def __post_init__(self) -> None:
        """Refuse shares that would not add up to one."""
        _check_shares(self.range_share, self.coarse_share, self.residual_share, self.map_share)

    @property
    def map_share(self) -> Fraction:
        """Share of ε of the map that is published."""
        cap_share = self.cap.share if isinstance(self.cap, PrivateCap) else 0
        return 1 - self.range_share - self.coarse_share - self.residual_share - cap_share


def _check_shares(*shares: Fraction) -> None:
    """Raise InputError unless every share lies strictly between 0 and 1."""
    if not all(0 < share < 1 for share in shares):
        raise InputError("every stage of a map needs a share of epsilon above 0, of 1 in all.")


UNITS_PER_CHOICE = 166
"""Declared units times ε at which a choice among 64 candidates is off by about 5 % of the votes:
2 ln(64) / 0.05."""
MIN_CHOICE_SHARE = Fraction("0.005")


def choice_share(n_choices: int, units: int, epsilon: Fraction, largest: Fraction) -> Fraction:
    """Return the share of ε of private choices: the need of a fleet of this size, and no more.

    Parameters
    ----------
    n_choices : int
        That have the share together.
    units : int
        Declared.
    epsilon : Fraction
        Of the whole map.
    largest : Fraction
        Share of a fleet that is too small for precise choices.

    Examples
    --------
    >>> choice_share(2, 10_000, Fraction(1), Fraction("0.1"))
    Fraction(33, 1000)
    """
    needed = Fraction(round(1000 * n_choices * UNITS_PER_CHOICE / (units * epsilon)), 1000)
    return max(min(needed, largest), MIN_CHOICE_SHARE)


Form: TypeAlias = OneShot | ThreeStages
CENTRE_PART = Fraction("0.4")
"""Part of the range's share that the centre has; the radius has the other."""
