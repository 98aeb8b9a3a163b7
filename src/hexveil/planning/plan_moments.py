"""Plan of means and variances: a checked request, allocated by its method.

Public side of a source: its occupancy, its metadata and the bounds of its cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hexveil.base.errors import InputError
from hexveil.base.rational import to_bounds
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.feasibility.utility_test import default_baseline_error
from hexveil.planning.methods import allocate
from hexveil.planning.moment_part import MomentPart
from hexveil.planning.part import HasFacts
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.planning.plan_rows import PlanningProblem


def plan_moments(
    source: Occupancy | PublicMetadata | HasPublicMetadata, options: PlanArguments
) -> MomentPart:
    """Return a plan of means and variances for all cells together; see `hexveil.plan`.

    Raises
    ------
    InputError
        On a bad option, named.
    """
    occupancy, facts = public_side(source)
    if not occupancy.n_cells:
        raise InputError("there is no cell to plan.")
    lower, upper = bounds_of_cells(options.bounds, facts, occupancy)
    # Checked before planning: a bad argument must not cost minutes first.
    miss = default_baseline_error(lower, upper, options.baseline_error)  # type: ignore[arg-type]
    request = options.request((upper - lower, cell_names(occupancy, facts)))
    problem = PlanningProblem(occupancy, upper - lower, request, facts)
    if options.history is not None:
        problem = problem.with_forecast(options.history)
    return MomentPart(
        occupancy=occupancy,
        lower=lower,
        upper=upper,
        allocation=allocate(problem),
        request=problem.request,
        baseline_error=miss,
        facts=facts,
    )


HasPublicMetadata: TypeAlias = HasFacts[PublicMetadata]


def public_side(
    source: Occupancy | PublicMetadata | HasPublicMetadata,
) -> tuple[Occupancy, PublicMetadata | None]:
    """Return the occupancy of a source, and its public metadata if it has more to tell."""
    facts = getattr(source, "public", source)
    if isinstance(facts, PublicMetadata):
        return facts.occupancy, facts
    if not isinstance(source, Occupancy):
        raise InputError(
            f"a plan is made for a data set or an occupancy, got {type(source).__name__}."
        )
    return source, None


def cell_names(occupancy: Occupancy, facts: PublicMetadata | None) -> tuple[str, ...]:
    """Return a name per cell: its number, where a bare occupancy has no names."""
    if facts is not None:
        return facts.cells.names()
    return tuple(str(i) for i in range(occupancy.n_cells))


def bounds_of_cells(
    bounds: object, facts: PublicMetadata | None, occupancy: Occupancy
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper bound of each cell."""
    if bounds is None:
        if facts is None:
            raise InputError("bounds are needed to plan a bare occupancy, like bounds=(0, 65).")
        pairs = [(facts.lattice.lower, facts.lattice.upper)]
    elif isinstance(bounds, Mapping):
        pairs = [to_bounds(_of_cell(bounds, name), f"bounds of {name}") for name in _names(facts)]
    else:
        pairs = [to_bounds(bounds)]
    if facts is not None:
        _check_inside(pairs, facts)
    ends = np.array([[float(low), float(high)] for low, high in pairs], dtype=np.float64)
    full = np.broadcast_to(ends, (occupancy.n_cells, 2))
    return full[:, 0].copy(), full[:, 1].copy()


def _names(facts: PublicMetadata | None) -> tuple[str, ...]:
    if facts is None:
        raise InputError("bounds by cell need a data set whose cells have names.")
    return facts.cells.names()


def _of_cell(bounds: Mapping[str, object], name: str) -> object:
    if name not in bounds:
        raise InputError(f"bounds by cell leave out the cell {name}; give a pair for each.")
    return bounds[name]


def _check_inside(pairs: list[tuple[Fraction, Fraction]], facts: PublicMetadata) -> None:
    for low, high in pairs:
        facts.lattice.to_quanta(low, "lower bound")
        facts.lattice.to_quanta(high, "upper bound")
