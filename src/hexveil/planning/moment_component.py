"""Means and variances as a component of a plan: decisions, figures, stages. Public.

Of a (cell, user) pair with m records, f min(m, t) are kept: t is the cell's, f the user's; the
rest is put at the middle of the bounds. Sensitivity and loss of the pair follow from what is kept
and from the cell's noise (accounting/error_model.py; mechanisms/looks for the statistic).

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Loss of a user: the sum over its cells and statistics of its own sensitivity / scale (ERRATA 3;
accounting/moves.py). For the mean that is kept / r, r the noise scale counted in records. The
variance is published on a lattice of 2^-30 of its noise scale, and a user is charged that step in
each of its cells as well (mechanisms/looks/clipped_variance.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.error_model import ErrorModel, gaussian_noise_floor, noise_floor
from hexveil.accounting.promise import of_amount, promised
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.base.read_only import ReadOnlyArrays, read_only
from hexveil.mechanisms.looks import ReleaseAllocation
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.allocation import PlanAllocation, PlanningProblem, allocation_of, restored
from hexveil.planning.component import MomentFigures
from hexveil.planning.feasibility.utility_test import StatisticError, UtilityAssessment, refusal_of
from hexveil.planning.optimizers.mean_error_bound import compute_mean_error_bound
from hexveil.planning.request import Request


@dataclass(frozen=True, eq=False)
class MomentComponent(ReadOnlyArrays, MomentFigures):
    """Means and variances of one value column: clipping and noise of each cell, loss of each user.

    Every array is public; value units unless said otherwise. Figures are computed once from the
    decisions: `dataclasses.replace` computes them anew, so that no figure can belong to others.

    Attributes
    ----------
    occupancy : Occupancy
    lower, upper : ndarray of float, shape (n_cells,)
        Bounds of each cell; a float means its shortest decimal text.
    allocation : PlanAllocation
        Contribution caps, weights and noise: see there.
    request : Request
        Requested loss or targets, the statistics, the method.
    baseline_error : float
        Assumed mean error of one constant for all cells (public, from outside).
    facts : PublicMetadata or None
        None for a bare occupancy, which can be planned but not released.
    """

    occupancy: Occupancy
    lower: Floats
    upper: Floats
    allocation: PlanAllocation
    request: Request
    baseline_error: float
    facts: PublicMetadata | None = None
    kind: ClassVar[str] = "moments"
    reads_bins: ClassVar[bool] = False
    searches_grids: ClassVar[bool] = True
    saved_as: ClassVar[str] = "Plan"
    """By which it is saved."""

    @property
    def problem(self) -> PlanningProblem:
        """The public input that the plan answers."""
        return PlanningProblem(self.occupancy, self.span, self.request, self.facts)

    @cached_property
    def error_models(self) -> Mapping[str, ErrorModel]:
        """Error of each noised statistic."""
        # A plan made by hand may lack noise: its losses are infinite, and a release refuses it.
        with np.errstate(divide="ignore", invalid="ignore"):
            return MappingProxyType(self.allocation.error_models(self.problem))

    @cached_property
    def _stated(self) -> Any:  # noqa: ANN401  losses here or elsewhere
        return self.allocation.clipping.losses(self.problem, self.allocation)

    @cached_property
    def booked_losses(self) -> Floats:
        """Booking of each user over all cells, rounded up: ε, or under a δ the square of μ."""
        with np.errstate(divide="ignore", invalid="ignore"):
            booked: Floats = read_only(self._stated.per_user())
        return booked

    @cached_property
    def user_losses(self) -> Floats:
        """Privacy loss of each user in epsilon, under a δ that at δ."""
        losses: Floats = read_only(of_amount(Fraction(0), self.delta).losses(self.booked_losses))
        return losses

    @cached_property
    def l0_epsilon(self) -> Fraction:
        """Epsilon under naive accounting: each cell's loss charged to all of its users."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return Fraction(self._stated.counted())

    @property
    def method(self) -> str:
        """How cells were planned together."""
        return self.request.method

    @property
    def mechanism(self) -> str:
        """How one cell was planned; "factors" for a joint plan."""
        return self.allocation.mechanism

    @property
    def statistics(self) -> tuple[str, ...]:
        """Statistics published of each cell."""
        return self.request.statistics

    @property
    def requested_epsilon(self) -> Fraction:
        """Requested epsilon; where targets were given, their cost."""
        return self.epsilon if self.request.epsilon is None else self.request.epsilon

    @property
    def delta(self) -> Fraction:
        """δ of an approximate promise; 0 for a pure one."""
        return self.request.delta

    @property
    def contribution_cap(self) -> NDArray[np.int64]:
        """t: samples kept of a user for the mean; 0 publishes the middle of the bounds."""
        return self.allocation.contribution_cap

    @property
    def cell_epsilon(self) -> Fraction | None:
        """The loss of one cell, where every cell has the same."""
        return self.allocation.cell_epsilon

    @property
    def lower_bound(self) -> float | None:
        """Stored lower bound of every plan of the joint plan's class; see `with_lower_bound`."""
        return self.allocation.lower_bound

    @property
    def bound_kind(self) -> str | None:
        """Subject of `lower_bound`: the "loss", the "max error", the "mean error", or none."""
        # The bound of a mean error looks at each pair, which stays elsewhere if distributed.
        kind = self.allocation.bound_kind
        return kind if self.occupancy.is_local or kind != "mean error" else None

    @property
    def gap(self) -> float | None:
        """(value - lower_bound) / value, 0 where both are 0; None without a bound."""
        if self.lower_bound is None:
            return None
        errors = self.objective_errors()
        certified = {"loss": round_up(self.epsilon), "max error": float(errors.max())}
        value = certified.get(str(self.bound_kind), float(errors.mean()))
        # Constants alone cost and miss nothing: the bound is the value.
        return (value - self.lower_bound) / value if value else 0.0

    def objective_errors(self) -> Floats:
        """Return the error of each cell that the objective is about.

        The planning error of the one statistic; of both the largest (for objective "mean" the
        average), as shares of what a constant can miss.
        """
        return self.problem.objective_errors(self.error_models)

    @property
    def span(self) -> Floats:
        """Width of each cell's bounds."""
        return self.upper - self.lower

    def contributions(self, statistic: str) -> Floats:
        """Return the records of each pair that count for a statistic."""
        return self.allocation.contributions(self.problem, statistic)

    @property
    def mean_noise(self) -> Floats:
        """Laplace scale of each cell's mean, for bounds or a clipping range of width 1."""
        return self.allocation.mean_noise(self.problem)

    @property
    def primary_statistic(self) -> ErrorModel:
        """The first statistic with noise: the mean, unless only the variance was asked for."""
        return next(iter(self.error_models.values()))

    @property
    def error(self) -> Floats:
        """Planning error of each cell's first statistic: worst-case bias plus expected |noise|."""
        return self.primary_statistic.error

    @property
    def worst_case_error(self) -> float | dict[str, float]:
        """Largest planning error of a cell: by statistic where several are planned apart."""
        return self._errors(np.max)

    @property
    def expected_error(self) -> float | dict[str, float]:
        """Average planning error over cells: by statistic where several are planned apart."""
        return self._errors(np.mean)

    def _errors(self, over_cells: Callable[[Floats], np.floating[Any]]) -> float | dict[str, float]:
        # Means and variances have different units: one number would add what cannot be added.
        if len(self.error_models) == 1:
            return float(over_cells(self.objective_errors()))
        return {name: float(over_cells(model.error)) for name, model in self.error_models.items()}

    @property
    def support(self) -> UtilityAssessment:
        """Whether the map would say more than one constant, by the public prior."""
        model, epsilon = self.primary_statistic, self.requested_epsilon
        width = float(self.span.mean())
        sizes = width, self.occupancy.n_cells, self.occupancy.n_users
        if self.delta:
            floor = gaussian_noise_floor(*sizes, float(promised(epsilon, self.delta).amount))
        else:
            floor = noise_floor(*sizes, float(epsilon)) if epsilon else 0.0
        # The same share of U²/8 as of U/2: times U/4.
        baseline = self.baseline_error * (1.0 if model.name == "mean" else width / 4.0)
        better = int((model.error < baseline).sum())
        return UtilityAssessment(*sizes[1:], floor, float(model.error.mean()), baseline, better)

    @property
    def cell_mechanisms(self) -> list[str]:
        """Name of each cell's mechanism; of `Auto`, that of the one it selected."""
        named = self.allocation.clipping.names()
        return named or [self.mechanism] * self.occupancy.n_cells

    @property
    def names(self) -> tuple[str, ...]:
        """One readable name per cell."""
        if self.facts is None:  # a bare occupancy has no names
            return tuple(map(str, range(self.occupancy.n_cells)))
        return self.facts.cells.names()

    @property
    def edition(self) -> str | None:
        """Edition of the request."""
        return self.request.edition

    def stages(self) -> ReleaseAllocation:
        """Return the stages on the lattice of the records."""
        return self._stages

    @cached_property
    def _stages(self) -> ReleaseAllocation:
        if self.facts is None:
            raise InputError("the plan was made for a bare occupancy; plan the records as read.")
        stages: ReleaseAllocation = allocation_of(self, self.facts.lattice)
        return stages

    def check_release(self, *, has_squares: bool) -> None:
        """Refuse sums or noise that do not fit 64 bits, or squares that there are not."""
        if self.facts is not None:
            epsilon = float(self.requested_epsilon)
            self.stages().check_release(epsilon, has_squares=has_squares)

    def refuse_undrawable(self) -> None:
        """Refuse a lattice on which no sum, or no noise, fits 64 bits; of pairs at hand alone."""
        if self.occupancy.is_local:
            self.check_release(has_squares=True)

    @property
    def targets(self) -> list[dict[str, Any]]:
        """Target errors; empty where ε was given."""
        return self.request.target_ranges

    @property
    def relative_error(self) -> float:
        """Average planning error as a part of the span, of variances of its square."""
        error = float(np.mean(self.objective_errors()))
        if len(self.request.noised) == 1 and self.facts is not None:
            (noised,) = self.request.noised
            error /= float(self.facts.lattice.span) ** (2 if noised == "variance" else 1)
        return error

    @property
    def average_errors(self) -> dict[str, float]:
        """Average planning error of each statistic."""
        return {name: float(np.mean(model.error)) for name, model in self.error_models.items()}

    @property
    def largest_errors(self) -> dict[str, float]:
        """Largest planning error of each statistic, where targets limit it."""
        limited = self.error_models if self.request.target is not None else {}
        return {name: float(np.max(model.error)) for name, model in limited.items()}

    @property
    def statistic_errors(self) -> tuple[StatisticError, ...]:
        """Predicted error of the first statistic, and that of one number for all cells."""
        support = self.support
        name = self.primary_statistic.name
        return (StatisticError(name, support.mean_error, support.baseline_error),)

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None for a useful one."""
        return refusal_of(self.statistic_errors)

    @property
    def smoothing_trouble(self) -> str | None:
        """Why there are no smoothed estimates beside it; None where there are."""
        if not self.allocation.clipping.has_stages:
            return None
        return (
            f"smoothed needs noise of a scale known beforehand, which {self.mechanism} does not "
            "have in general; request raw alone, or another mechanism."
        )

    # ---- saved ----

    @classmethod
    def from_saved(cls, **fields: Any) -> MomentComponent:  # noqa: ANN401  as of the class
        """Return the component of fields that a stranger may have written; refuse wrong ones."""
        names = "occupancy", "lower", "upper", "request"
        occupancy, lower, upper, request = (fields[name] for name in names)
        problem = PlanningProblem(occupancy, upper - lower, request, fields.get("facts"))
        if not 0 < fields["baseline_error"] < np.inf:
            raise InputError("its baseline error must be above 0 and finite.")
        allocation = restored(problem, fields["allocation"], (lower, upper))
        component = cls(**fields | {"allocation": allocation})
        _ = component.user_losses  # numbers beyond all doubles are found here
        return component

    def fixed(self) -> dict[tuple[str, ...], Any]:
        """Return by path all fields that are no decisions."""
        fixed: dict[tuple[str, ...], Any] = {
            (name,): getattr(self, name) for name in ("occupancy", "baseline_error", "facts")
        }
        # Of a component of a plan ε is a number that a prediction found.
        requested_names = (field.name for field in fields(self.request) if field.name != "epsilon")
        return fixed | {("request", name): getattr(self.request, name) for name in requested_names}

    def with_lower_bound(self) -> MomentComponent:
        """Return the component with the lower bound of its error or loss computed and stored.

        The bound of a mean error is a search of its own, longer than that of the plan.
        """
        # The searches of minimax plans end with a bound; that for a mean error has none at hand.
        if self.bound_kind != "mean error" or self.lower_bound is not None:
            return self
        loss = float(self.requested_epsilon)
        bound = compute_mean_error_bound(self.problem, self.allocation, loss)
        return replace(self, allocation=replace(self.allocation, lower_bound=bound))
