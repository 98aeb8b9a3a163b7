"""Allocation of a plan: its rows, and the clipping of values. Public."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hexveil.accounting.error_model import ErrorModel, has_single_record
from hexveil.accounting.privacy_loss import VARIANCE_LATTICE
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.mechanisms import ThresholdMechanism
from hexveil.mechanisms.looks.bounds import WithinBounds
from hexveil.mechanisms.looks.kinds import ClippingKind, misfit
from hexveil.model.occupancy import Occupancy
from hexveil.planning.plan_rows import PlanningProblem, PlanRows, full_factors, refuse_rows
from hexveil.planning.request import Request

WITHIN_BOUNDS = WithinBounds()
BOUND_KINDS = (None, "loss", "max error", "mean error")


@dataclass(frozen=True, eq=False)
class PlanAllocation(PlanRows):
    """Contribution cap of each user in each cell, the noise of each cell, and the kind of plan.

    Attributes
    ----------
    clipping : ClippingKind
        Kind of the plan (mechanisms/looks/kinds.py). Under a private range the mean's
        Laplace scale is the range's width times r / N; the noise of a cell with a range of its own
        is what it has if all of the loss goes to one number.
    """

    clipping: ClippingKind = WITHIN_BOUNDS

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
                refuse_rows((noise == 0) & (cap > 0), f"the {name} keeps records without noise")
        factor = self.contribution_factor
        refuse_rows(~((factor >= 0) & (factor <= 1)), "a user's factor is not from 0 to 1")
        if self.cell_epsilon is not None and self.cell_epsilon <= 0:
            raise InputError("allocation.cell_epsilon must be above 0.")
        if self.bound_kind not in BOUND_KINDS:
            raise InputError(f"allocation.bound_kind {self.bound_kind!r} is the kind of no bound.")
        self._check_kind(occupancy, request)

    def _check_sizes(self, occupancy: Occupancy) -> None:
        """Refuse arrays without an entry for each cell, user or pair."""
        cells, users = occupancy.n_cells, occupancy.n_users
        per_cell = [self.contribution_cap, self.noise_scale_records, self.variance_cap]
        sizes = [(array.size, cells) for array in (*per_cell, self.variance_noise)]
        sizes += [(self.contribution_factor.size, users)]
        if (gone := self.suppressed_pairs) is not None:
            sizes += [(gone.n_cells, cells), (gone.n_users, users)]
        sizes += [(int(self.clipping.fits(occupancy)), 1)]
        if any(size != needed for size, needed in sizes):
            raise InputError("it was made for other cells or users: an array has another length.")

    def _check_kind(self, occupancy: Occupancy, request: Request) -> None:
        """Refuse a plan of another kind than was requested, or for other statistics."""
        asked, kind = request.clipping_range, self.clipping
        # The variance of one record is known, so that such a map needs no range.
        if asked == "private" and request.noised == ("variance",):
            asked = "bounds" if bool(has_single_record(occupancy).all()) else asked
        is_apart = request.method in {"per-cell", "equal-split"}
        stages = is_apart and not isinstance(request.mechanism, ThresholdMechanism)
        if asked not in {kind.mode, "auto"} or kind.has_stages != stages:
            raise misfit()
        kind.check_plan(self, occupancy, request)

    def booked(self, problem: PlanningProblem) -> Floats:
        """Return the booking of each user, rounded up: ε, or a square of μ under a δ."""
        return self.clipping.losses(problem, self).per_user()

    def most_booked(self, problem: PlanningProblem) -> Fraction:
        """Return the booking of the most exposed user, rounded up."""
        return Fraction(float(self.booked(problem).max(initial=0.0)))

    def error_models(self, problem: PlanningProblem) -> dict[str, ErrorModel]:
        """Return the error model of each noised statistic, by its name."""
        return self.clipping.error_models(problem, self)

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


def weighted_rows(
    occupancy: Occupancy, clipping: ClippingKind, mean: Floats, variance: Floats | None = None
) -> PlanAllocation:
    """Return rows with noise of means for a range of width 1, and of squares for a radius of 1."""
    largest = occupancy.largest_count
    squares = np.zeros(occupancy.n_cells) if variance is None else variance
    return PlanAllocation(
        mechanism="weights",
        contribution_cap=largest,
        noise_scale_records=mean * occupancy.records_per_cell,
        variance_cap=np.where(squares > 0, largest, 0),
        variance_noise=squares,
        contribution_factor=full_factors(occupancy),
        clipping=clipping,
    )


def _up(values: Floats) -> Floats:
    # A product rounds to nearest, a scale must not be below it; 0 stays a constant.
    return np.where(values > 0, np.nextafter(values, np.inf), 0.0)
