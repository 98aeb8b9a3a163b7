"""Allocation of a plan: contribution caps and noise, per cell and per user. Public."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hexveil.accounting.contributions import (
    clipped_by_caps,
    contributed_records,
    contributed_totals,
)
from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, has_single_record, span_in_quanta
from hexveil.accounting.privacy_loss import VARIANCE_LATTICE
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms import ThresholdMechanism
from hexveil.model.pair_columns import SuppressedPairs, suppressed_column
from hexveil.planning.clipping_range.bounds import WithinBounds
from hexveil.planning.clipping_range.clipping import misfit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hexveil.accounting.error_model import ErrorModel
    from hexveil.base.arrays import Bools, Floats, Ints
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.pair_columns import Suppressed
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.clipping_range.clipping import Clipping
    from hexveil.planning.request import Request

MAX_ERROR = 1e6
"""Predicted errors are below this, in spans."""
WITHIN_BOUNDS = WithinBounds()
BOUND_KINDS = (None, "loss", "max error", "mean error")


Normaliser = Literal["records", "contributions"]


@dataclass(frozen=True, eq=False)
class PlanningProblem:
    """Public input of every method: counts, bounds and request.

    Attributes
    ----------
    occupancy : Occupancy
    span : ndarray of float, shape (n_cells,)
        Width of each cell's bounds.
    request : Request
    facts : PublicMetadata or None
        Where there are records: contributions are whole quanta of their lattice.
    """

    occupancy: Occupancy
    span: Floats
    request: Request
    facts: PublicMetadata | None = None

    def within(self, epsilon: Fraction) -> PlanningProblem:
        """Return the problem with a privacy loss in place of its epsilon or targets."""
        return replace(self, request=self.request.within(epsilon))

    def without_metadata(self) -> PlanningProblem:
        """Return the problem of the bare counts: contributions may be fractions of quanta."""
        return replace(self, facts=None)

    def objective_errors(self, models: Mapping[str, ErrorModel]) -> Floats:
        """Return the error of each cell that the objective is about.

        The planning error of the one statistic; the sum of both where requested; else the largest
        (for objective "mean" the average) of both as shares of the error of a constant.
        """
        request = self.request
        if len(models) == 1 or request.error == "sum":
            return np.asarray(np.sum([m.error for m in models.values()], axis=0), dtype=np.float64)
        unit = {"mean": self.span, "variance": self.span**2}
        shares = np.stack([m.error / (unit[n] * MAX_CONSTANT_ERROR[n]) for n, m in models.items()])
        over = shares.max if request.objective == "max" else shares.mean
        return np.asarray(over(axis=0), dtype=np.float64)


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
    clipping : Clipping
        Kind of the plan (planning/clipping_range/clipping.py). Under a private range the mean's
        Laplace scale is the range's width times r / N; the noise of a cell with a range of its own
        is what it has if all of the loss goes to one number.
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
    clipping: Clipping = WITHIN_BOUNDS

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
        sizes += [(int(self.clipping.fits(occupancy)), 1)]
        if any(size != needed for size, needed in sizes):
            raise InputError("it was made for other cells or users: an array has another length.")

    def _check_contributions(self, occupancy: Occupancy) -> None:
        """Refuse sums divided by contributing samples where these are none, or not whole."""
        cap = self.contribution_cap
        filled = occupancy.map_cells(contributed_totals, (cap,), (), self.suppressed) > 0
        is_plain = self.clipping == WITHIN_BOUNDS
        same = np.array_equal(cap, self.variance_cap)
        if not (filled.all() and is_plain and same and (self.contribution_factor == 1).all()):
            raise InputError("it has a cell to which nothing contributes, or parts of records do.")

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

    def divisors(self, problem: PlanningProblem) -> Ints:
        """Return the samples by which each cell's sums are divided."""
        if self.normaliser == "records":
            return np.asarray(problem.occupancy.records_per_cell)
        return np.asarray(self.map_contributions(problem, contributed_totals))

    def mean_noise(self, problem: PlanningProblem) -> Floats:
        """Return the Laplace scale of each cell's mean, for bounds or a range of width 1."""
        return np.asarray(self.noise_scale_records / self.divisors(problem))

    def map_contributions(
        self, problem: PlanningProblem, work: Callable[..., Any], cells: tuple[Ints, ...] = ()
    ) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function of whole contributions to the pairs of each cell."""
        cells = *cells, self.contribution_cap
        return problem.occupancy.map_cells(work, cells, (), self.suppressed)

    def caps_and_quanta(self, problem: PlanningProblem, statistic: str) -> tuple[Ints, Floats]:
        """Return the contribution cap of each cell, and its bounds' width in quanta.

        The width is 0 where contributions need not be whole quanta.
        """
        if statistic == "variance":
            return self.variance_cap, np.zeros(problem.occupancy.n_cells)
        if problem.facts is None:
            return self.contribution_cap, np.zeros(problem.occupancy.n_cells)
        return self.contribution_cap, span_in_quanta(problem.span, problem.facts)

    def contributions(self, problem: PlanningProblem, statistic: str) -> Floats:
        """Return the records of each pair that count for a statistic."""
        pairs = problem.occupancy.local()
        caps = self.caps_and_quanta(problem, statistic)
        capped = contributed_records(pairs, *caps, self.contribution_factor)
        for suppressed in self.suppressed:
            capped = np.where(suppressed_column(suppressed, pairs), 0.0, capped)
        return capped

    def clipped_share(self, problem: PlanningProblem, statistic: str) -> Floats:
        """Return the share of each cell's records that a statistic moves to the midpoint."""
        caps, users = self.caps_and_quanta(problem, statistic), (self.contribution_factor,)
        clipped = problem.occupancy.map_cells(clipped_by_caps, caps, users, self.suppressed)
        share = clipped / problem.occupancy.records_per_cell
        return np.asarray(share, dtype=np.float64)

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


def refuse_rows(wrong: Bools, fault: str) -> None:
    """Raise InputError with a fault and the first row that has it, if any has."""
    if wrong.any():
        raise InputError(f"{fault} in row {int(np.argmax(wrong))}.")


def weighted_rows(
    occupancy: Occupancy, clipping: Clipping, mean: Floats, variance: Floats | None = None
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


def full_factors(occupancy: Occupancy) -> Floats:
    """Return factors that reduce nobody."""
    return np.ones(occupancy.n_users)


def _up(values: Floats) -> Floats:
    # A product rounds to nearest, a scale must not be below it; 0 stays a constant.
    return np.where(values > 0, np.nextafter(values, np.inf), 0.0)
