"""Components of a plan: one for each value column, of one of the registered kinds.

A component has the public facts of its column, the request and the decisions: enough for its
stages, its losses and its predicted errors. Whatever comes after a plan asks its components by
this interface.
Kinds are registered by name: how they are saved in `planning/saved_plans.py`, how
they are published in `publishing/part_kinds.py`, how they are printed in `cli/plan_text.py`.

A goal is the request in exact text, without any number found by a solver. Solvers differ in late
digits between processors and versions, requests must not. So a request is its goal: the options
given, the bounds and the occupancy. Two plans of one goal are one request.

Neighbours: one unit's values all change within the bounds, in all columns at once; under private
presence all records of one unit are added or removed. Loss of a unit: the sum of its losses over
all components, or under a δ of its squares of μ.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from hexveil.accounting.promise import of_amount
from hexveil.base.arrays import Floats
from hexveil.base.rational import decimal_text
from hexveil.base.read_only import read_only
from hexveil.mechanisms import CellMechanism, ThresholdMechanism
from hexveil.mechanisms.spelling import spelled

Json = dict[str, Any]


class BookedStages:
    """Losses that follow from `stages()` and `delta`, and the figures that follow from losses."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401  of what kinds have
            """Return a figure of a kind."""

    @cached_property
    def booked_losses(self) -> Floats:
        """Booking of each unit over all stages: its loss, or its square of μ."""
        booked: Floats = read_only(self.stages().losses())
        return booked

    @cached_property
    def user_losses(self) -> Floats:
        """Loss of each unit over all stages, at `delta`, rounded up; shape (n_units,)."""
        promise = of_amount(self.booked_limit, self.delta)
        losses: Floats = read_only(promise.losses(self.booked_losses))
        return losses

    def losses(self) -> Floats:
        """Return the loss of each unit over all stages, rounded up."""
        return self.user_losses

    @property
    def epsilon(self) -> Fraction:
        """Privacy loss of the most exposed unit: the cost of the release."""
        return Fraction(float(self.user_losses.max(initial=0.0)))

    @property
    def booked_limit(self) -> Fraction:
        """Most that the ledger books for a unit: its loss, or under a δ its square of μ."""
        return Fraction(float(self.booked_losses.max(initial=0.0)))


class PlanComponent(BookedStages):
    """Plan of the statistics of one value column, with the usual answers of a plain one.

    A new kind of component begins here. It is a frozen data class, and also has `kind` (its name in
    the registries), `saved_as`, `facts` (public or declared; None of a bare occupancy),
    `statistics` (their texts), `delta`, `requested_epsilon` (where targets were given, their cost),
    `edition`, `relative_error` (predicted, without a unit of measure: columns share ε by it),
    `expected_error`, `smoothing_trouble` (why there are no smoothed estimates beside it, or None),
    `summary` (the plan in a line), `goal()`, `fixed()`, `stages()`, and `to_json()` and
    `column_json()` (figures, alone and among several columns; all of it is public).

    Attributes
    ----------
    reads_bins : bool
        Whether its stages measure counts by bin, and not sums alone.
    searches_grids : bool
        Whether other grids are compared by its error.
    targets : list
        Target errors; empty where ε was given.
    refusal : str or None
        The sentence that refuses a map with nothing to say; None for a useful one.
    """

    reads_bins: ClassVar[bool] = False
    searches_grids: ClassVar[bool] = False
    targets: Any = ()
    refusal: Any = None
    largest_errors: Any = MappingProxyType({})
    l0_epsilon: Any = None

    def check_release(self, *, has_squares: bool) -> None:
        """Refuse numbers that cannot be computed or noised, from public facts."""

    def refuse_undrawable(self) -> None:
        """Refuse noise that no release could draw, where planning is quick to see it."""

    def column_json(self) -> Json:
        """Return the figures of one value column among several, where occupancy is public."""
        return {
            "cells": self.occupancy.n_cells,
            "users": self.occupancy.n_users,
            "records": self.occupancy.n_records,
            "epsilon": float(self.epsilon),
            "expected_error": self.expected_error,
            "targets": list(self.targets),
        }

    def component_epsilons(self) -> dict[str, float]:
        """Return the largest loss of a unit in each part of a divided loss."""
        return {}


