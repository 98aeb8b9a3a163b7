"""Values within the public bounds alone: clipped means and variances, or mechanisms of one cell.

Of a (cell, user) pair with m records f min(m, t) are kept; the rest is put at the middle of the
bounds. A release has one stage, in which every cell's mean and variance is noised (proofs:
`clipped_mean`, `clipped_variance`). A cell without noise publishes a constant and its values are
not read; without any noised cell there is no stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from hexveil.accounting.error_model import CellMechanismErrorModel, ErrorModel, constant_error
from hexveil.accounting.moves import PairMoves, StatisticMoves
from hexveil.accounting.noise_law import NoiseLaw
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms import looks
from hexveil.mechanisms.contract import DONE, NoisyTotals, Stage
from hexveil.mechanisms.looks import clipped_mean
from hexveil.mechanisms.looks.clipped_mean import CELLS, GRAIN, ClippedMean
from hexveil.mechanisms.looks.clipped_variance import ClippedVariance, variance_moves
from hexveil.mechanisms.per_cell_allocation import PlannedCells
from hexveil.mechanisms.sensitivity_report import MappedMoves
from hexveil.mechanisms.stage_data import Decoded, EstimateGrid, Outputs, PrivateSums
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.allocation import MAX_ERROR, PlanAllocation, PlanningProblem, refuse_rows
from hexveil.planning.request import Request


@dataclass(frozen=True, eq=False)
class BoundedStages(looks.ReleaseAllocation):
    """The one stage of clipped means and variances.

    Attributes
    ----------
    statistics : tuple of ClippedMean or ClippedVariance
    report : MappedMoves
        How far each user can move their integers.
    law : NoiseLaw
    booked : ndarray of float, shape (n_users,)
    """

    statistics: tuple[ClippedMean | ClippedVariance, ...]
    report: MappedMoves
    law: NoiseLaw
    booked: Floats

    @cached_property
    def stage(self) -> NoisyTotals:
        """Integers of all noised cells, one statistic after the other, in one draw."""
        noised = [item for item in self.statistics if item.noised_cells.size]
        scales = np.concatenate([item.scales for item in self.statistics])

        def total(sums: PrivateSums) -> Ints:
            return np.concatenate([statistic.measure(sums) for statistic in noised], axis=1)

        return NoisyTotals(CELLS, scales.size, self.law, self.report, total, scales=scales)

    def next_stage(self, earlier: Outputs) -> NoisyTotals | None:
        """Return the only stage, and none if no cell is noised."""
        # Where every cell is a constant there is nothing to draw, and no value is read.
        return DONE if len(earlier) or not self.stage.entries else self.stage

    def check_release(self, epsilon: float, *, has_squares: bool) -> None:
        """Refuse variances without sums of squares, or that leave 64 bits."""
        for statistic in self.statistics:
            statistic.check(epsilon, has_squares=has_squares)

    def grids(self, models: Mapping[str, ErrorModel]) -> dict[str, EstimateGrid]:  # noqa: ARG002
        """Return where published numbers can lie, by statistic."""
        return {statistic.name: statistic.grid() for statistic in self.statistics}

    def numbers(self, outputs: Outputs) -> dict[str, Ints]:
        """Return each statistic's integer of every cell: noisy, or constant."""
        sizes = [statistic.noised_cells.size for statistic in self.statistics]
        row = outputs[CELLS][0] if CELLS in outputs else np.zeros(0, dtype=np.int64)
        numbers = {}
        columns = np.split(row, np.cumsum(sizes)[:-1])
        for statistic, noisy in zip(self.statistics, columns, strict=True):
            filled = statistic.constants.copy()
            filled[statistic.noised_cells] = noisy
            numbers[statistic.name] = filled
        return numbers

    def decode(self, outputs: Outputs) -> tuple[Decoded, ...]:
        """Return the published statistics."""
        numbers = self.numbers(outputs)
        return tuple(
            Decoded(item.name, item.estimates(numbers[item.name])[None], item.grid(), item.error)
            for item in self.statistics
        )


@dataclass(frozen=True)
class WithinBounds(looks.ClippingKind):
    """Values are clipped to the public bounds alone."""

    mode: ClassVar[Literal["bounds"]] = "bounds"
    basis: ClassVar[str] = "worst case"

    def mean_error(self, problem: PlanningProblem, rows: PlanAllocation) -> ErrorModel:
        """Return the error model of the means."""
        return _error_model("mean", problem.span, rows.mean_noise(problem), problem, rows)

    def variance_error(self, problem: PlanningProblem, rows: PlanAllocation) -> ErrorModel:
        """Return the error model of the variances."""
        return _error_model("variance", problem.span**2, rows.variance_noise, problem, rows)

    def losses(self, problem: PlanningProblem, rows: PlanAllocation) -> looks.StatedLosses:
        """Return the losses of the plan."""
        statistics = []
        if "mean" in problem.request.noised:
            statistics.append(_mean_moves(problem, rows))
        if "variance" in problem.request.noised:
            records, kept = problem.occupancy.records_per_cell, rows.kept(problem, "variance")
            whole = rows.clipped_share(problem, "variance") == 0.0
            statistics.append(variance_moves(records, kept, rows.variance_noise, whole))
        moves = PairMoves(problem.occupancy, tuple(statistics))
        return looks.StatedLosses(moves, self.shared(problem.request.delta), rows.cell_epsilon)

    def stages(self, plan: looks.Planned, scale: ValueLattice) -> BoundedStages:
        """Return the one stage of the plan on the lattice of the records."""
        _check_rows(plan)
        lattice, rows, models = looks.lattice_of(plan, scale), plan.allocation, plan.error_models
        statistics: list[ClippedMean | ClippedVariance] = []
        # Numbers that leave 64 bits would wrap around silently: see `check_release`.
        if "mean" in models:
            # In lattice steps and rounded up: the scale that is drawn is the scale that is booked.
            fine = lattice.refined(plan.request.law)
            noise = clipped_mean.laplace_scales(fine.width, rows.noise_scale_records)
            kept = rows.kept(plan.problem, "mean")
            given = plan.problem.occupancy, fine, noise, kept, models["mean"]
            statistics.append(ClippedMean(*given))
        if "variance" in models:
            kept, error = rows.kept(plan.problem, "variance"), models["variance"]
            given = plan.problem.occupancy, lattice, rows.variance_noise, kept, error
            statistics.append(ClippedVariance(*given, np.equal(error.clipped_share, 0.0)))
        # The meter adds the losses up again from the integers of these very statistics.
        moves = tuple(statistic.moves for statistic in statistics)
        report = MappedMoves(PairMoves(plan.problem.occupancy, moves))
        return BoundedStages(tuple(statistics), report, plan.request.law, plan.booked_losses)


