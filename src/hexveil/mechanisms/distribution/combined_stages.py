"""Several mechanisms under one booking: their stages one after the other, their losses added.

Each component is a plan of its own, on sums of values or on sums of public scores of fine bins. A
component's scores may depend on the noisy outputs of components before it, never on sums.

Neighbours: one unit's values all change within the bounds.
Sensitivity: that of each component, stage by stage. A score is a public function of a record's bin,
so that a pair's sum of scores lies from 0 to n times the largest score, as the component assumes of
sums of values.
Loss: the sum of the components' losses, for each unit.
Source: adaptive composition (`hexveil.mechanisms.contract`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hexveil.base.errors import HexveilError
from hexveil.mechanisms.contract import DONE, Outputs
from hexveil.mechanisms.distribution.binned_stage import BinnedSums

if TYPE_CHECKING:
    from hexveil.mechanisms.contract import (
        Floats,
        Ints,
        Measured,
        NoiseRequest,
        PrivateSums,
        SensitivityReport,
        Stage,
        StagedPlan,
    )

SEPARATOR = ": "


class BinScores(Protocol):
    """Public scores of fine bins, perhaps from noisy outputs."""

    def scores(self, earlier: Outputs) -> Ints:
        """Return the score of each fine bin, not negative."""


@dataclass(frozen=True, eq=False)
class Component:
    """A mechanism among several.

    Attributes
    ----------
    name : str
        Unlike those of the others; it begins the names of its stages.
    plan : StagedPlan
    scores : BinScores or None
        What is summed in place of values; None for values, and for counts by bin.
    """

    name: str
    plan: StagedPlan
    scores: BinScores | None = None

    def outputs(self, earlier: Outputs) -> Outputs:
        """Return the outputs of this component alone, by its own names of stages."""
        prefix = f"{self.name}{SEPARATOR}"
        own = {name: row for name, row in earlier.items() if name.startswith(prefix)}
        return Outputs({name.removeprefix(prefix): row for name, row in own.items()})


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
        """Return the sensitivity of the stage."""
        return self.stage.sensitivity(self.component.outputs(earlier))

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Measured, ...]:
        """Return the integers of the stage. PRIVATE."""
        if self.component.scores is not None:
            if not isinstance(sums, BinnedSums):
                raise HexveilError("scores need records by bin, which these sums lack.")
            sums = sums.scored(self.component.scores.scores(earlier))
        return self.stage.measure(sums, self.component.outputs(earlier))

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
    kind = "combined"

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
        return next(one for one in self.components if one.name == name)