class MomentFigures(PlanComponent):
    """Figures of means and variances, and their goal: what a `MomentComponent` states."""

    @property
    def summary(self) -> str:
        """The plan in a line."""
        error, occupancy = self.expected_error, self.occupancy
        if isinstance(error, float):
            shown = f"{error:.4g}"
        else:
            shown = "{" + ", ".join(f"{name}: {value:.4g}" for name, value in error.items()) + "}"
        return (
            f"method={self.method!r}, mechanism={self.mechanism!r}, n_cells={occupancy.n_cells}, "
            f"n_users={occupancy.n_users}, epsilon={float(self.epsilon):.6g}, mean_error={shown}"
        )

    @property
    def table(self) -> pa.Table:
        """Table with a row per cell: public counts, contribution cap, noise and expected errors."""
        occupancy, has_mean = self.occupancy, "mean" in self.error_models
        columns = {
            "cell": pa.array(self.names, type=pa.string()),
            "users": occupancy.users_per_cell,
            "records": occupancy.records_per_cell,
            "mechanism": pa.array([self.mechanism] * occupancy.n_cells, type=pa.string()),
            "lower": self.lower,
            "upper": self.upper,
            "kept": self.contribution_cap if has_mean else self.allocation.variance_cap,
        }
        for name, model in self.error_models.items():
            figures = ("scale", "bias", "error", "bound95")
            columns |= {f"{name}_{figure}": getattr(model, figure) for figure in figures}
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

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON data, with the lower bound; all of it is public."""
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
                "about": self.bound_kind,
                "gap": bounded.gap,
                "lower_bound": bounded.lower_bound,
            },
            "baseline_error": support.baseline_error,
            "floor": support.floor,
            "better": support.better,
            "beats_constant": support.beats_constant,
        }

    def goal(self) -> dict[str, str]:
        """Return the request of means and variances as text by field."""
        requested = self.request
        plain = ("method", "objective", "clipping_range")
        numbers = ("epsilon", "range_share")
        is_joint = requested.method == "joint"
        # Arrays by digest: a target per cell would make the text as long as the map.
        targets = {name: _digest(one) for name, one in (requested.target or {}).items()}
        return {
            "statistics": json.dumps(requested.statistics),
            # The joint plan ignores it: two spellings of one goal must not be paid twice.
            "mechanism": "joint" if is_joint else mechanism_text(requested.mechanism),
            **{name: getattr(requested, name) for name in plain},
            **{name: _exact(getattr(requested, name)) for name in numbers},
            **delta_text(requested.delta),
            **({"history": json.dumps(requested.history)} if requested.history else {}),
            "targets": json.dumps(targets),
            "edition": edition_text(requested.edition),
            "bounds": _digest(self.lower, self.upper),
            "occupancy": self.occupancy.fingerprint,
        }


# ---- goals ----


def goal(plan: Any) -> dict[str, str]:  # noqa: ANN401  a Plan, which imports this
    """Return the goal of a plan as text by field: equal goals have equal text.

    The prior of a constant's error is left out: it judges a plan and decides nothing in it. Under
    private presence a request has declared facts alone (publishing/kinds/presence_manifest.py).
    """
    components: Mapping[str, Any] = plan.components
    goals = {column: component.goal() for column, component in components.items()}
    if plan.is_single:
        return next(iter(goals.values()))
    for column_goal in goals.values():
        # A column's part of ε is a number that a prediction found.
        column_goal.pop("epsilon", None)
    return {
        "epsilon": _exact(plan.requested_epsilon),
        "weights": weights_text(plan.weights),
        "edition": edition_text(plan.edition),
        # In whichever order columns are named, the request is the same.
        "columns": json.dumps(goals, sort_keys=True),
    }


def mechanism_text(mechanism: ThresholdMechanism | CellMechanism) -> str:
    """Return a mechanism's name, with the fields of one that is a data class."""
    if not dataclasses.is_dataclass(mechanism) or not dataclasses.fields(mechanism):
        return mechanism.name
    spelling = spelled(mechanism)
    # repr of a double is exact, and sorted keys do not depend on the order of fields.
    arguments = {f.name: repr(getattr(spelling, f.name)) for f in dataclasses.fields(spelling)}
    return f"{spelling.name} {json.dumps(arguments, sort_keys=True)}"


def delta_text(delta: Fraction) -> dict[str, str]:
    """Return the field of a δ."""
    # Pure requests have no such field: those of earlier versions stay what they were.
    return {"delta": decimal_text(delta)} if delta else {}


def weights_text(weights: Mapping[str, Fraction]) -> str:
    """Return weights in one order."""
    return json.dumps({name: str(weight) for name, weight in sorted(weights.items())})


def edition_text(edition: str | None) -> str:
    """Return an edition, which may be any text."""
    return "none" if edition is None else json.dumps(edition)


def _exact(number: Fraction | None) -> str:
    return "none" if number is None else decimal_text(number)


def _digest(*arrays: Floats) -> str:
    """Return the SHA-256 of arrays, each with its length."""
    digest = hashlib.sha256()
    for array in arrays:
        # With lengths, so that no two lists of arrays share their bytes.
        digest.update(f"<f8{array.shape};".encode())
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()
