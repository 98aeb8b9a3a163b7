"""Public design of a map with private presence: stages, shares of ε, caps.

The defaults were chosen on flights of New York and buses of Surat and Warsaw; see
`benchmarks/interval_sets.py` for the division into tuning and judging sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from hexveil.base.errors import InputError


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
    """

    quantile: Fraction = Fraction("0.75")
    share: Fraction = Fraction("0.05")


CAPPED_WEIGHT = Fraction(1, 2)
"""Part of the units' weight that a private cap is expected to leave: 0.4 to 0.65 on tuning sets."""
NO_CAP = NoCap()
UserCap: TypeAlias = NoCap | DeclaredCap | PrivateCap


@dataclass(frozen=True)
class OneShot:
    """Values, then one map.

    Attributes
    ----------
    range_share : Fraction
        Share of ε; the map has the others.
    cap : NoCap or DeclaredCap
    """

    range_share: Fraction = Fraction("0.25")
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
    """Values, coarse map, residuals, fine map.

    Attributes
    ----------
    range_share, coarse_share, residual_share : Fraction
        Shares of ε; the fine map has what these and the cap leave.
    cap : NoCap, DeclaredCap or PrivateCap
    """

    range_share: Fraction = Fraction("0.05")
    coarse_share: Fraction = Fraction("0.2")
    residual_share: Fraction = Fraction("0.1")
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


UNITS_PER_HISTOGRAM = 166
"""Declared units times ε at which noise of scale 1 / ε of a bin is 0.6 % of the votes."""
MIN_HISTOGRAM_SHARE = Fraction("0.005")


def histogram_share(
    n_histograms: int, units: int, epsilon: Fraction, largest: Fraction
) -> Fraction:
    """Return the share of ε of histograms: the need of a fleet of this size, and no more.

    Parameters
    ----------
    n_histograms : int
        That have the share together.
    units : int
        Declared.
    epsilon : Fraction
        Of the whole map.
    largest : Fraction
        Share of a fleet that is too small for precise ones.

    Examples
    --------
    >>> histogram_share(2, 10_000, Fraction(1), Fraction("0.1"))
    Fraction(33, 1000)
    """
    needed = Fraction(round(1000 * n_histograms * UNITS_PER_HISTOGRAM / (units * epsilon)), 1000)
    return max(min(needed, largest), MIN_HISTOGRAM_SHARE)


Form: TypeAlias = OneShot | ThreeStages
WIDE_PART = Fraction("0.25")
"""Part of the values' share that finds out where most of them lie."""
