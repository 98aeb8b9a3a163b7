"""Allocation of a plan: contribution caps and noise, per cell and per user. Public."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from hexveil.accounting.contributions import contributed_totals
from hexveil.accounting.error_model import has_single_record
from hexveil.accounting.privacy_loss import VARIANCE_LATTICE
from hexveil.accounting.promise import choices_worth, of_amount
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms import ThresholdMechanism
from hexveil.model.pair_columns import SuppressedPairs

if TYPE_CHECKING:
    from hexveil.accounting.promise import Promise
    from hexveil.base.arrays import Bools, Floats, Ints
    from hexveil.mechanisms.per_cell_allocation import PlannedCells
    from hexveil.mechanisms.single_cell.cell_allocation import ReleasedRange
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.pair_columns import Suppressed, Weights
    from hexveil.planning.clipping_range.cell_ranges import CellRangePlan
    from hexveil.planning.clipping_range.private_range import (
        ClippingRangeMode,
        PrivateClippingRange,
    )
    from hexveil.planning.request import Request

MAX_ERROR = 1e6
"""Predicted errors are below this, in spans."""
BOUND_KINDS = (None, "loss", "max error", "mean error")


@dataclass(frozen=True)
class WithinBounds:
    """Values are clipped to the public bounds alone."""


@dataclass(frozen=True, eq=False)
class PrivateRange:
    """User means are clipped to a range that a release finds privately."""

    range: PrivateClippingRange

    def shared(self, delta: Fraction) -> Promise:
        """Return the loss of every user of the map: whoever is in it may move the range."""
        return choices_worth(self.range.epsilon, delta)


@dataclass(frozen=True, eq=False)
class PerCellRange:
    """User means are clipped to ranges of their cells, which depend on a first look."""

    plan: CellRangePlan

    def shared(self, delta: Fraction) -> Promise:
        """Return the loss of every user of the map: whoever is in it may move the histogram."""
        spread = choices_worth(self.plan.spread_epsilon, delta, 1)
        return of_amount(self.plan.histogram_loss + spread.amount, delta)


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

    def check_against(self, occupancy: Occupancy, request: Request) -> None:
        """Refuse decisions that no plan has: a stranger may have written them.

        Each array and number is checked by itself and against the others. Losses are computed
        from what is left, so that what passes can cost a user much, but never more than is stated.

        Raises
        ------
        InputError
            Naming the field, and the first row of an array.
        """
        self._check_sizes(occupancy)
        pairs = (
            ("mean", self.contribution_cap, self.noise_scale_records),
            ("variance", self.variance_cap, self.variance_noise),
        )
        for name, cap, noise in pairs:
            refuse_rows(cap < 0, f"the {name} keeps fewer than 0 records")
            refuse_rows(~(np.isfinite(noise) & (noise >= 0)), f"the {name}'s noise is no scale")
            if name in request.noised:
                # Sums divided by contributing samples keep the one record of a cell for both.
                is_printed = self.normaliser == "contributions" and name == "variance"
                known = has_single_record(occupancy) & is_printed
                silent = (noise == 0) & (cap > 0) & ~known
                refuse_rows(silent, f"the {name} keeps records without noise")
        factor = self.contribution_factor
        refuse_rows(~((factor >= 0) & (factor <= 1)), "a user's factor is not from 0 to 1")
        if self.cell_epsilon is not None and self.cell_epsilon <= 0:
            raise InputError("allocation.cell_epsilon must be above 0.")
        if self.bound_kind not in BOUND_KINDS:
            raise InputError(f"allocation.bound_kind {self.bound_kind!r} is the kind of no bound.")
        if self.normaliser == "contributions":
            self._check_contributions(occupancy)
        self._check_kind(occupancy, request)

    def _check_sizes(self, occupancy: Occupancy) -> None:
        """Refuse arrays without an entry for each cell, user or pair."""
        cells, users = occupancy.n_cells, occupancy.n_users
        per_cell = [self.contribution_cap, self.noise_scale_records, self.variance_cap]
        sizes = [(array.size, cells) for array in (*per_cell, self.variance_noise)]
        sizes += [(self.contribution_factor.size, users)]
        match self.suppressed_pairs:
            case SuppressedPairs(n_cells=n_cells, n_users=n_users):
                sizes += [(n_cells, cells), (n_users, users)]
            case np.ndarray() as dropped:
                sizes += [(dropped.size, occupancy.n_pairs)]
        match self.clipping:
            case PrivateRange(range=ranged) | PerCellRange(plan=ranged):
                sizes += [(int(ranged.weight.fits(occupancy)), 1)]
            case CellMechanisms(predicted_error=predicted):
                sizes += [(predicted.size, cells)]
        if any(size != needed for size, needed in sizes):
            raise InputError("it was made for other cells or users: an array has another length.")

    def _check_contributions(self, occupancy: Occupancy) -> None:
        """Refuse sums divided by contributing samples where these are none, or not whole."""
        cap = self.contribution_cap
        filled = occupancy.map_cells(contributed_totals, (cap,), (), self.suppressed) > 0
        is_plain = isinstance(self.clipping, WithinBounds)
        same = np.array_equal(cap, self.variance_cap)
        if not (filled.all() and is_plain and same and (self.contribution_factor == 1).all()):
            raise InputError("it has a cell to which nothing contributes, or parts of records do.")

    def _check_kind(self, occupancy: Occupancy, request: Request) -> None:
        """Refuse a plan of another kind than was requested, or for other statistics."""
        noised, known = request.noised, has_single_record(occupancy)
        stages = request.method in ("per-cell", "equal-split") and not isinstance(
            request.mechanism, ThresholdMechanism
        )
        # The variance of one record is known, so that such a map needs no range.
        has_constants_alone = noised == ("variance",) and bool(known.all())
        kinds: dict[str, tuple[type[Clipping], ...]] = {
            "bounds": (CellMechanisms if stages else WithinBounds,),
            "private": (WithinBounds,) if has_constants_alone else (PrivateRange,),
            "per-cell": (PerCellRange,),
            "auto": (WithinBounds, PrivateRange, PerCellRange),
        }
        fits = isinstance(self.clipping, kinds[request.clipping_range])
        has_noise = True
        match self.clipping:
            case CellMechanisms(predicted_error=predicted):
                refuse_rows(
                    ~((predicted >= 0) & (predicted < MAX_ERROR)),
                    "a predicted error is none that a plan has",
                )
                has_noise = noised == ("mean",)
            case PrivateRange(range=ranged):
                self._check_noised(ranged.weight)
                fits &= (ranged.radius is not None) == ("variance" in noised)
                alike = (self.variance_noise > 0) == known
                has_noise = "variance" not in noised or not alike.any()
            case PerCellRange(plan=ranges):
                self._check_noised(ranges.weight)
                fits &= noised == ("mean",)
        if not fits:
            raise InputError("its interval and its request do not fit together.")
        if not has_noise:
            raise InputError("it has a cell without noise for its variance.")

    def _check_noised(self, weight: Weights) -> None:
        """Refuse cells without weights or noise, and weights that leave 64 bits with sums."""
        if not weight.is_sound():
            raise InputError("it has weights that no plan has, or a cell without weights.")
        if not (self.noise_scale_records > 0).all():
            raise InputError("it has a cell without noise.")

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


def refuse_rows(wrong: Bools, fault: str) -> None:
    """Raise InputError with a fault and the first row that has it, if any has."""
    if wrong.any():
        raise InputError(f"{fault} in row {int(np.argmax(wrong))}.")


def full_factors(occupancy: Occupancy) -> Floats:
    """Return factors that reduce nobody."""
    return np.ones(occupancy.n_users)


def _up(values: Floats) -> Floats:
    # A product rounds to nearest, a scale must not be below it; 0 stays a constant.
    return np.where(values > 0, np.nextafter(values, np.inf), 0.0)
