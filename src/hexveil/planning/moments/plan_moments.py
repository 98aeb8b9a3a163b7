"""Plan of means and variances: a checked request, allocated by its method."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.planning.feasibility.advice import GridTooFineWarning, brief_advice
from hexveil.planning.feasibility.utility_test import default_baseline_error
from hexveil.planning.guarantees.planning_problem import PlanningProblem
from hexveil.planning.methods import allocate
from hexveil.planning.moments.moment_options import MomentOptions
from hexveil.planning.moments.public_source import (
    HasPublicMetadata,
    bounds_of_cells,
    cell_names,
    public_side,
)
from hexveil.planning.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.base.rational import Number
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.public_metadata import PublicMetadata


def plan_moments(
    source: Occupancy | PublicMetadata | HasPublicMetadata,
    *,
    epsilon: Number | None = None,
    statistics: Sequence[str] | str | None = None,
    options: MomentOptions | None = None,
    edition: str | None = None,
    baseline_error: Number | None = None,
    advise: bool = False,
) -> Plan:
    """Return a plan of means and variances for all cells together; see `hexveil.plan`.

    Parameters
    ----------
    source, epsilon, statistics, edition, baseline_error, advise
        As `hexveil.plan` has them.
    options : MomentOptions, optional
        All other options.

    Raises
    ------
    InputError
        On a bad argument, named.
    """
    options = options or MomentOptions()
    occupancy, facts = public_side(source)
    if not occupancy.n_cells:
        raise InputError("there is no cell to plan.")
    lower, upper = bounds_of_cells(options.bounds, facts, occupancy)
    # Checked before planning: a bad argument must not cost minutes first.
    miss = default_baseline_error(lower, upper, baseline_error)
    names = cell_names(occupancy, facts)
    request = options.request(epsilon, statistics, edition, (upper - lower, names))
    result = Plan(
        occupancy=occupancy,
        lower=lower,
        upper=upper,
        allocation=allocate(PlanningProblem(occupancy, upper - lower, request, facts)),
        request=request,
        baseline_error=miss,
        facts=facts,
    )
    # Without a search: looking for grids takes longer than the plan.
    if advise and not result.support.beats_constant:
        warnings.warn(brief_advice(result), GridTooFineWarning, stacklevel=3)
    return result
