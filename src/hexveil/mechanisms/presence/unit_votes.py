"""Votes of units under private presence: for where their values lie, and for a cap on records.

A unit votes with its positions relative to public centres: evenly over its pairs, or by its weights
at public prices. For the private cap on units it votes once, with its priced records by octaves;
the quantile is that of the law of the noisy bins (`pooled_law`), evenly within an octave.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: the votes of a unit add up to at most P = `PARTS`: floor(P / K) for each of K pairs, or
weights limited by their sum (`contribution`); or P in one bin, if it has priced records in open
cells. They follow from its own records alone.
Loss: that of the histogram (`pooled_histogram`).
Source: `contribution`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.pooled_histogram import PooledHistogram
from hexveil.mechanisms.pooled_law import PooledLaw
from hexveil.mechanisms.presence.any_unit import AnyUnit, total_over_units
from hexveil.mechanisms.presence.contribution import (
    L1,
    MAX_PRICE,
    Norm,
    positions,
    priced_records,
    unit_weights,
)

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Ints
    from hexveil.mechanisms.contract import PrivateSums
    from hexveil.mechanisms.private_quantile import ListedPoints
    from hexveil.model.private_pairs import PrivatePairs


@dataclass(frozen=True, eq=False)
class UnitVotes:
    """Positions of units' means in parts of the span, with even votes, or relative to centres.

    Attributes
    ----------
    span_quanta : int
    around : pair of ndarray of int64, shape (n_cells,), optional
        Centres of cells, and prices at which a unit votes as it weighs.
    """

    span_quanta: int
    around: tuple[Ints, Ints] | None = None

    def tally(self, sums: PrivateSums, candidates: ListedPoints) -> Ints:
        """Return the votes of each place, shape (1, n_points + 1). PRIVATE."""
        # Public arrays alone: an executor is sent this, and no stage with all that is in it.
        return total_over_units(sums, partial(_votes, of=self, candidates=candidates))[None]


def _votes(pairs: PrivatePairs, *, of: UnitVotes, candidates: ListedPoints) -> Ints:
    """Return the votes of some units by place. PRIVATE."""
    values, votes = positions(pairs, of.span_quanta), _even_votes(pairs)
    if of.around is not None:
        centres, prices = of.around
        values, votes = values - centres[pairs.cell], unit_weights(pairs, prices, cap=0)
    places = candidates.places(values)
    # Exact: every partial sum is a whole number below 2^53.
    return np.bincount(places, votes, candidates.size + 1).astype(np.int64)


def _even_votes(pairs: PrivatePairs) -> Ints:
    """Return each unit's votes, spread evenly over its pairs. PRIVATE."""
    return np.asarray(PARTS // pairs.of_unit(pairs.per_unit(np.ones_like(pairs.cell))))


USER_CAP = "user cap"
LEAST_OCTAVE, OCTAVES = -6, 26
"""Caps lie from 2^-6 to 2^20 records of a typical price."""


@dataclass(frozen=True, eq=False)
class UnitTotals(ReadOnlyArrays):
    """Priced records of each unit, `PARTS` votes each; units without any do not vote.

    Attributes
    ----------
    prices : ndarray of int64, shape (n_cells,)
    norm : Norm
        Size of a unit's priced records, as in the map that is capped.
    """

    prices: Ints
    norm: Norm = L1

    def tally(self, sums: PrivateSums, candidates: ListedPoints) -> Ints:
        """Return the votes of each place, shape (1, n_points + 1). PRIVATE."""
        work = partial(_votes_of_totals, prices=self.prices, norm=self.norm, candidates=candidates)
        return total_over_units(sums, work)[None]


def _votes_of_totals(
    pairs: PrivatePairs, *, prices: Ints, norm: Norm, candidates: ListedPoints
) -> Ints:
    """Return the votes of some units by place. PRIVATE."""
    totals = norm.sizes(pairs, priced_records(pairs, prices))
    places = candidates.places(totals[totals > 0])
    return PARTS * np.bincount(places, minlength=candidates.size + 1)


def cap_stage(prices: Ints, norm: Norm, noise: NoiseLaw, quantile: Fraction) -> PooledHistogram:
    """Return the stage whose decision is the cap, in priced records; at least 1."""
    octaves = LEAST_OCTAVE + np.arange(OCTAVES + 1, dtype=np.float64)
    caps = np.maximum(np.rint(middle_price(prices) * 2.0**octaves), 1.0).astype(np.int64)

    def decide(votes: Ints) -> Ints:
        # In octaves: half of what lies within one is below the root of two of its lower end.
        octave = PooledLaw.of(np.arange(OCTAVES + 1.0), votes, noise).quantile(float(quantile))
        cap = middle_price(prices) * 2.0 ** (LEAST_OCTAVE + octave)
        return np.array([max(round(cap), 1)], dtype=np.int64)

    report = AnyUnit.of(noise)
    return PooledHistogram(USER_CAP, UnitTotals(prices, norm), caps[1:-1], noise, report, decide, 1)


def middle_price(prices: Ints) -> int:
    """Return the middle price of the open cells, `MAX_PRICE` if there are none."""
    positive = np.sort(prices[prices > 0])
    return int(positive[positive.size // 2]) if positive.size else MAX_PRICE
