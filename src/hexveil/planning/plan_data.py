"""Plan as data: a row per cell, a row per user, made in public before any value is read.

Of a (cell, user) pair with m records, f min(m, t) are kept: t is the cell's, f the user's; the
rest is put at the middle of the bounds. The sensitivity of the pair, and its loss, are formulas of
what is kept and of the cell's noise (accounting/error_model.py; mechanisms/looks for the
statistic).

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Loss of a user: the sum over its cells and statistics of its own sensitivity / scale (ERRATA 3;
accounting/moves.py). For the mean that is kept / r, r the noise scale counted in
records (scale = U r / N). The variance is published on a lattice of 2^-30 of its noise scale, and a
user is charged that step in each of its cells as well (mechanisms/looks/clipped_variance.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.promise import of_amount, promised
from hexveil.base.rational import round_up
from hexveil.base.read_only import ReadOnlyArrays, read_only
from hexveil.planning.feasibility.utility_test import UtilityAssessment, assess_utility
from hexveil.planning.plan_rows import PlanningProblem
from hexveil.planning.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from hexveil.accounting.error_model import ErrorModel
    from hexveil.base.arrays import Floats
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.allocation import PlanAllocation


@dataclass(frozen=True, eq=False)
class MomentFigures(ReadOnlyArrays):
    """Decisions and figures of means and variances: clipping, noise, and the loss of each user.

    Every array is public; value units unless said otherwise. The figures are computed once, when
    the plan is made from its decisions: `dataclasses.replace` computes them anew, so that no figure
    can belong to other decisions.

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
    error_models : mapping of statistic to ErrorModel
        Figure: the error of each noised statistic.
    booked_losses : ndarray of float, shape (n_users,)
        Figure: what the ledger books for each user over all cells, rounded up: its privacy loss in
        epsilon, or under a δ the square of μ.
    user_losses : ndarray of float, shape (n_users,)
        Figure: the privacy loss of each user in epsilon, under a δ that at δ.
    l0_loss : Fraction or float
        Figure: loss under naive accounting, each cell's loss charged to all of its users.
    """

    occupancy: Occupancy
    lower: Floats
    upper: Floats
    allocation: PlanAllocation
    request: Request
    baseline_error: float
    facts: PublicMetadata | None = None
    error_models: Mapping[str, ErrorModel] = field(init=False)
    booked_losses: Floats = field(init=False)
    user_losses: Floats = field(init=False)
    l0_loss: Fraction | float = field(init=False)

    def __post_init__(self) -> None:
        """Compute the figures from the decisions."""
        super().__post_init__()
        problem, allocation = self.problem, self.allocation
        # A plan made by hand may lack noise: its losses are infinite, and a release refuses it.
        with np.errstate(divide="ignore", invalid="ignore"):
            models = allocation.error_models(problem)
            # All figures share one pass for the clipped shares, which the error models have.
            stated = allocation.clipping.losses(problem, allocation, models.get("variance"))
            booked, counted = stated.per_user(), stated.counted()
        object.__setattr__(self, "error_models", MappingProxyType(models))
        losses = of_amount(Fraction(0), self.delta).losses(booked)
        object.__setattr__(self, "booked_losses", read_only(booked))
        object.__setattr__(self, "user_losses", read_only(losses))
        object.__setattr__(self, "l0_loss", counted)

    @property
    def problem(self) -> PlanningProblem:
        """The public input that the plan answers."""
        return PlanningProblem(self.occupancy, self.span, self.request, self.facts)

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
    def booked_limit(self) -> Fraction:
        """Most that the ledger books for a user: ε, or under a δ a square of μ."""
        return Fraction(float(self.booked_losses.max(initial=0.0)))

    @property
    def contribution_cap(self) -> NDArray[np.int64]:
        """t: samples kept of a user for the mean; 0 publishes the middle of the bounds."""
        return self.allocation.contribution_cap

    @property
    def noise_scale_records(self) -> Floats:
        """r: Laplace scale of the sum, in records times span; 0 where nothing is kept."""
        return self.allocation.noise_scale_records

    @property
    def cell_epsilon(self) -> Fraction | None:
        """The loss of one cell, where every cell has the same."""
        return self.allocation.cell_epsilon

    @property
    def lower_bound(self) -> float | None:
        """Stored lower bound of every plan of the joint plan's class: see `bound_kind`.

        The bound of a mean error takes longer than the plan, and is stored on demand alone
        (`Plan.with_lower_bound`).
        """
        return self.allocation.lower_bound

    @property
    def bound_kind(self) -> str | None:
        """Subject of `lower_bound`: the "loss", the "max error" or the "mean error".

        None without one: a bound of the mean error looks at each pair, so that there is none where
        pairs stay elsewhere.
        """
        # The bound of a mean error looks at each pair, which stays elsewhere if distributed.
        kind = self.allocation.bound_kind
        return kind if self.occupancy.is_local or kind != "mean error" else None

    @property
    def gap(self) -> float | None:
        """(value - lower_bound) / value, 0 where both are 0; None without a bound."""
        if self.lower_bound is None:
            return None
        value = self._certified()
        # Constants alone cost and miss nothing: the bound is the value.
        return (value - self.lower_bound) / value if value else 0.0

    def _certified(self) -> float:
        """Return the figure that the bound is about, in its units."""
        if self.bound_kind == "loss":
            return round_up(self.epsilon)
        errors = self.objective_errors()
        return float(errors.max() if self.bound_kind == "max error" else errors.mean())

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
    def scale(self) -> Floats:
        """Laplace scale of each cell's first statistic; 0: a constant."""
        return self.primary_statistic.scale

    @property
    def bias(self) -> Floats:
        """Worst-case bias of each cell's first statistic."""
        return self.primary_statistic.bias

    @property
    def error(self) -> Floats:
        """Planning error of each cell's first statistic: worst-case bias plus expected |noise|."""
        return self.primary_statistic.error

    @property
    def bound95(self) -> Floats:
        """Error of the first statistic not exceeded with probability 95 percent."""
        return self.primary_statistic.bound95

    def losses(self) -> Floats:
        """Return the loss of each user over all cells, in epsilon, rounded up."""
        return self.user_losses

    def pair_losses(self) -> Floats:
        """Return the privacy loss of each (cell, user) pair, not yet rounded up."""
        return self.allocation.clipping.losses(self.problem, self.allocation).per_pair()

    @property
    def l0_epsilon(self) -> Fraction:
        """Epsilon under naive accounting: each cell's loss charged to all of its users."""
        return Fraction(self.l0_loss)

    @property
    def epsilon(self) -> Fraction:
        """Privacy loss of the most exposed user, rounded up: the cost of the release."""
        # Fraction of a double is exact: what is printed is what is booked.
        return Fraction(float(self.user_losses.max(initial=0.0)))

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
        return assess_utility(
            self.occupancy,
            self.primary_statistic,
            self.span,
            float(self.requested_epsilon),
            self.baseline_error,
            float(promised(self.requested_epsilon, self.delta).amount) if self.delta else 0.0,
        )

    @property
    def cell_mechanisms(self) -> list[str]:
        """Name of each cell's mechanism; of `Auto`, that of the one it selected."""
        named = self.allocation.clipping.names(self.request.mechanism)
        return named or [self.mechanism] * self.occupancy.n_cells

    @property
    def names(self) -> tuple[str, ...]:
        """One readable name per cell."""
        if self.facts is not None:
            return self.facts.cells.names()
        return tuple(str(i) for i in range(self.occupancy.n_cells))

    @property
    def table(self) -> pa.Table:
        """Table with a row per cell: public counts, contribution cap, noise and expected errors."""
        occupancy = self.occupancy
        columns = {
            "cell": pa.array(self.names, type=pa.string()),
            "users": occupancy.users_per_cell,
            "records": occupancy.records_per_cell,
            "mechanism": pa.array([self.mechanism] * occupancy.n_cells, type=pa.string()),
            "lower": self.lower,
            "upper": self.upper,
            "kept": self.contribution_cap
            if "mean" in self.error_models
            else self.allocation.variance_cap,
        }
        for name, model in self.error_models.items():
            columns |= {
                f"{name}_scale": model.scale,
                f"{name}_bias": model.bias,
                f"{name}_error": model.error,
                f"{name}_bound95": model.bound95,
            }
        return pa.table(columns)

    @property
    def users(self) -> pa.Table:
        """A row per user (by number): cells, records, factor and loss."""
        occupancy = self.occupancy
        return pa.table(
            {
                "user": np.arange(occupancy.n_users),
                "cells": occupancy.cells_per_user,
                "records": occupancy.records_per_user,
                "factor": self.allocation.contribution_factor,
                "loss": self.user_losses,
            }
        )
