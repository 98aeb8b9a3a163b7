"""Maps on which a mechanism of one cell publishes every cell: allocations, digests and errors.

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Sensitivity and loss: those of each cell's stages, added up over a user's cells
(mechanisms/per_cell_allocation.py). Everything here reads counts, bounds and the loss alone.

A stored plan has the mechanism, the loss of a cell, the choices by predicted errors, and a digest.
Stages are built anew from the counts for these choices, so that no stored number can make a release
cheaper than it is. All that is digested is whole numbers and quotients rounded by IEEE 754, alike
on every processor; the digest refuses the stages of another version.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from fractions import Fraction
from typing import Any

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import to_fraction
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms import per_cell_allocation
from hexveil.mechanisms.looks.bounds import CellMechanisms
from hexveil.mechanisms.per_cell_allocation import PlannedCells
from hexveil.mechanisms.single_cell import STUDY_SPAN, CellAllocation, CellMechanism, CellPlan
from hexveil.mechanisms.single_cell.auto import UNIFORM, compare_candidates
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.allocation import PlanAllocation, PlanningProblem, full_factors

PREDICTION_TRIALS = 256
"""Simulated data sets of each cell from which an error is predicted."""
FEWEST_TRIALS = 32
MAX_TRIALS = 25_600
"""Simulated data sets of all cells together, unless the fewest of each are more: what a map is
judged by is an average over its cells."""


ROUNDING_MARGIN = 1 - Fraction(1, 2**30)
"""Keeps a sum of losses rounded up within the ε that was divided."""


# ---- allocations ----


def allocate_per_cell(problem: PlanningProblem, epsilon: Fraction) -> PlanAllocation:
    """Return the allocation at the largest common loss of a cell found, within ε for each user."""
    if int(problem.occupancy.cells_per_user.max()) == 1:
        # Nobody is in two cells: a cell's loss is that of its most exposed user.
        return allocate_at(problem, epsilon)
    cells = per_cell_allocation.allocate_within(*_facts(problem), epsilon)
    return _allocation(problem, cells, predicted_errors(cells))


def allocate_at(problem: PlanningProblem, cell_epsilon: Fraction) -> PlanAllocation:
    """Return the allocation at nearly this loss of each cell."""
    cells = per_cell_allocation.allocate_at(*_facts(problem), cell_epsilon * ROUNDING_MARGIN)
    return _allocation(problem, cells, predicted_errors(cells))


class OtherStagesError(InputError):
    """Stages come out otherwise than when a plan was saved or booked."""


@dataclasses.dataclass(frozen=True, eq=False)
class SavedStages(ReadOnlyArrays):
    """Saved stages of all cells: their choices and a digest; the stages follow from the counts.

    Attributes
    ----------
    stages : str
        Their digest.
    choices : tuple of str
    predicted_error : ndarray of float, shape (n_cells,)
    """

    stages: str
    choices: tuple[str, ...]
    predicted_error: Floats

    @classmethod
    def of(cls, clipping: CellMechanisms) -> SavedStages:
        """Return choices and digest of stages."""
        cells = clipping.cells
        return cls(digest(cells), tuple(cells.choices), clipping.predicted_error)

    def restored(self, problem: PlanningProblem, allocation: PlanAllocation) -> PlanAllocation:
        """Return the allocation: its stages from the counts, its stored predictions.

        Raises
        ------
        InputError
            If the choices are not one for each cell, of those that the mechanism makes, or the
            stages are others than those that were saved.
        """
        cell_epsilon = allocation.cell_epsilon
        if len(self.choices) != problem.occupancy.n_cells:
            raise InputError("it does not have one choice of a mechanism for each cell.")
        if cell_epsilon is None or cell_epsilon <= 0:
            raise InputError("allocation.cell_epsilon must be above 0.")
        mechanism, occupancy, lattice = _facts(problem)
        cells = PlannedCells(occupancy, lattice, mechanism, cell_epsilon, self.choices)
        if digest(cells) != self.stages:
            raise OtherStagesError(
                "the stages of this plan come out otherwise in this version of hexveil than in "
                "that of the plan; release it with that version, or plan under another edition and "
                "pay again."
            )
        return _allocation(problem, cells, self.predicted_error)


def _facts(problem: PlanningProblem) -> tuple[CellMechanism, Occupancy, ValueLattice]:
    """Return the mechanism, and the map on the lattice of the records, or on that of a study.

    Raises
    ------
    InputError
        If the mechanism publishes no cell by itself, or there are other bounds than the records
        were read with.
    """
    mechanism, width = problem.request.mechanism, float(problem.span[0])
    if not isinstance(mechanism, CellMechanism):
        raise InputError(
            f"{mechanism.name} cannot publish a cell by itself; see docs/reference/python.md."
        )
    if problem.facts is None:
        upper = to_fraction(width, "the width of the bounds")
        return mechanism, problem.occupancy, ValueLattice(Fraction(0), upper, upper / STUDY_SPAN)
    lattice = problem.facts.lattice
    if float(lattice.span) != width:
        raise InputError(
            "a mechanism of one cell takes the bounds that the records were read with; leave "
            "bounds out of the plan, or read the records with others."
        )
    return mechanism, problem.occupancy, lattice


def _allocation(
    problem: PlanningProblem, cells: PlannedCells, predicted_error: Floats
) -> PlanAllocation:
    occupancy = problem.occupancy
    scales = cells.figures.scale
    nothing = np.zeros(occupancy.n_cells)
    return PlanAllocation(
        mechanism=problem.request.mechanism.name,
        # All records of a user are read; how much each counts is its stages' business.
        contribution_cap=np.where(scales > 0, occupancy.largest_count, 0),
        noise_scale_records=scales * occupancy.records_per_cell,
        variance_cap=nothing.astype(np.int64),
        variance_noise=nothing,
        contribution_factor=full_factors(occupancy),
        cell_epsilon=cells.cell_epsilon,
        clipping=CellMechanisms(cells, predicted_error),
    )


# ---- errors ----


def predicted_errors(cells: PlannedCells) -> Floats:
    """Return each cell's mean absolute error under the prior of `Auto`, for bounds of width 1."""
    trials = max(min(PREDICTION_TRIALS, MAX_TRIALS // len(cells.choices)), FEWEST_TRIALS)
    known: dict[tuple[bytes, str], float] = {}
    errors = []
    for plan, choice in zip(cells.plans, cells.choices, strict=True):
        # Small cells of a map have often the same counts: one simulation serves them all.
        key = plan.cell.counts.tobytes(), choice
        if key not in known:
            (prediction,) = compare_candidates([CellPlan(plan)], plan.cell, UNIFORM, trials)
            known[key] = prediction.mae / plan.cell.width
        errors.append(known[key])
    return np.array(errors)


# ---- digests ----


def digest(cells: PlannedCells) -> str:
    """Return the SHA-256 of all public numbers that decide draws, losses and estimates."""
    total = hashlib.sha256()
    for plan in cells.plans:
        total.update(json.dumps(_public_numbers(plan)).encode())
    return total.hexdigest()


def _public_numbers(value: Any) -> Any:  # noqa: ANN401  fields of any stage
    """Return a stage's fields as lists of texts, each with its kind, so that no two share them."""
    if isinstance(value, np.ndarray):
        return [value.dtype.kind, value.shape, value.tolist()]
    if isinstance(value, tuple):
        return [_public_numbers(item) for item in value]
    if not dataclasses.is_dataclass(value):
        # Fractions and doubles have exact texts.
        return [type(value).__name__, str(value)]
    skipped = value.figures if isinstance(value, CellAllocation) else ()
    names = (field.name for field in dataclasses.fields(value) if field.name not in skipped)
    return [type(value).__name__, {name: _public_numbers(getattr(value, name)) for name in names}]
