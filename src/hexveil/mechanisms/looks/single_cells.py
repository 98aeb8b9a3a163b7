"""Every cell's mean by a mechanism of one cell: one of the papers, in stages of its own.

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Sensitivity and loss: those of each cell's stages, added up over a user's cells
(mechanisms/per_cell_allocation.py); what a stage does, and its proof: mechanisms/single_cell/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from hexveil.accounting.error_model import CellMechanismErrorModel, ErrorModel, constant_error
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import Stage
from hexveil.mechanisms.looks.kinds import ClippingKind, Planned, PrivateStep, ReleaseAllocation
from hexveil.mechanisms.per_cell_allocation import PlannedCells
from hexveil.mechanisms.single_cell.cell_allocation import ReleasedRange
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
from hexveil.mechanisms.single_cell.clipped_user_sums import ThresholdMechanism
from hexveil.mechanisms.stage_data import Decoded, EstimateGrid, Outputs
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.allocation import MAX_ERROR, PlanAllocation, PlanningProblem, refuse_rows
from hexveil.planning.request import Request


@dataclass(frozen=True, eq=False)
class CellMechanisms(ClippingKind):
    """Every cell's mean is published by a mechanism of one cell, in stages of its own.

    Attributes
    ----------
    cells : PlannedCells
        Stages of all cells, built from counts, bounds and the loss of a cell; never stored.
    predicted_error : ndarray of float, shape (n_cells,)
        Mean absolute error by a public prior, for bounds of width 1.
    released : tuple of ReleasedRange or None
        Outcomes of each cell's private choices, in value units; empty before a release.
    """

    cells: PlannedCells
    predicted_error: Floats
    released: tuple[ReleasedRange | None, ...] = ()
    mode: ClassVar[Literal["bounds"]] = "bounds"
    has_stages: ClassVar[bool] = True

    def fits(self, occupancy: Occupancy) -> bool:
        """Return whether its predictions are those of these cells."""
        return self.predicted_error.size == occupancy.n_cells

    def check_plan(self, rows: PlanAllocation, occupancy: Occupancy, request: Request) -> None:  # noqa: ARG002
        """Refuse predictions, or statistics, that no such plan has."""
        predicted = self.predicted_error
        sane = (predicted >= 0) & (predicted < MAX_ERROR)
        refuse_rows(~sane, "a predicted error is none that a plan has")
        if request.noised != ("mean",):
            raise InputError("it has a cell without noise for its variance.")

    def mean_error(self, problem: PlanningProblem, rows: PlanAllocation) -> ErrorModel:  # noqa: ARG002
        """Return the error model of the cells' means."""
        figures = self.cells.figures
        return CellMechanismErrorModel(
            "mean",
            problem.span,
            figures.scale,
            np.zeros(figures.scale.size),
            constant_error("mean", problem.occupancy),
            reads_values=figures.n_stages > 0,
            proven=figures.proven,
            max_bias=figures.bias,
            predicted_error=self.predicted_error,
            error_bound95=figures.bound95,
        )

    def variance_error(self, problem: PlanningProblem, rows: PlanAllocation) -> ErrorModel:  # noqa: ARG002
        """Refuse variances."""
        raise InputError("mechanisms of single cells publish the mean alone.")

    def losses(
        self,
        problem: PlanningProblem,  # noqa: ARG002  as of other kinds
        rows: PlanAllocation,  # noqa: ARG002
        variance: ErrorModel | None = None,  # noqa: ARG002
    ) -> CellLosses:
        """Return the losses of the stages of all cells."""
        return CellLosses(self.cells)

    def stages(self, plan: Planned, scale: ValueLattice) -> CellStages:
        """Return the stages of all cells; refuse those of other records or bounds."""
        planned = self.cells.problem
        lattice = planned.lower, planned.quantum, planned.span
        if (
            planned.occupancy.fingerprint != plan.problem.occupancy.fingerprint
            or lattice != (scale.lower, scale.quantum, scale.span_quanta)
            or (plan.lower != float(scale.lower)).any()
            or (plan.upper != float(scale.upper)).any()
        ):
            raise InputError(
                "the stages of the plan are those of other records or bounds; plan these records "
                "again."
            )
        return CellStages(self.cells, plan.error_models["mean"], plan.booked_losses)

    def with_outputs(self, stages: Any, outputs: Outputs) -> CellMechanisms:  # noqa: ANN401  its own
        """Return the same with the ranges that cells chose."""
        return replace(self, released=stages.released_ranges(outputs))

    def steps(self, plan: Planned, total: Fraction) -> list[PrivateStep]:
        """Return the mechanism, the loss of a cell, and each kind of stage with its cost.

        The cost of a stage is that of the user whom it costs most over all cells, so that costs of
        stages need not add up to the cost of the release.
        """
        stages = [
            {"stage": name, "cells": n_cells, "epsilon": Fraction(largest)}
            for name, (n_cells, largest) in self.cells.stage_costs().items()
        ]
        stated = {"cell_epsilon": self.cells.cell_epsilon, "stages": stages}
        mechanism = {"mechanism": plan.request.mechanism.name}
        return [PrivateStep("cell_stages", total, mechanism | stated)]

    def cell_entries(self, plan: Planned) -> dict[str, list[Any]]:  # noqa: ARG002
        """Return the released choices of each cell's mechanism, in value units."""
        if not any(self.released):
            return {}
        stated = [None if one is None else asdict(one) for one in self.released]
        return {"released_range": stated}

    def names(self, mechanism: ThresholdMechanism | CellMechanism) -> list[str]:
        """Return the name of each cell's mechanism; of `Auto`, that of the one it selected."""
        assert isinstance(mechanism, CellMechanism)  # noqa: S101  checked with the plan
        return self.cells.names(mechanism)

    def predictions(self) -> Floats:
        """Return each cell's error by the prior."""
        return self.predicted_error


