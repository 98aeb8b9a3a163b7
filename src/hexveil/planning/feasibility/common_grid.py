"""One grid for several value columns: chosen among those that each column supports.

Columns share the cells of a release. Each is judged at its own part of ε, and a grid is as good as
it is for the column that it serves worst. Under private presence a grid is judged on paper, from
declarations alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hexveil.planning.feasibility.grid_assessment import GridAssessment, fineness
from hexveil.planning.feasibility.grids import MIN_CELLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.model.cells import Cells, Labels
    from hexveil.planning.feasibility.capacity import Capacity
    from hexveil.planning.feasibility.proposals import Choice
    from hexveil.planning.presence.presence_plan import PresencePlan


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
    def grid(self) -> Cells | Labels:
        """The declared grid."""
        return self.plan.facts.cells.grid

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
        return self.plan.prediction.relative_error

    @property
    def beats_constant(self) -> bool:
        """Whether the map is predicted to have something to say."""
        return self.plan.refusal is None

    @property
    def halved(self) -> bool:
        """Whether the error is below half of the baseline error."""
        return self.beats_constant and self.relative_error < 0.5

    def _errors(self) -> tuple[float, float]:
        of_map, counts = self.plan.prediction.map, self.plan.prediction.counts
        if of_map is not None:
            return of_map.error, of_map.baseline_error
        assert counts is not None  # noqa: S101  one of both is predicted
        return counts.count_error, counts.typical_count


Assessment: TypeAlias = GridAssessment | DeclaredAssessment
"""Of a grid for one value column, by privacy model."""


@dataclass(frozen=True, eq=False)
class CommonGrid:
    """A grid, assessed for each value column.

    Attributes
    ----------
    assessments : mapping of str to GridAssessment or DeclaredAssessment
        By column; of one grid and privacy unit.
    """

    assessments: Mapping[str, Assessment]

    @property
    def leading(self) -> Assessment:
        """Assessment for the first column."""
        return next(iter(self.assessments.values()))

    @property
    def cells(self) -> int:
        """Cells of the column with the fewest."""
        return min(offer.cells for offer in self.assessments.values())

    @property
    def is_usable(self) -> bool:
        """Whether it is a map, and better than one constant, for every column."""
        return self.cells >= MIN_CELLS and all(
            offer.beats_constant for offer in self.assessments.values()
        )

    @property
    def is_halved(self) -> bool:
        """Whether the error is below half of a constant's for every column."""
        return self.is_usable and all(offer.halved for offer in self.assessments.values())

    @property
    def ratio(self) -> float:
        """Largest predicted error over the columns, as a part of the baseline error."""
        return max(offer.relative_error for offer in self.assessments.values())


def common_grids(tables: Mapping[str, Capacity]) -> tuple[CommonGrid, ...]:
    """Return the grids that were assessed for every value column, in their order.

    Parameters
    ----------
    tables : mapping of str to Capacity
        By column, of the same grids.
    """
    return tuple(
        CommonGrid(dict(zip(tables, offers, strict=True)))
        for offers in zip(*(table.offers for table in tables.values()), strict=True)
    )


def choose_common_grids(grids: tuple[CommonGrid, ...]) -> dict[Choice, CommonGrid]:
    """Return the proposed grids by choice; none where no grid is usable for every column.

    "finest" has the most cells, "balanced" the most with an error below half of a constant's for
    every column (else it is the most accurate), "accurate" the least error for the column that it
    serves worst.
    """
    usable = [offer for offer in grids if offer.is_usable]
    if not usable:
        return {}
    # Of equals, as printed, the finer: a tie never leads to hexagons the size of a country.
    accurate = max(usable, key=lambda offer: (-float(f"{offer.ratio:.2g}"), *_fineness(offer)))
    halved = [offer for offer in usable if offer.is_halved]
    return {
        "finest": max(usable, key=_fineness),
        "balanced": max(halved, key=_fineness, default=accurate),
        "accurate": accurate,
    }


def _fineness(grid: CommonGrid) -> tuple[float, ...]:
    return (grid.cells, *fineness(grid.leading.grid))
