"""Advice for a grid that is too fine: a larger ε, or the finest grid that is not.

**One grid for several value columns** is chosen among those that each column supports. Columns
share the cells of a release. Each is judged at its own part of ε, and a grid is as good as it is
for the column that it serves worst. Under private presence a grid is judged on paper, from
declarations alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from hexveil.accounting.gaussian_composition import calibrated_square, square_epsilon
from hexveil.base.work_share import COUNTING, SEARCH, share_of_work
from hexveil.model.cells import Cells, Labels
from hexveil.model.declared_grid import ColumnFacts
from hexveil.model.public_metadata import PublicMetadata, many_repeats
from hexveil.planning.feasibility.grid_assessment import (
    Choice,
    GridAssessment,
    assess,
    fineness,
    order_by_cells,
)
from hexveil.planning.feasibility.grids import MIN_CELLS, grids_to_try, most_cells_of, on_each_grid
from hexveil.planning.feasibility.prediction import (
    UNDER,
    ErrorPredictor,
    epsilon_for_error,
    predict_in_full,
    prediction_of,
    scaled_epsilon,
)
from hexveil.planning.least_loss import LARGEST, two_figures_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.planning.plan_data import MomentFigures
    from hexveil.planning.presence.presence_plan import PresencePart


USABLE_GRID = "Looking for a usable grid"
"""Name of this work, of which parts are told."""


class GridTooFineWarning(UserWarning):
    """The map would say no more than one constant for all cells."""


def describe_repeats(facts: PublicMetadata | ColumnFacts) -> str | None:
    """Return how many records are left out as repeats, with the way out; None if few are."""
    columns = facts.columns.values() if isinstance(facts, ColumnFacts) else (facts,)
    counts = next(
        (many for column_facts in columns if (many := many_repeats(column_facts.rules))), None
    )
    if counts is None:
        return None
    repeats, records = counts
    return (
        f"{repeats:,} of {records:,} records ({repeats / records:.0%}) have the user and time of "
        "another and are left out: one place of each group counts, with its average. If the times "
        'are coarser than the reports, count all: repeats = "keep" (in [read], or --set '
        "read.repeats=keep)."
    )


def brief_advice(plan: MomentFigures) -> str:
    """Return advice without other grids: records are not counted again."""
    sentence = _text(plan, epsilon_needed(plan), None)
    if plan.facts is None or plan.facts.recount is None:
        return sentence
    return f"{sentence} hv.capacity or hexveil inspect finds grids that this fleet supports."


def advice(plan: MomentFigures) -> str:
    """Return advice for a plan with too fine a grid; for distributed pairs without a search."""
    if not plan.occupancy.is_local or plan.delta:
        return _text(plan, epsilon_needed(plan), None)
    with share_of_work(USABLE_GRID, 0.0, 0.5, SEARCH):
        needed = epsilon_needed(plan)
    with share_of_work(USABLE_GRID, 0.5, 1.0, SEARCH, COUNTING):
        coarser = finest_useful(plan)
    return _text(plan, needed, coarser)


def epsilon_needed(plan: MomentFigures) -> float | None:
    """Return the loss, rounded up to two figures, at which the map says more than one constant.

    What plans, releases, tables of grids and their warnings name for this grid. None if 100 is not
    enough.
    """
    miss, requested = plan.support.baseline_error, plan.requested_epsilon or Fraction(1)
    if not plan.occupancy.is_local or plan.delta:
        # Of distributed pairs each plan tried would be a search of its own, and under a δ too: the
        # plan's own noise, scaled, is enough.
        scaled = scaled_epsilon(prediction_of(plan), requested, miss * UNDER)
        if plan.delta and math.isfinite(scaled):
            # It falls with the root of the square of μ, which is not in proportion to ε.
            times = Fraction(scaled) / requested
            square = calibrated_square(requested, plan.delta) * times**2
            scaled = square_epsilon(square, plan.delta)
        return two_figures_up(scaled) if scaled <= LARGEST else None
    if plan.facts is not None:
        predictor = ErrorPredictor(plan, plan.facts)
        if predictor.is_fast and plan.request.clipping_range != "bounds":
            # A plan under an interval takes too long to make a dozen of them.
            return predictor.epsilon_needed(miss)
    return epsilon_for_error(
        lambda loss: predict_in_full(plan.problem.within(loss)), miss * UNDER, requested
    )


def finest_useful(plan: MomentFigures) -> GridAssessment | None:
    """Return the coarser grid of most cells that says more than one constant."""
    facts = plan.facts
    if facts is None or facts.recount is None or not isinstance(facts.cells.grid, Cells):
        return None

    def assessed(_: object, counts: PublicMetadata | None) -> GridAssessment | None:
        # The same number of cells would be the same map by another name, or a finer one.
        is_coarser = counts is not None and counts.occupancy.n_cells < facts.occupancy.n_cells
        return assess(plan, counts) if counts is not None and is_coarser else None

    grids = grids_to_try(facts, most_cells=most_cells_of(plan))
    offers = on_each_grid(
        facts, grids, facts.privacy_unit, assessed, every=False, activity=USABLE_GRID
    )
    usable = (item for item in offers if item is not None and item.is_map and item.beats_constant)
    return max(usable, key=order_by_cells, default=None)


def _text(plan: MomentFigures, needed: float | None, coarser: GridAssessment | None) -> str:
    cells = plan.support.cells
    sentence = (
        "this grid is too fine for this fleet: its expected error is "
        f"{plan.support.mean_error:.3g} on average, and the assumed error of one number for all "
        f"{cells:,} cells is {plan.support.baseline_error:.3g}"
    )
    options = []
    if coarser is not None:
        options.append(f"{coarser.description} ({coarser.cells:,} cells), the finest usable grid")
    if needed is not None:
        options.append(f"this grid with epsilon {needed:g}")
    return sentence + ("; use " + ", or ".join(options) if options else "") + "."


# ---- one grid for several value columns ----


@dataclass(frozen=True, eq=False)
class DeclaredAssessment:
    """Assessment of a declared grid for one value column.

    Attributes
    ----------
    plan : PresencePart
        Of this grid, at the column's part of ε.
    """

    plan: PresencePart

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
        return self.plan.expected[0]

    @property
    def baseline_error(self) -> float:
        """Baseline error: of one constant, or a typical number of units."""
        return self.plan.expected[1]

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

    @classmethod
    def declared(cls, plans: Mapping[str, Any]) -> CommonGrid:
        """Return the assessment of a declared grid for each value column."""
        return cls({column: DeclaredAssessment(own_entry) for column, own_entry in plans.items()})

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


def common_grids(tables: Mapping[str, Any]) -> tuple[CommonGrid, ...]:
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