@dataclass(frozen=True, eq=False)
class CellLosses:
    """Losses of stages of single cells."""

    cells: PlannedCells

    def per_user(self) -> Floats:
        """Return each user's loss over all its cells, rounded up."""
        return self.cells.losses()

    def per_pair(self) -> Floats:
        """Return the loss of each pair at hand."""
        return np.concatenate([plan.losses() for plan in self.cells.plans])

    def counted(self) -> float:
        """Return the loss that counting cells claims."""
        return float(self.cells.claimed_losses().max(initial=0.0))


# ---- stages ----


@dataclass(frozen=True, eq=False)
class CellStages(ReleaseAllocation):
    """The cells of a map as a release runs them, with estimates in value units.

    The error model is that of the means, in value units.
    """

    cells: PlannedCells
    error: ErrorModel
    booked: Floats

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the next stage of the map."""
        return self.cells.next_stage(earlier)

    def grids(self, models: Mapping[str, ErrorModel]) -> dict[str, EstimateGrid]:  # noqa: ARG002
        """Return where published means can lie, in value units; no number where on a curve."""
        start, step = self.cells.figures.grid_start, self.cells.figures.grid_step
        grid = EstimateGrid(self._in_units(start), step * float(self.cells.problem.quantum))
        return {"mean": grid}

    def released_ranges(self, outputs: Outputs) -> tuple[ReleasedRange | None, ...]:
        """Return the released choices of each cell, in value units."""
        return tuple(map(self._range_in_units, self.cells.released_ranges(outputs)))

    def _range_in_units(self, released: ReleasedRange | None) -> ReleasedRange | None:
        if released is None:
            return None
        quantum = float(self.cells.problem.quantum)
        # Sums count from the lower bound of each value, means do not.
        lowest = 0.0 if released.quantity == "user sums" else float(self.cells.problem.lower)
        lower, upper = (lowest + quantum * end for end in (released.lower, released.upper))
        return ReleasedRange(released.quantity, lower, upper, quantum * released.scale)

    def decode(self, outputs: Outputs) -> tuple[Decoded, ...]:
        """Return the mean of every cell."""
        estimates = self._in_units(self.cells.estimates(outputs))
        return (Decoded("mean", estimates, self.grids({})["mean"], self.error),)

    def _in_units(self, quanta: Floats) -> Floats:
        problem = self.cells.problem
        return np.asarray(float(problem.lower) + quanta * float(problem.quantum))
