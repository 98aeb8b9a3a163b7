"""Assessment of a declared grid for one value column: from declarations alone, on paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexveil.model.cells import Cells, Labels
from hexveil.planning.presence.counted_request import (
    CountedPrediction,
    relative_count_error,
    relative_errors,
    relative_map_error,
)
from hexveil.planning.presence.presence_prediction import UnitCountPrediction
from hexveil.planning.presence.shape_prediction import ShapePrediction

if TYPE_CHECKING:
    from hexveil.planning.presence.presence_plan import PresencePlan

HALF = 0.5


@dataclass(frozen=True, eq=False)
class DeclaredAssessment:
    """Assessment of a declared grid for one value column.

    Attributes
    ----------
    plan : PresencePlan
        Of this grid, at the column's part of ε.
    """

    plan: PresencePlan

    @property
    def resolution(self) -> int | None:
        """Resolution of the hexagons; None of labels."""
        grid = self.plan.facts.cells.grid
        return grid.resolution if isinstance(grid, Cells) else None

    @property
    def timeslot(self) -> str | None:
        """Length of a slot; None where all times are pooled."""
        grid = self.plan.facts.cells.grid
        return grid.timeslot if isinstance(grid, Cells) else None

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Columns whose combinations are the cells; None of hexagons."""
        grid = self.plan.facts.cells.grid
        return grid.columns if isinstance(grid, Labels) else None

    @property
    def cells(self) -> int:
        """Declared cells."""
        return self.plan.facts.grid.n_cells

    @property
    def predicted_error(self) -> float:
        """Expected error in open cells: of averages or medians, else of numbers of units."""
        return self._errors()[0]

    @property
    def baseline_error(self) -> float:
        """Baseline error: of one constant, or a typical number of units."""
        return self._errors()[1]

    @property
    def relative_error(self) -> float:
        """Largest error over the statistics, as a part of its baseline error.

        Closed cells are off by the error of one constant, so that a grid on which few cells open
        does not seem accurate.
        """
        prediction = self.plan.prediction
        match prediction:
            case UnitCountPrediction():
                return relative_count_error(prediction)
            case CountedPrediction():
                return max(relative_errors(prediction))
            case _:
                return relative_map_error(prediction)

    @property
    def beats_constant(self) -> bool:
        """Whether the map is predicted to have something to say."""
        return self.plan.refusal is None

    @property
    def halved(self) -> bool:
        """Whether the error is below half of the baseline error."""
        return self.beats_constant and self.relative_error < HALF

    def _errors(self) -> tuple[float, float]:
        prediction = self.plan.prediction
        if isinstance(prediction, UnitCountPrediction):
            return prediction.count_error, prediction.typical_count
        if isinstance(prediction, CountedPrediction):
            prediction = prediction.statistics
        if isinstance(prediction, ShapePrediction):
            return prediction.quantile_error, prediction.baseline_error
        return prediction.mean_error, prediction.baseline_error
