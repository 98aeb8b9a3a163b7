"""Votes of units for where their values lie, under private presence.

A unit votes with its positions relative to public centres: evenly over its pairs, or by its weights
at public prices.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: the votes of a unit add up to at most P = `PARTS`: floor(P / K) for each of K pairs, or
weights limited by their sum (`contribution`). They follow from its own records alone.
Loss: that of the histogram (`pooled_histogram`).
Source: `contribution`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.presence.any_unit import total_over_units
from hexveil.mechanisms.presence.contribution import positions, unit_weights

if TYPE_CHECKING:
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
