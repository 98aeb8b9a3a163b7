"""Means and variances as a part of a plan: how they are saved, named, judged and released."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hexveil.base.errors import InputError
from hexveil.planning.goal import moment_goal
from hexveil.planning.part import public_json
from hexveil.planning.plan_data import MomentFigures
from hexveil.planning.plan_rows import PlanningProblem, refuse_rows

if TYPE_CHECKING:
    from hexveil.mechanisms.looks.kinds import ReleaseAllocation
    from hexveil.mechanisms.stage_data import EstimateGrid, Outputs
    from hexveil.model.public_metadata import ValueLattice


class MomentPart(MomentFigures):
    """Means and variances of one value column: clipping and noise of each cell."""

    kind: ClassVar[str] = "moments"
    reads_bins: ClassVar[bool] = False
    searches_grids: ClassVar[bool] = True
    saved_as: ClassVar[str] = "Plan"
    """By which it is saved."""

    @classmethod
    def from_saved(cls, **fields: Any) -> MomentPart:  # noqa: ANN401  as of the class
        """Return the part of fields that a stranger may have written.

        Raises
        ------
        InputError
            If no plan has these.
        """
        occupancy, request, allocation = (
            fields[name] for name in ("occupancy", "request", "allocation")
        )
        lower, upper = fields["lower"], fields["upper"]
        per_cell = lower, upper, *(request.target or {}).values()
        if any(array.shape != (occupancy.n_cells,) for array in per_cell):
            raise InputError("it was made for other cells: bounds or targets have another length.")
        rise = np.isfinite(lower) & np.isfinite(upper) & (lower < upper)
        refuse_rows(~rise, "bounds do not rise")
        if not 0 < fields["baseline_error"] < np.inf:
            raise InputError("its baseline error must be above 0 and finite.")
        if request.delta:
            # What a δ goes with may be less than what the words of a plan say.
            request.check_delta()
        problem = PlanningProblem(occupancy, upper - lower, request, fields.get("facts"))
        allocation = allocation.clipping.restored(problem, allocation)
        allocation.check_against(occupancy, request)
        return cls(**fields | {"allocation": allocation})

    def fixed(self) -> dict[tuple[str, ...], Any]:
        """Return by path all fields that are no decisions."""
        fixed: dict[tuple[str, ...], Any] = {
            (name,): getattr(self, name) for name in ("occupancy", "baseline_error", "facts")
        }
        # Of a part of a plan ε is a number that a prediction found.
        requested_names = (field.name for field in fields(self.request) if field.name != "epsilon")
        return fixed | {("request", name): getattr(self.request, name) for name in requested_names}

    def with_lower_bound(self) -> MomentPart:
        """Return the part with the lower bound of its error or loss computed and stored.

        The bound of a mean error is a search of its own, longer than that of the plan.
        """
        # The searches of minimax plans end with a bound; that for a mean error has none at hand.
        if self.bound_kind != "mean error" or self.lower_bound is not None:
            return self
        from hexveil.planning.optimizers.mean_error_bound import (  # noqa: PLC0415  of a search
            compute_mean_error_bound,
        )

        bound = compute_mean_error_bound(self)
        return replace(self, allocation=replace(self.allocation, lower_bound=bound))

    @property
    def summary(self) -> str:
        """The plan in a line."""
        return (
            f"method={self.method!r}, mechanism={self.mechanism!r}, "
            f"n_cells={self.occupancy.n_cells}, n_users={self.occupancy.n_users}, "
            f"epsilon={float(self.epsilon):.6g}, mean_error={_shown(self.expected_error)}"
        )

    @property
    def edition(self) -> str | None:
        """Edition of the request."""
        return self.request.edition

    def goal(self) -> dict[str, str]:
        """Return the request as text by field."""
        return moment_goal(self)

    def stages(self) -> ReleaseAllocation:
        """Return the stages on the lattice of the records."""
        return self._stages

    @cached_property
    def _stages(self) -> ReleaseAllocation:
        if self.facts is None:
            raise InputError("the plan was made for a bare occupancy; plan the records as read.")
        return allocation_of(self, self.facts.lattice)

    def check_release(self, *, has_squares: bool) -> None:
        """Refuse sums or noise that do not fit 64 bits, or squares that there are not."""
        if self.facts is not None:
            lattice, epsilon = self.facts.lattice, float(self.requested_epsilon)
            self.stages().check_release(lattice, epsilon, has_squares=has_squares)

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
    def missing_range(self) -> str | None:
        """The option that a private clipping range requires; None where the request has it."""
        return self.request.range_needs("private")

    @property
    def has_epsilon(self) -> bool:
        """Whether it is planned within an ε."""
        return bool(self.request.epsilon)

    @property
    def average_errors(self) -> dict[str, float]:
        """Average planning error of each statistic."""
        return {name: float(np.mean(model.error)) for name, model in self.error_models.items()}

    @property
    def largest_errors(self) -> dict[str, float]:
        """Largest planning error of each statistic, where targets limit it."""
        limited = self.error_models if self.request.target is not None else {}
        return {name: float(np.max(model.error)) for name, model in limited.items()}

    def component_epsilons(self) -> dict[str, float]:
        """Return nothing: it is not divided."""
        return {}

    @property
    def judged_error(self) -> tuple[str, float]:
        """Average error of the first statistic, named where there are several."""
        leading = self.primary_statistic
        return leading.name * (len(self.error_models) > 1), float(leading.error.mean())

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None for a useful one."""
        if self.support.beats_constant:
            return None
        return (
            "the map would say no more than one constant for all cells; ask for larger cells or "
            "more epsilon."
        )

    @property
    def smoothing_trouble(self) -> str | None:
        """Why there are no smoothed estimates beside it; None where there are."""
        if not self.allocation.clipping.has_stages:
            return None
        return (
            f"smoothed needs noise of a scale known beforehand, which {self.mechanism} does not "
            "have in general; request raw alone, or another mechanism."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON data; all of it is public."""
        support, bounded = self.support, self.with_lower_bound()
        return {
            "cells": support.cells,
            "users": support.users,
            "records": self.occupancy.n_records,
            "epsilon_requested": float(self.requested_epsilon),
            "epsilon": float(self.epsilon),
            "l0_epsilon": float(self.l0_epsilon),
            "method": self.method,
            "statistics": list(self.statistics),
            "mean_error": self.expected_error,
            "max_error": self.worst_case_error,
            "certificate": {
                "about": bounded.bound_kind,
                "gap": bounded.gap,
                "lower_bound": bounded.lower_bound,
            },
            "baseline_error": support.baseline_error,
            "floor": support.floor,
            "better": support.better,
            "beats_constant": support.beats_constant,
        }

    def column_json(self) -> dict[str, Any]:
        """Return the figures of one value column among several."""
        return public_json(self)


def allocation_of(plan: MomentPart, scale: ValueLattice) -> ReleaseAllocation:
    """Return the stages of a plan on the lattice of the records.

    Raises
    ------
    InputError
        If a bound of the plan is off the lattice, a sum or its noise could leave 64 bits, or a
        cell keeps records without noise.
    """
    return plan.allocation.clipping.stages(plan, scale)


def with_outputs(plan: MomentPart, allocation: ReleaseAllocation, outputs: Outputs) -> MomentPart:
    """Return the plan with the ranges that its private stages released."""
    released = plan.allocation.clipping.with_outputs(allocation, outputs)
    if released is plan.allocation.clipping:
        return plan
    return replace(plan, allocation=replace(plan.allocation, clipping=released))


def grids_of(plan: MomentPart, scale: ValueLattice) -> dict[str, EstimateGrid]:
    """Return where published numbers can lie, by statistic; of a plan with its released ranges."""
    # Built anew from the released ranges: a grid read off the plan could differ from the draw.
    return allocation_of(plan, scale).grids(plan.error_models)


def _shown(error: float | dict[str, float]) -> str:
    if isinstance(error, dict):
        return "{" + ", ".join(f"{name}: {value:.4g}" for name, value in error.items()) + "}"
    return f"{error:.4g}"
