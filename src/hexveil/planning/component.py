"""Components of a plan: one for each value column, of one of the registered kinds.

A component has the public facts of its column, the request and the decisions: enough for its
stages, its losses and its predicted errors. Whatever comes after a plan asks its components by
this interface.
Kinds are registered by name: how they are saved in `planning/serialization/plan_codec.py`, how they
are published in `publishing/part_kinds.py`, how they are printed in `cli/output/plan_text.py`.

Neighbours: one unit's values all change within the bounds, in all columns at once; under private
presence all records of one unit are added or removed. Loss of a unit: the sum of its losses over
all components, or under a δ of its squares of μ.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from hexveil.accounting.promise import of_amount
from hexveil.base.read_only import read_only

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.contract import StagedPlan

Json = dict[str, Any]


class PlanComponent(Protocol):
    """Plan of the statistics of one value column."""

    kind: ClassVar[str]
    """Name of its kind in the registries."""
    reads_bins: ClassVar[bool]
    """Whether its stages measure counts by bin, and not sums alone."""

    searches_grids: ClassVar[bool]
    """Whether other grids are compared by its error."""

    @property
    def facts(self) -> Any:  # noqa: ANN401  public or declared
        """Facts of the column; None of a bare occupancy."""

    @property
    def statistics(self) -> tuple[str, ...]:
        """Texts of all statistics."""

    @property
    def delta(self) -> Fraction:
        """δ of the promise; 0 of a pure one."""

    @property
    def epsilon(self) -> Fraction:
        """Privacy loss of the most exposed unit, or of any: the cost of the release."""

    @property
    def requested_epsilon(self) -> Fraction:
        """Requested epsilon; where targets were given, their cost."""

    @property
    def edition(self) -> str | None:
        """Name under which the same request is drawn, and paid for, again."""

    @property
    def booked_losses(self) -> Floats:
        """Booking of each unit, or of any: its loss, or its square of μ."""

    @property
    def user_losses(self) -> Floats:
        """Loss of each unit, or of any, at `delta`."""

    @property
    def targets(self) -> list[Json]:
        """Target errors; empty where ε was given."""

    @property
    def relative_error(self) -> float:
        """Predicted error of the statistics, without a unit of measure: columns share ε by it."""

    @property
    def missing_range(self) -> str | None:
        """The option that a private clipping range requires; None where there is none."""

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None for a useful one."""

    @property
    def smoothing_trouble(self) -> str | None:
        """Why there are no smoothed estimates beside it; None where there are."""

    @property
    def summary(self) -> str:
        """The plan in a line."""

    def stages(self) -> StagedPlan:
        """Return the stages of a release."""

    def check_release(self, *, has_squares: bool) -> None:
        """Refuse numbers that cannot be computed or noised, from public facts.

        Raises
        ------
        InputError
            If there is such a number.
        """

    def refuse_undrawable(self) -> None:
        """Refuse noise that no release could draw, where planning is quick to see it.

        Raises
        ------
        InputError
            If a sum or its noise does not fit 64 bits.
        """

    def to_json(self) -> Json:
        """Return the figures as JSON data; all of it is public."""

    def column_json(self) -> Json:
        """Return the figures of one value column among several."""


class BookedStages:
    """Losses that follow from stages, and the figures that follow from losses."""

    @property
    def delta(self) -> Fraction:
        """δ of the promise; 0 of a pure one."""
        raise NotImplementedError

    def stages(self) -> StagedPlan:
        """Return the stages of a release."""
        raise NotImplementedError

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


class PlainComponent(BookedStages):
    """A component without search of grids, targets and range: the usual answers.

    A new kind of component begins here.
    """

    reads_bins: ClassVar[bool] = False
    searches_grids: ClassVar[bool] = False
    missing_range: ClassVar[None] = None
    targets: ClassVar[list[Json]] = []
    largest_errors: ClassVar[dict[str, float]] = {}
    l0_epsilon: ClassVar[None] = None

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None for a useful one."""
        return None

    def check_release(self, *, has_squares: bool) -> None:
        """Refuse nothing."""

    def refuse_undrawable(self) -> None:
        """Refuse nothing."""


def public_json(component: Any) -> Json:  # noqa: ANN401  with public facts
    """Return the figures of one value column among several, where occupancy is public."""
    return {
        "cells": component.occupancy.n_cells,
        "users": component.occupancy.n_users,
        "records": component.occupancy.n_records,
        "epsilon": float(component.epsilon),
        "expected_error": component.expected_error,
        "targets": component.targets,
    }
