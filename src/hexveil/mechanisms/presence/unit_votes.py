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

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.pooled_law import PooledLaw
from hexveil.mechanisms.presence.any_unit import any_unit_stage
from hexveil.mechanisms.presence.contribution import (
    MAX_PRICE,
    Norm,
    positions,
    priced_records,
    unit_weights,
)
from hexveil.mechanisms.private_quantile import ListedPoints

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Ints
    from hexveil.mechanisms.contract import NoisyTotals
    from hexveil.model.private_pairs import PrivatePairs


def value_votes(
    name: str, span_quanta: int, edges: Ints, law: NoiseLaw, around: tuple[Ints, Ints] | None = None
) -> NoisyTotals:
    """Return the stage of votes for where units' means lie, in parts of the span.

    Votes are even; or, `around` centres of cells, at prices by which a unit votes as it weighs.
    """
    points = ListedPoints(edges)
    votes = partial(_votes, span_quanta=span_quanta, points=points, around=around)
    return any_unit_stage(name, points.size + 1, law, votes)


def _votes(
    pairs: PrivatePairs, *, span_quanta: int, points: ListedPoints, around: tuple[Ints, Ints] | None
) -> Ints:
    """Return the votes of some units by place. PRIVATE."""
    values, votes = positions(pairs, span_quanta), _even_votes(pairs)
    if around is not None:
        centres, prices = around
        values, votes = values - centres[pairs.cell], unit_weights(pairs, prices, cap=0)
    # Exact: every partial sum is a whole number below 2^53.
    return np.bincount(points.places(values), votes, points.size + 1).astype(np.int64)


def _even_votes(pairs: PrivatePairs) -> Ints:
    """Return each unit's votes, spread evenly over its pairs. PRIVATE."""
    return np.asarray(PARTS // pairs.of_unit(pairs.per_unit(np.ones_like(pairs.cell))))


USER_CAP = "user cap"
LEAST_OCTAVE, OCTAVES = -6, 26
"""Caps lie from 2^-6 to 2^20 records of a typical price."""


def _votes_of_totals(
    pairs: PrivatePairs, *, prices: Ints, norm: Norm, points: ListedPoints
) -> Ints:
    """Return the votes of some units by place, those without priced records have none. PRIVATE."""
    totals = norm.sizes(pairs, priced_records(pairs, prices))
    return PARTS * np.bincount(points.places(totals[totals > 0]), minlength=points.size + 1)


def cap_stage(prices: Ints, norm: Norm, noise: NoiseLaw, quantile: Fraction) -> NoisyTotals:
    """Return the stage that decides the cap, in priced records; at least 1.

    The norm is that of the map that is capped.
    """
    octaves = LEAST_OCTAVE + np.arange(OCTAVES + 1, dtype=np.float64)
    caps = np.maximum(np.rint(middle_price(prices) * 2.0**octaves), 1.0).astype(np.int64)

    def decide(votes: Ints) -> Ints:
        # In octaves: half of what lies within one is below the root of two of its lower end.
        octave = PooledLaw.of(np.arange(OCTAVES + 1.0), votes, noise).quantile(float(quantile))
        cap = middle_price(prices) * 2.0 ** (LEAST_OCTAVE + octave)
        return np.array([max(round(cap), 1)], dtype=np.int64)

    votes = partial(_votes_of_totals, prices=prices, norm=norm, points=ListedPoints(caps[1:-1]))
    stage = any_unit_stage(USER_CAP, OCTAVES, noise, votes)
    return replace(stage, decide=decide, n_decided=1)


def middle_price(prices: Ints) -> int:
    """Return the middle price of the open cells, `MAX_PRICE` if there are none."""
    positive = np.sort(prices[prices > 0])
    return int(positive[positive.size // 2]) if positive.size else MAX_PRICE
