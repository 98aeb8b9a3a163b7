"""Allocation of a plan: caps and noise, per cell and per user, and the clipping. Public.

The kinds of clipping (mechanisms/looks) read these rows, so that none of them is known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from hexveil.accounting.error_model import (
    MAX_CONSTANT_ERROR,
    ErrorModel,
    has_single_record,
    span_in_quanta,
)
from hexveil.accounting.privacy_loss import VARIANCE_LATTICE, KeptRecords, clipped_by_caps
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms import ThresholdMechanism
from hexveil.mechanisms.distribution.tilt_estimation import TiltFit
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.occupancy import Occupancy
from hexveil.model.pair_columns import SuppressedPairs
from hexveil.model.public_metadata import PublicMetadata, ValueLattice
from hexveil.planning.request import Request

PlanT = TypeVar("PlanT")
ClippingKind: TypeAlias = Any
"""One of the registered kinds of clipping."""
BOUND_KINDS = (None, "loss", "max error", "mean error")
MAX_ERROR = 1e6
"""Predicted errors are below this, in spans."""


@dataclass(frozen=True, eq=False)
class PublishedShape(ReadOnlyArrays):
    """Distribution of all records of a map that an earlier release published.

    Attributes
    ----------
    edges : ndarray of int64, shape (n_fine_bins,)
        Upper ends of the fine bins, in quanta.
    shares : ndarray of float, shape (n_fine_bins,)
    place : ndarray of int64, shape (n_fine_bins,)
        Bin of each fine bin in the finest measurement.
    """

    edges: Ints
    shares: Floats
    place: Ints

    def check(self) -> None:
        """Refuse shares that no distribution has: a stranger may have written them."""
        sizes = {one.size for one in vars(self).values()}
        if len(sizes) > 1 or not (self.shares > 0).all() or (np.diff(self.edges) <= 0).any():
            raise InputError("its published shape is no distribution over bins.")


@dataclass(frozen=True, eq=False)
class CellForecast(ReadOnlyArrays):
    """Forecast of the cells of a map by earlier releases. Public.

    Attributes
    ----------
    mean, deviation : ndarray of float, shape (n_cells,)
        Of each cell's average, value units.
    within : float
        Standard deviation of user means within a cell, value units.
    releases : tuple of str
        Digests of the releases that it rests on.
    weight : ndarray of float, shape (n_cells,), optional
        Under private presence: effective units of each cell, 0 where none are expected.
    shape : PublishedShape, optional
        Of mean ranks: the distribution that they are ranks in. Of bins: that they are placed by.
    shares : ndarray of float, shape (n_fine_bins,), optional
        Of bins: that distribution by all earlier days.
    tilts : TiltFit, optional
        Of bins: what each cell's distribution is of it.
    """

    mean: Floats
    deviation: Floats
    within: float
    releases: tuple[str, ...]
    weight: Floats | None = None
    shape: PublishedShape | None = None
    shares: Floats | None = None
    tilts: TiltFit | None = None


@dataclass(frozen=True, eq=False)
class PlanningProblem(ReadOnlyArrays):
    """Public input of every method: counts, bounds and request.

    Attributes
    ----------
    occupancy : Occupancy
    span : ndarray of float, shape (n_cells,)
        Width of each cell's bounds.
    request : Request
    facts : PublicMetadata or None
        Where there are records: contributions are whole quanta of their lattice.
    forecast : CellForecast or None
        Where clipping ranges follow from earlier releases.
    """

    occupancy: Occupancy
    span: Floats
    request: Request
    facts: PublicMetadata | None = None
    forecast: CellForecast | None = None

    def with_forecast(self, forecast: CellForecast) -> PlanningProblem:
        """Return the problem with ranges by a forecast, where it would pay for ranges of means."""
        request = self.request
        is_free = request.clipping_range == "auto" and request.range_share is None
        if not is_free or request.noised != ("mean",) or self.facts is None:
            return self
        if request.resolve_range(self.occupancy, request.epsilon) == "bounds":
            return self
        request = replace(request, history=forecast.releases)
        return replace(self, request=request, forecast=forecast)

    def within(self, epsilon: Fraction) -> PlanningProblem:
        """Return the problem with a privacy loss in place of its epsilon or targets."""
        return replace(self, request=self.request.within(epsilon))

    def without_metadata(self) -> PlanningProblem:
        """Return the problem of the bare counts: contributions may be fractions of quanta."""
        return replace(self, facts=None)

    def objective_errors(self, models: Mapping[str, ErrorModel]) -> Floats:
        """Return the error of each cell that the objective is about.

        The planning error of the one statistic; of both the largest (for objective "mean" the
        average), as shares of the error of a constant.
        """
        request = self.request
        if len(models) == 1:
            (model,) = models.values()
            return np.asarray(model.error)
        unit = {"mean": self.span, "variance": self.span**2}
        shares = np.stack([m.error / (unit[n] * MAX_CONSTANT_ERROR[n]) for n, m in models.items()])
        over = shares.max if request.objective == "max" else shares.mean
        return np.asarray(over(axis=0), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class PlanAllocation(ReadOnlyArrays):
    """Contribution cap of each user in each cell, the noise of each cell, and the clipping.

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
    suppressed_pairs : SuppressedPairs or None
        Pairs of which nothing is kept.
    cell_epsilon : Fraction or None
        The loss of one cell, where every cell has the same.
    lower_bound : float or None
        What no plan of the class can go below, rounded down.
    bound_kind : str or None
        What `lower_bound` is about: "loss", "max error" or "mean error".
    clipping : ClippingKind
        Kind of the plan (mechanisms/looks/__init__.py). Under a private range the mean's
        Laplace scale is the range's width times r / N; the noise of a cell with a range of its own
        is what it has if all of the loss goes to one number.
    """

    mechanism: str
    contribution_cap: Ints
    noise_scale_records: Floats
    variance_cap: Ints
    variance_noise: Floats
    contribution_factor: Floats
    clipping: ClippingKind
    suppressed_pairs: SuppressedPairs | None = None
    cell_epsilon: Fraction | None = None
    lower_bound: float | None = None
    bound_kind: str | None = None

    def mean_noise(self, problem: PlanningProblem) -> Floats:
        """Return the Laplace scale of each cell's mean, for bounds or a range of width 1."""
        return np.asarray(self.noise_scale_records / problem.occupancy.records_per_cell)

    def kept(self, problem: PlanningProblem, statistic: str | None = None) -> KeptRecords:
        """Return the records of each pair that count for a statistic.

        Those of a mean are whole quanta where there are records. Without a statistic records count
        wholly or not at all.
        """
        nothing, cap = np.zeros(problem.occupancy.n_cells), self.contribution_cap
        quanta = nothing
        if statistic == "variance":
            cap = self.variance_cap
        elif statistic == "mean" and problem.facts is not None:
            quanta = span_in_quanta(problem.span, problem.facts)
        return KeptRecords(cap, self.contribution_factor, quanta, self.suppressed_pairs)

    def contributions(self, problem: PlanningProblem, statistic: str) -> Floats:
        """Return the records of each pair that count for a statistic."""
        return self.kept(problem, statistic).of(problem.occupancy.local())

    def clipped_share(self, problem: PlanningProblem, statistic: str) -> Floats:
        """Return the share of each cell's records that a statistic moves to the midpoint."""
        work = partial(clipped_by_caps, kept=self.kept(problem, statistic))
        share = problem.occupancy.map_cells(work) / problem.occupancy.records_per_cell
        return np.asarray(share, dtype=np.float64)

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
        self.clipping.check_plan(self, occupancy, request)

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

    def booked(self, problem: PlanningProblem) -> Floats:
        """Return the booking of each user, rounded up: ε, or a square of μ under a δ."""
        booked: Floats = self.clipping.losses(problem, self).per_user()
        return booked

    def pair_losses(self, problem: PlanningProblem) -> Floats:
        """Return the privacy loss of each (cell, user) pair, not yet rounded up."""
        losses: Floats = self.clipping.losses(problem, self).per_pair()
        return losses

    def most_booked(self, problem: PlanningProblem) -> Fraction:
        """Return the booking of the most exposed user, rounded up."""
        return Fraction(float(self.booked(problem).max(initial=0.0)))

    def error_models(self, problem: PlanningProblem) -> dict[str, ErrorModel]:
        """Return the error model of each noised statistic, by its name."""
        models: dict[str, ErrorModel] = self.clipping.error_models(problem, self)
        return models

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


