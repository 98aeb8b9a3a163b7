"""Several mechanisms under one booking: their stages one after the other, their losses added.

Each component is a plan of its own: on sums of values, on sums of public scores of fine bins, or on
the sums of one of several value columns, where it may itself consist of components. A component's
scores may depend on the noisy outputs of components before it, never on sums.

Neighbours: one unit's values all change within the bounds, in all value columns at once. In which
columns a record has a usable value is public, and with it the units and the occupancy of each.
Sensitivity: that of each component, stage by stage. A score is a public function of a record's bin,
so that a pair's sum of scores lies from 0 to n times the largest score, as the component assumes of
sums of values. A component of a column reads the sums of that column alone, which values of other
columns do not move.
Loss: the sum of the components' losses, for each unit; 0 of a column in which a unit has no record.
The noise of components is independent and their values change freely, so that no smaller sum would
do where each component's loss is attained.
Under a δ squares of μ take the place of losses (accounting/gaussian_composition.py).
Source: adaptive composition (`hexveil.mechanisms.contract`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hexveil.accounting.moves import Currency
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import HexveilError
from hexveil.mechanisms.contract import DONE, Stage, StagedPlan
from hexveil.mechanisms.distribution.binned_stage import BinnedSums, ScoredSums
from hexveil.mechanisms.sensitivity_report import NoiseRequest, SensitivityReport
from hexveil.mechanisms.stage_data import Measured, Outputs, PrivateSums

SEPARATOR = ": "


class ColumnSums(PrivateSums):
    """Sums of several value columns, each over its own pairs. PRIVATE.

    Parameters
    ----------
    columns : mapping of str to PrivateSums
    """

    __slots__ = ("columns",)

    def __init__(self, columns: Mapping[str, PrivateSums]) -> None:
        super().__init__(np.zeros(0, dtype=np.int64))
        self.columns = columns


@dataclass(frozen=True, eq=False)
class RenumberedUnits(SensitivityReport):
    """Sensitivity by the numbers that units have in a release, from those of one column.

    Attributes
    ----------
    report : SensitivityReport
    units : ndarray of int64, shape (n_units of the column,)
    """

    report: SensitivityReport
    units: Ints

    @property
    def of_choices(self) -> bool:  # type: ignore[override]  # as that of the column
        """Whether it is of scores, too."""
        return self.report.of_choices

    def charge(self, scales: Floats, n_users: int, currency: Currency) -> Floats:
        """Return each unit's loss, rounded down: see `SensitivityReport`."""
        losses = self.report.charge(scales, self.units.size, currency)
        return spread_losses(losses, self.units, n_users)


def spread_losses(losses: Floats, units: Ints, n_units: int) -> Floats:
    """Return losses of a column's units by their numbers in a release; 0 for all others."""
    return np.asarray(np.bincount(units, losses, n_units), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Component:
    """A mechanism among several, or all mechanisms of one of several value columns.

    Attributes
    ----------
    name : str
        Of a column, the column's.
    plan : StagedPlan
    scores : callable, optional
        From earlier outputs to public scores of fine bins, not negative, that it measures in place
        of values.
    units : ndarray of int64, optional
        Of a column: the numbers in the release of its units, in order.
    """

    name: str
    plan: StagedPlan
    scores: Callable[[Outputs], Ints] | None = None
    units: Ints | None = None

    def outputs(self, earlier: Outputs) -> Outputs:
        """Return the outputs of this component alone, by its own names of stages."""
        prefix = f"{self.name}{SEPARATOR}"
        selected = {name: row for name, row in earlier.items() if name.startswith(prefix)}
        return Outputs({name.removeprefix(prefix): row for name, row in selected.items()})

    def losses(self, n_units: int) -> Floats:
        """Return the loss of each unit of the release, 0 of those without a record here."""
        losses = self.plan.losses()
        return losses if self.units is None else spread_losses(losses, self.units, n_units)

    def sums(self, sums: PrivateSums, earlier: Outputs) -> PrivateSums:
        """Return the sums that the component reads. PRIVATE."""
        if self.units is not None:
            if not isinstance(sums, ColumnSums):
                raise HexveilError("these sums are of a single value column.")
            return sums.columns[self.name]
        if self.scores is None:
            return sums
        if not isinstance(sums, BinnedSums):
            raise HexveilError("scores need records by bin, which these sums lack.")
        return ScoredSums(sums, self.scores(earlier))


@dataclass(frozen=True, eq=False)
class ComponentStage:
    """Stage of a component, by a name that no other component's stage has."""

    component: Component
    stage: Stage

    @property
    def name(self) -> str:
        """Name of the component and of the stage."""
        return f"{self.component.name}{SEPARATOR}{self.stage.name}"

    @property
    def entries(self) -> int:
        """Integers in its row."""
        return self.stage.entries

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:
        """Return the noise of the stage."""
        return self.stage.noise(self.component.outputs(earlier))

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:
        """Return the sensitivity of the stage, by the units of the release."""
        units = self.component.units
        reports = self.stage.sensitivity(self.component.outputs(earlier))
        return reports if units is None else tuple(RenumberedUnits(one, units) for one in reports)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Measured, ...]:
        """Return the integers of the stage. PRIVATE."""
        component_sums = self.component.sums(sums, earlier)
        return self.stage.measure(component_sums, self.component.outputs(earlier))

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:
        """Return the row that the stage stores."""
        return self.stage.row(drawn, self.component.outputs(earlier))


@dataclass(frozen=True, eq=False)
class CombinedStages:
    """Plan of all components.

    Attributes
    ----------
    components : tuple of Component
    booked : ndarray of float, shape (n_users,)
        Sum of their losses, rounded up.
    """

    components: tuple[Component, ...]
    booked: Floats

    @classmethod
    def of(cls, components: Sequence[Component], n_units: int) -> CombinedStages:
        """Return the plan of components, with their losses added up."""
        booked = np.zeros(n_units)
        for component in components:
            losses = component.losses(n_units)
            # Rounded up after each sum: what is booked is never below the exact sum. Nothing is
            # added to those whom a component costs nothing.
            rounded_up = np.nextafter(booked + losses, np.inf)
            booked = np.where(losses > 0.0, rounded_up, booked)
        return cls(tuple(components), booked)

    def losses(self) -> Floats:
        """Return each unit's loss over all components: booked."""
        return self.booked

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the next stage of the first component that has one."""
        for component in self.components:
            stage = component.plan.next_stage(component.outputs(earlier))
            if stage is not DONE:
                return ComponentStage(component, stage)
        return DONE

    def component(self, name: str) -> Component:
        """Return the component of a name."""
        return next(component for component in self.components if component.name == name)
