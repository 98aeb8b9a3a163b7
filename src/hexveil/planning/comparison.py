"""Other methods for the request of a plan of means and variances, with cost and errors of each.

Public facts only; nothing is spent. A method that cannot do what is asked says why. Mechanisms of
one cell are compared by `hexveil.evaluation.evaluate`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.work_share import parts_of_work
from hexveil.mechanisms import OptimalClipping
from hexveil.planning.methods import allocate
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.plan import Plan

COMPARING = "Comparing methods"
"""Name of this work, of which parts are told."""
METHODS = (
    ("joint", "mean"),
    ("joint", "max"),
    ("per-cell", "max"),
    ("clip-user", "max"),
    ("equal-split", "max"),
)
"""Methods and objectives that are compared."""
APART = ("per-cell", "equal-split")
"""Methods of which the request names the mechanism."""


@dataclass(frozen=True)
class ComparisonRow:
    """One way to answer a request.

    Attributes
    ----------
    name : str
        Of the method.
    is_planned : bool
        Whether it is that of the plan that is compared.
    figures : dict of str to number
        `epsilon` (what the most exposed unit loses), `claimed` (what has to be paid if cells are
        counted), `worst`, `average` and `median` (planning errors over cells, as the compared plan
        judges them), `better` (cells that say more than one constant), and of the certificate
        `certifies` ("loss", "max error" or "mean error"), `lower_bound` and `gap`.
    trouble : str or None
        Why there is no plan; figures are empty then.
    """

    name: str
    is_planned: bool = False
    figures: Mapping[str, Any] = field(default_factory=dict)
    trouble: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON data."""
        stated = {"name": self.name, "is_planned": self.is_planned, "trouble": self.trouble}
        return stated | dict(self.figures)


def compare(plan: Plan) -> list[ComparisonRow]:
    """Return every method for the request of a plan, with the cost and the errors of each.

    Public facts only; nothing is spent.

    Parameters
    ----------
    plan : Plan
        Of means and variances of one value column: of several, `plan.plans` has the plan of each.

    Raises
    ------
    InputError
        If it is no such plan.

    Examples
    --------
    >>> from hexveil import Occupancy, plan
    >>> hat = Occupancy.from_dense([[3]] * 50)
    >>> [row.name for row in compare(plan(hat, bounds=(0, 10), epsilon=2, advise=False))]
    ['joint, mean', 'joint, max', 'per-cell', 'clip-user', 'equal-split']
    """
    if not isinstance(plan, Plan):
        raise InputError(
            f"compare takes a plan, got {type(plan).__name__}; hv.compare_releases compares two "
            "releases."
        )
    if not plan.is_single:
        column = next(iter(plan.components))
        raise InputError(
            "compare takes the plan of one value column; name one, as in "
            f'hv.compare(plan.plans["{column}"]).'
        )
    if not plan.searches_grids:
        raise InputError(
            "compare takes plans of means and variances with public occupancy: how others are "
            "measured follows from the request."
        )
    rows, component = [], plan.single
    for name, changes in parts_of_work(COMPARING, list(_methods(component))):
        try:
            result = _changed(component, **changes) if changes else component
            rows.append(ComparisonRow(name, not changes, _figures(component, result)))
        except InputError as error:
            rows.append(ComparisonRow(name, trouble=str(error)))
    return rows


def _changed(plan: MomentComponent, **changes: Any) -> MomentComponent:  # noqa: ANN401  of a request
    """Return the component of the same request with some of its fields changed."""
    request = replace(plan.request, **changes)
    request.check()
    allocation = allocate(replace(plan.problem, request=request))
    return replace(plan, allocation=allocation, request=request)


def _methods(plan: MomentComponent) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Yield each method with the fields of the request that it changes, none for the plan itself.

    With targets, by the plan's own objective alone, so that each method appears once.

    A private interval goes with the plan's own method and objective alone: others are planned
    within the bounds.
    """
    request = plan.request
    candidates: dict[tuple[str, str], None] = dict.fromkeys(METHODS)
    if request.target is not None:
        candidates = dict.fromkeys((method, request.objective) for method, _ in METHODS)
    for method, objective in candidates:
        changes = {
            "method": method,
            "objective": objective,
            "mechanism": request.mechanism if method in APART else OptimalClipping(),
            "clipping_range": "bounds",
            "range_share": None,
        }
        is_planned = (method, objective) == (plan.method, request.objective)
        name = f"{method}, {objective}" if method == "joint" else method
        yield name, {} if is_planned else changes


def _figures(plan: MomentComponent, changed: MomentComponent) -> dict[str, Any]:
    """Return the figures of a changed request, judged as the compared plan is."""
    result = changed.with_lower_bound()
    errors = plan.problem.objective_errors(result.error_models)
    # What is certified of two statistics is of the row's objective, which adds them up otherwise.
    is_same = result.request.objective == plan.request.objective
    is_certified = is_same or len(result.error_models) == 1
    return {
        "epsilon": float(result.epsilon),
        "claimed": float(result.l0_epsilon),
        "worst": float(errors.max()),
        "average": float(errors.mean()),
        "median": float(np.median(errors)),
        "better": result.support.better,
        "certifies": result.bound_kind if is_certified else None,
        "lower_bound": result.lower_bound if is_certified else None,
        "gap": result.gap if is_certified else None,
    }
