"""Request for medians, shares and histograms per cell with private presence, from declarations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hexveil.accounting.promise import check_units, promised
from hexveil.base.errors import InputError
from hexveil.base.rational import to_positive_fraction
from hexveil.mechanisms.distribution.shape_statistics import MEAN, ShapeStatistics
from hexveil.mechanisms.presence.presence_design import PrivateCap, histogram_share
from hexveil.mechanisms.presence.shape_allocation import ShapeAllocation, ShapeForm
from hexveil.model.statistic_terms import Share
from hexveil.planning.presence.presence_request import (
    PURE,
    SMALL_FLEET,
    FleetDeclaration,
    cap_in_use,
    check_cap,
    even_weight,
    false_openings,
)

if TYPE_CHECKING:
    from hexveil.mechanisms.presence.presence_design import UserCap
    from hexveil.model.declared_grid import DeclaredGrid
    from hexveil.model.public_metadata import FineBins, ValueLattice
    from hexveil.model.statistic_terms import Term

REFINED_FROM = 250
"""Declared units times the shape's ε from which the bins of the pooled shape are placed twice."""
FEW_UNITS = 25
"""The same, below which the shape has eight bins."""
SHAPE_NEED, COARSE_NEED = 320, 7
"""Declared units, and units per cell, times ε at which these stages need no more than all of ε."""
LEAST_SHARE, LEAST_SQUARES = Fraction("0.02"), Fraction("0.005")
"""Smallest share of ε, and of squares."""
FINER_FROM = 250
"""Declared units per cell times ε from which cells have eight bins in place of four."""


@dataclass(frozen=True, eq=False)
class ShapeRequest:
    """Request for statistics of the distribution of each cell.

    Attributes
    ----------
    grid : DeclaredGrid
    lattice : ValueLattice
        Bounds and quantum of the values.
    bins : FineBins
        In which records are counted.
    fleet : FleetDeclaration
    epsilon : Fraction
        Loss of any unit, present or not.
    terms : tuple of Term
    has_mean : bool
        Whether averages are published too, of the same distributions, at no further cost.
    cap : NoCap, DeclaredCap or PrivateCap, optional
        As in `PresenceRequest`.
    delta : Fraction, optional
        0, the default, for a pure promise; else below 1 / units.
    """

    grid: DeclaredGrid
    lattice: ValueLattice
    bins: FineBins
    fleet: FleetDeclaration
    epsilon: Fraction
    terms: tuple[Term, ...]
    has_mean: bool = False
    cap: UserCap | None = None
    delta: Fraction = PURE

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", to_positive_fraction(self.epsilon, "epsilon"))
        check_units(self.delta, self.fleet.units)
        check_cap(self.cap, self.fleet)
        lacking = [term.text for term in self.terms if not self._has_edges(term)]
        if lacking:
            raise InputError(
                f"statistics: {lacking[0]!r} needs records counted by bin; name the same "
                "statistics where the records are read and declared (statistics=)."
            )

    def _has_edges(self, term: Term) -> bool:
        """Return whether the fine bins are divided where a statistic needs it."""
        edges = set(self.bins.edges.tolist())
        match term:
            case Share():
                return term.edge(self.lattice) in edges
            case _:
                needed = getattr(term, "edges", None)
                return needed is None or set(needed(self.lattice).tolist()) <= edges

    @property
    def statistics(self) -> ShapeStatistics:
        """Statistics of each cell's distribution."""
        return ShapeStatistics(self.bins, self.lattice, self.terms, self.has_mean)

    @property
    def names(self) -> tuple[str, ...]:
        """Texts of the statistics, the mean first."""
        texts = tuple(term.text for term in self.terms)
        return (MEAN, *texts) if self.has_mean else texts

    @property
    def weight_per_cell(self) -> Fraction:
        """Mean weight of a cell if all declared units are in the records, in units."""
        return Fraction(self.fleet.units, self.grid.n_cells)

    @property
    def user_cap(self) -> UserCap:
        """The cap asked for; else a private one where bias outweighs noise, none elsewhere."""
        share = histogram_share(1, self.fleet.units, self.epsilon, PrivateCap.share)
        whole = promised(self.epsilon, self.delta)
        share = min(whole.share_worth(self.epsilon * share, 1), PrivateCap.share)
        return cap_in_use(self.cap, self.fleet, self.grid.n_cells, self.epsilon, share)

    def form(self) -> ShapeForm:
        """Return the stages: fewer and coarser ones for a small declared fleet."""
        units, epsilon = self.fleet.units, self.equivalent_epsilon
        weight = self.weight_per_cell * self.even_weight
        shape_share = self._needed(SHAPE_NEED, units * epsilon, ShapeForm.shape_share)
        told = units * epsilon * self._noise_share(shape_share)
        is_refined = told > REFINED_FROM
        coarse_share = Fraction(0)
        if units >= SMALL_FLEET or isinstance(self.user_cap, PrivateCap):
            coarse_share = self._needed(COARSE_NEED, weight * epsilon, ShapeForm.coarse_share)
        return ShapeForm(
            shape_share,
            coarse_share,
            n_wide=ShapeForm.n_wide if is_refined else 8 if told < FEW_UNITS else 12,
            n_narrow=ShapeForm.n_narrow if is_refined else 0,
            n_quantiles=8 if weight * epsilon > FINER_FROM else 4,
            cap=self.user_cap,
        )

    def allocation(self) -> ShapeAllocation:
        """Return the plan: stages with shares of ε, from declared numbers."""
        thresholds = {t.edge(self.lattice) for t in self.terms if isinstance(t, Share)}
        return ShapeAllocation(
            self.grid.n_cells,
            tuple(self.bins.edges.tolist()),
            tuple(sorted(thresholds)),
            self.epsilon,
            self.form(),
            false_openings(self.grid),
            self.delta,
        )

    @property
    def equivalent_epsilon(self) -> Fraction:
        """The ε at which Laplace noise of all of it deviates as this promise's noise does.

        ε itself for a pure promise; less of one with δ, whose units weigh more (`even_weight`).
        """
        exact = promised(self.epsilon, self.delta).laplace_epsilon()
        return Fraction(max(round(1000 * exact), 1), 1000) if self.delta else exact

    @property
    def even_weight(self) -> Fraction:
        """Weight over all cells of a unit that is in all its declared cells alike."""
        return Fraction(even_weight(self.fleet, self.grid.n_cells, self.delta))

    def _noise_share(self, share: Fraction) -> Fraction:
        """Return the share of ε with the noise of this share: of squares, its root."""
        return Fraction(math.sqrt(share)) if self.delta else share

    def _needed(self, need: int, told: Fraction, largest: Fraction) -> Fraction:
        """Return the share of the loss that a stage needs, at most the largest.

        Gaussian noise falls with the root of a share of squares: it needs the square of the share.
        """
        power, least = (2, LEAST_SQUARES) if self.delta else (1, LEAST_SHARE)
        share = Fraction(round(1000 * (need / told) ** power), 1000)
        return max(min(share, largest), least)