def restored(
    problem: PlanningProblem, allocation: PlanAllocation, bounds: tuple[Floats, Floats]
) -> PlanAllocation:
    """Return an allocation that a stranger may have written, for a problem of the same.

    Raises
    ------
    InputError
        If no plan has these.
    """
    occupancy, request, (lower, upper) = problem.occupancy, problem.request, bounds
    per_cell = lower, upper, *(request.target or {}).values()
    if any(array.shape != (occupancy.n_cells,) for array in per_cell):
        raise InputError("it was made for other cells: bounds or targets have another length.")
    rise = np.isfinite(lower) & np.isfinite(upper) & (lower < upper)
    refuse_rows(~rise, "bounds do not rise")
    resolved: PlanAllocation = allocation.clipping.restored(problem, allocation)
    asked, kind = request.clipping_range, resolved.clipping
    # The variance of one record is known, so that such a map needs no range.
    if asked == "private" and request.noised == ("variance",):
        asked = "bounds" if bool(has_single_record(occupancy).all()) else asked
    is_apart = request.method in {"per-cell", "equal-split"}
    stages = is_apart and not isinstance(request.mechanism, ThresholdMechanism)
    if asked not in {kind.mode, "auto"} or kind.has_stages != stages:
        raise InputError("its interval and its request do not fit together.")
    resolved.check_against(occupancy, request)
    return resolved


def refuse_rows(wrong: Bools, fault: str) -> None:
    """Raise InputError with a fault and the first row that has it, if any has."""
    if wrong.any():
        raise InputError(f"{fault} in row {int(np.argmax(wrong))}.")


def full_factors(occupancy: Occupancy) -> Floats:
    """Return factors that reduce nobody."""
    return np.ones(occupancy.n_users)


# ---- stages of a release ----


def allocation_of(plan: Any, scale: ValueLattice) -> Any:  # noqa: ANN401  stages of a MomentComponent
    """Return the stages of a plan on the lattice of the records.

    Raises
    ------
    InputError
        If a bound of the plan is off the lattice, a sum or its noise could leave 64 bits, or a
        cell keeps records without noise.
    """
    return plan.allocation.clipping.stages(plan, scale)


def with_outputs(plan: PlanT, allocation: Any, outputs: Outputs) -> PlanT:  # noqa: ANN401  its stages
    """Return the plan with the ranges that its private stages released."""
    planned: Any = plan
    released = planned.allocation.clipping.with_outputs(allocation, outputs)
    if released is planned.allocation.clipping:
        return plan
    changed: PlanT = replace(planned, allocation=replace(planned.allocation, clipping=released))
    return changed
