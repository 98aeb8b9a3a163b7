"""Allocation of a plan: contribution caps and noise, per cell and per user. Public."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from hexveil.accounting.privacy_loss import VARIANCE_LATTICE
from hexveil.base.read_only import ReadOnlyArrays

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.per_cell_allocation import PlannedCells
    from hexveil.mechanisms.single_cell.cell_allocation import ReleasedRange
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.suppressed_pairs import Suppressed
    from hexveil.planning.clipping_range.cell_range_plan import CellRangePlan
    from hexveil.planning.clipping_range.private_range import (
        ClippingRangeMode,
        PrivateClippingRange,
    )


@dataclass(frozen=True)
class WithinBounds:
    """Values are clipped to the public bounds alone."""


@dataclass(frozen=True, eq=False)
class PrivateRange:
    """User means are clipped to a range that a release finds privately."""

    range: PrivateClippingRange

    @property
    def shared_epsilon(self) -> Fraction:
        """Loss of every user of the map: whoever is in it may move the range."""
        return self.range.epsilon


@dataclass(frozen=True, eq=False)
class PerCellRange:
    """User means are clipped to ranges of their cells, which depend on a first look."""

    plan: CellRangePlan

    @property
    def shared_epsilon(self) -> Fraction:
        """Loss of every user of the map: whoever is in it may move the histogram."""
        return self.plan.epsilon


@dataclass(frozen=True, eq=False)
class CellMechanisms(ReadOnlyArrays):
    """Every cell's mean is published by a mechanism of one cell, in stages of its own.

    Attributes
    ----------
    cells : PerCellAllocation or DistributedCells
        Stages of all cells, built from counts, bounds and the loss of a cell; never stored.
    predicted_error : ndarray of float, shape (n_cells,)
        Mean absolute error by a public prior, for bounds of width 1.
    released : tuple of ReleasedRange or None
        Outcomes of each cell's private choices, in value units; empty before a release.
    """

    cells: PlannedCells
    predicted_error: Floats
    released: tuple[ReleasedRange | None, ...] = ()


Normaliser = Literal["records", "contributions"]

Clipping: TypeAlias = WithinBounds | PrivateRange | PerCellRange | CellMechanisms
"""Kinds of plans, by what values are clipped to."""


def range_kind(clipping: Clipping) -> ClippingRangeMode:
    """Return the clipping range by the word that a request has for it."""
    match clipping:
        case WithinBounds() | CellMechanisms():
            return "bounds"
        case PrivateRange():
            return "private"
        case PerCellRange():
            return "per-cell"


@dataclass(frozen=True, eq=False)
class PlanAllocation(ReadOnlyArrays):
    """Contribution cap of each user in each cell, and the noise of each cell.

    Attributes
    ----------
    mechanism : str
        How one cell was planned.
    contribution_cap : ndarray of int64, shape (n_cells,)
        t: samples kept of a user for the mean; 0 publishes the middle of the bounds.
    noise_scale_records : ndarray of float, shape (n_cells,)
        r: the mean's Laplace scale is U r / N; 0 where nothing is kept.
    variance_cap : ndarray of int64, shape (n_cells,)
        The same for the variance; 0 publishes 1/8 of the squared span.
    variance_noise : ndarray of float, shape (n_cells,)
        The variance's Laplace scale as a part of U²; 0 where nothing is kept.
    contribution_factor : ndarray of float, shape (n_users,)
        What is kept of a user's samples in every cell, from 0 to 1: a multiple of 2^-30.
    suppressed_pairs : ndarray of bool, shape (n_pairs,), SuppressedPairs or None
        Pairs of which nothing is kept: a list of them where pairs are distributed.
    cell_epsilon : Fraction or None
        The loss of one cell, where every cell has the same.
    normaliser : "records" or "contributions"
        What a cell's sums are divided by: all its records, of which some are put at the middle, or
        those that contribute, of users who are left out otherwise (COMP's estimator).
    lower_bound : float or None
        What no plan of the class can go below, rounded down.
    bound_kind : str or None
        What `lower_bound` is about: "loss", "max error" or "mean error".
    clipping : WithinBounds, PrivateRange, PerCellRange or CellMechanisms
        Kind of the plan. Under a private range the mean's Laplace scale is the range's width times
        r / N; the noise of a cell with a range of its own is what it has if all of the loss goes to
        one number.
    """

    mechanism: str
    contribution_cap: Ints
    noise_scale_records: Floats
    variance_cap: Ints
    variance_noise: Floats
    contribution_factor: Floats
    suppressed_pairs: Suppressed | None = None
    cell_epsilon: Fraction | None = None
    normaliser: Normaliser = "records"
    lower_bound: float | None = None
    bound_kind: str | None = None
    clipping: Clipping = WithinBounds()

    @property
    def suppressed(self) -> tuple[Suppressed, ...]:
        """Suppressed pairs as the further column of each pair; no column where none are."""
        return () if self.suppressed_pairs is None else (self.suppressed_pairs,)

    def with_noise_scaled(self, times: float) -> PlanAllocation:
        """Return the same rows with all noise times a factor, rounded up."""
        cell_epsilon = self.cell_epsilon
        if cell_epsilon is not None:
            # What is charged for the lattice of a variance does not fall when its noise grows.
            fixed = VARIANCE_LATTICE if times > 1.0 and (self.variance_noise > 0).any() else 0.0
            cell_epsilon = cell_epsilon / Fraction(times) + Fraction(fixed)
        return replace(
            self,
            cell_epsilon=cell_epsilon,
            noise_scale_records=_up(self.noise_scale_records * times),
            variance_noise=_up(self.variance_noise * times),
        )


def full_factors(occupancy: Occupancy) -> Floats:
    """Return factors that reduce nobody."""
    return np.ones(occupancy.n_users)


def _up(values: Floats) -> Floats:
    # A product rounds to nearest, a scale must not be below it; 0 stays a constant.
    return np.where(values > 0, np.nextafter(values, np.inf), 0.0)