def _error_model(
    name: str, unit: Floats, noise: Floats, problem: PlanningProblem, rows: PlanAllocation
) -> ErrorModel:
    share, constant = rows.clipped_share(problem, name), constant_error(name, problem.occupancy)
    return ErrorModel(name, unit, noise, share, constant, law=problem.request.law)


def _mean_moves(problem: PlanningProblem, rows: PlanAllocation) -> StatisticMoves:
    """Return how far each pair moves its cell's mean."""
    kept, noise = rows.kept(problem, "mean"), rows.noise_scale_records
    if problem.facts is None:
        return clipped_mean.unrounded_mean_moves(kept, noise)
    width = max(int(kept.span_quanta[0]), 1)
    width *= clipped_mean.parts_of_quantum(width, problem.request.law)
    return clipped_mean.mean_moves(width, kept, clipped_mean.laplace_scales(width, noise))


def _check_rows(plan: looks.Planned) -> None:
    """Refuse rows under which the loss that the plan states would not hold."""
    noise, caps = plan.allocation.noise_scale_records, plan.allocation.contribution_cap
    # A stranger may have built the plan: its stated loss holds only if its arrays are sane.
    if not (np.isfinite(noise) & np.where(caps > 0, noise > 0, noise >= 0)).all():
        raise InputError("the plan has a cell that keeps records without noise; plan again.")
    if (caps < 0).any() or (plan.allocation.variance_cap < 0).any():
        raise InputError("the plan has a cell that keeps fewer than no records; plan again.")
    # Exact in doubles, so that kept records are exact integers in units of 2^-30.
    parts = plan.allocation.contribution_factor * GRAIN
    if not ((parts >= 0) & (parts <= GRAIN) & (parts == np.floor(parts))).all():
        raise InputError(
            "the plan has a factor that is not a multiple of 2^-30 from 0 to 1; plan again."
        )


# ---- mechanisms of one cell ----


@dataclass(frozen=True, eq=False)
class CellMechanisms(looks.ClippingKind):
    """Every cell's mean is published by a mechanism of one cell, in stages of its own.

    Attributes
    ----------
    cells : PlannedCells
        Stages of all cells, built from counts, bounds and the loss of a cell; never stored.
    predicted_error : ndarray of float, shape (n_cells,)
        Mean absolute error by a public prior, for bounds of width 1.
    """

    cells: PlannedCells
    predicted_error: Floats
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

    def losses(self, problem: PlanningProblem, rows: PlanAllocation) -> PlannedCells:  # noqa: ARG002
        """Return the losses of the stages of all cells."""
        return self.cells

    def stages(self, plan: looks.Planned, scale: ValueLattice) -> CellStages:
        """Return the stages of all cells; refuse those of other records or bounds."""
        cells = self.cells
        if (
            cells.occupancy.fingerprint != plan.problem.occupancy.fingerprint
            or cells.lattice != scale
            or (plan.lower != float(scale.lower)).any()
            or (plan.upper != float(scale.upper)).any()
        ):
            raise InputError(
                "the stages of the plan are those of other records or bounds; plan these records "
                "again."
            )
        return CellStages(cells, plan.error_models["mean"], plan.booked_losses)

    def steps(self, plan: looks.Planned, total: Fraction) -> list[looks.PrivateStep]:
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
        return [looks.PrivateStep("cell_stages", total, mechanism | stated)]

    def names(self) -> list[str]:
        """Return the name of each cell's mechanism; of `Auto`, that of the one it selected."""
        return [choice or self.cells.mechanism.name for choice in self.cells.choices]


@dataclass(frozen=True, eq=False)
class CellStages(looks.ReleaseAllocation):
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
        grid = EstimateGrid(self._in_units(start), step * float(self.cells.lattice.quantum))
        return {"mean": grid}

    def decode(self, outputs: Outputs) -> tuple[Decoded, ...]:
        """Return the mean of every cell."""
        estimates = self._in_units(self.cells.estimates(outputs))
        return (Decoded("mean", estimates, self.grids({})["mean"], self.error),)

    def _in_units(self, quanta: Floats) -> Floats:
        lattice = self.cells.lattice
        return np.asarray(float(lattice.lower) + quanta * float(lattice.quantum))
