"""Plans of one request with some of its fields changed, and comparisons of them.

Predictions from public facts alone; nothing is spent. A plan never takes a δ by itself: it is
another promise. Ways to measure a distribution have a split of ε of their own each, between means
and the distribution, by their own predicted errors.

Comparison of mechanisms of one cell on one request: predicted and proven errors of each.

Public facts only; nothing is spent. Every cell is planned apart, at the largest common loss whose
exact loss is within ε for every user. Predictions assume that users' values are uniform over an
unknown range within the bounds: a choice by them costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hexveil.accounting.error_model import CellMechanismErrorModel
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.mechanisms import CellMechanism
from hexveil.mechanisms.per_cell_allocation import PerCell
from hexveil.mechanisms.single_cell.auto import PAPERS_MECHANISMS, Auto
from hexveil.model.statistic_terms import Share
from hexveil.planning import cell_mechanisms
from hexveil.planning.methods import allocate
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.planning.request import WORTHWHILE, usual_delta

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hexveil.base.arrays import Floats
    from hexveil.planning.component import PlanComponent
    from hexveil.planning.distribution.distribution_plan import DistributionComponent


ComponentT = TypeVar("ComponentT", bound="PlanComponent")

MOST_PAIRS = 200_000
"""Pairs up to which a second plan takes no more than some seconds."""


def alternative(part: ComponentT, **changes: Any) -> ComponentT:  # noqa: ANN401  fields of a request
    """Return the part of the same request with some of its fields changed.

    Raises
    ------
    InputError
        If what is then asked for cannot be planned.
    """
    return cast("ComponentT", ALTERNATIVES[part.kind](part, changes))


def _other_moments(part: MomentComponent, changes: Mapping[str, Any]) -> MomentComponent:
    request = replace(part.request, **changes)
    if request.delta:
        request.check_delta()
    allocation = allocate(replace(part.problem, request=request))
    return replace(part, allocation=allocation, request=request)


def _other_distribution(
    part: DistributionComponent, changes: Mapping[str, Any]
) -> DistributionComponent:
    from hexveil.planning.distribution.plan_distribution import (  # noqa: PLC0415  for these alone
        plan_distribution,
    )

    arguments: dict[str, Any] = {
        "statistics": part.statistics,
        "epsilon": part.requested_epsilon,
        "weights": part.weights if part.moments else None,
        "estimator": part.requested_estimator,
        "delta": part.delta or None,
        "baseline_error": part.baseline_error,
        "edition": part.edition,
    }
    return plan_distribution(part.facts, PlanArguments(**{**arguments, **changes}))


ALTERNATIVES: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "moments": _other_moments,
    "distributions": _other_distribution,
    "presence": lambda part, changes: part.with_changes(**changes),
}
"""How a part of each kind is planned with other fields of its request."""


def describe_delta_gain(plan: MomentComponent | DistributionComponent) -> str | None:
    """Return the gain of a δ in one sentence; None where a plan has or can have none, or is large.

    Of several means and variances, the first one's; of a distribution, a share's.
    """
    occupancy = plan.occupancy
    if plan.delta or not occupancy.is_local or occupancy.n_pairs > MOST_PAIRS:
        return None
    delta = usual_delta(occupancy.n_users)
    try:
        changed = alternative(plan, delta=delta) if plan.has_epsilon else None
    except InputError:
        return None  # what δ does not go with, or so small an ε that nothing could be measured
    if changed is None:
        return None
    (noun, error), (_, pure) = changed.judged_error, plan.judged_error
    return delta_sentence(
        decimal_text(delta), f"{error:.3g}", f"{pure:.3g}", error / pure,
        f" of the {noun}" if noun else "",
    )  # fmt: skip


def delta_sentence(delta: str, error: str, pure: str, ratio: float, of: str = "") -> str:
    """Return the gain of a δ in one sentence: predicted errors with it and without."""
    expected = f"{error} expected at {delta}, {pure} without"
    if ratio > 1.0:
        return f"errors{of} would be larger: {expected}."
    if ratio > WORTHWHILE:
        return f"none would gain much: {expected}."
    return (
        f"at {delta} an error{of} of {error} instead of {pure} is expected, for a weaker promise; "
        "it is taken only if you set delta."
    )


@dataclass(frozen=True)
class EstimatorErrors:
    """Predicted errors of a plan that measures the distribution in one way.

    Attributes
    ----------
    estimator : "indicator", "ranks" or "bins"
    is_chosen : bool
        Whether it is that of the plan compared.
    epsilon : float
        Loss of the most exposed unit.
    share_error : float
        Predicted error of a share of records, on average over cells.
    moment_errors : dict of str to float
        Predicted errors of means and variances, on average over cells.
    """

    estimator: str
    is_chosen: bool
    epsilon: float
    share_error: float
    moment_errors: dict[str, float] = field(default_factory=dict)


def compare_estimators(plan: DistributionComponent) -> tuple[EstimatorErrors, ...]:
    """Return the predicted errors of each way, the most accurate share first."""
    # A single share has a way of its own, which no option names.
    has_indicator = len(plan.terms) == 1 and isinstance(plan.terms[0], Share)
    rows = []
    for estimator in ("ranks", "bins", *(("auto",) if has_indicator else ())):
        candidate = alternative(plan, estimator=estimator)
        moment_errors = dict(candidate.expected_error)
        share_error, result = moment_errors.pop("share"), candidate.estimator
        is_chosen = result == plan.estimator
        rows.append(
            EstimatorErrors(result, is_chosen, float(candidate.epsilon), share_error, moment_errors)
        )
    return tuple(sorted(rows, key=lambda row: row.share_error))


MECHANISMS: tuple[CellMechanism, ...] = (*PAPERS_MECHANISMS, Auto())
"""Mechanisms that are compared."""
EACH_CELL_APART: dict[str, Any] = {
    "method": "per-cell",
    "objective": "max",
    "split": None,
    "clipping_range": "bounds",
    "range_share": None,
}
"""Fields of a request whose cells are planned each by itself."""
MAX_CELLS = 200
"""Cells up to which mechanisms are compared: each cell is simulated for each of them."""
MAX_SLOW_CELLS = 60
"""Cells beyond which one that predicts before it chooses would take minutes."""


@dataclass(frozen=True)
class MechanismRow:
    """One mechanism's plan in figures.

    Attributes
    ----------
    mechanism : str
    is_proven : bool or None
        Whether a worst-case error is proven, for all values; None where there is no plan.
    epsilon : float or None
        What the most exposed unit loses.
    cell_epsilon : float or None
        The common loss of every cell.
    gain : float or None
        The common loss over an equal share of ε, ε / (most cells of a user): what exact accounting
        wins.
    predicted_error : float or None
        Mean absolute error by the prior, average over cells, in value units.
    proven_error : float or None
        Worst-case bias plus expected |noise|, average over cells; None where none is proven.
    trouble : str or None
        Why there is no plan.
    """

    mechanism: str
    is_proven: bool | None = None
    epsilon: float | None = None
    cell_epsilon: float | None = None
    gain: float | None = None
    predicted_error: float | None = None
    proven_error: float | None = None
    trouble: str | None = None


def compare_mechanisms(plan: MomentComponent) -> list[MechanismRow]:
    """Return each mechanism on the request of a plan, the least predicted error first.

    None where `explain_absence` names a reason.
    """
    if explain_absence(plan):
        return []
    mechanisms, requested = MECHANISMS, plan.request.mechanism
    # With options of its own the requested one is none of the others.
    if isinstance(requested, CellMechanism) and requested not in MECHANISMS:
        mechanisms = (*MECHANISMS, requested)
    rows = [_row(plan, mechanism) for mechanism in mechanisms]
    return sorted(rows, key=_sort_key)


def explain_absence(plan: MomentComponent) -> str | None:
    """Return why mechanisms of one cell are not compared on a plan's request, or None."""
    is_pure = plan.request.target is None and not plan.delta
    if not is_pure or plan.request.noised != ("mean",):
        return "Mechanisms of one cell are compared for means within an epsilon only."
    if not plan.occupancy.is_local:
        return "Mechanisms of one cell are compared with all pairs in one machine's memory only."
    if plan.occupancy.n_cells > MAX_CELLS:
        return (
            f"Mechanisms of one cell are compared on at most {MAX_CELLS} cells; here are "
            f"{plan.occupancy.n_cells:,}. Compare them on a coarser grid."
        )
    return None


def _sort_key(row: MechanismRow) -> float:
    errors = (row.predicted_error, row.proven_error)
    return next((error for error in errors if error is not None), math.inf)


def _row(plan: MomentComponent, mechanism: CellMechanism) -> MechanismRow:
    n_cells = plan.occupancy.n_cells
    if isinstance(mechanism, Auto) and n_cells > MAX_SLOW_CELLS:
        return MechanismRow(
            mechanism.name,
            trouble=f"on {n_cells:,} cells its predictions take minutes; plan it by itself, with "
            f'the method "per-cell" and the mechanism "{mechanism.name}".',
        )
    try:
        return _figures(alternative(plan, mechanism=mechanism, **EACH_CELL_APART))
    except InputError as error:
        return MechanismRow(mechanism.name, trouble=str(error))


def _figures(plan: MomentComponent) -> MechanismRow:
    model, cell_epsilon = plan.error_models["mean"], plan.cell_epsilon
    assert cell_epsilon is not None  # noqa: S101  every cell is planned at one loss
    # Plans within the bounds state worst cases; those with stages of their own predictions.
    is_proven, worst_case = True, model.error
    if isinstance(model, CellMechanismErrorModel):
        is_proven, worst_case = bool(model.proven.all()), model.worst_case_error
    cells_of_user = int(plan.occupancy.cells_per_user.max())
    predicted = _predicted_errors(plan)
    return MechanismRow(
        plan.mechanism,
        is_proven=is_proven,
        epsilon=float(plan.epsilon),
        cell_epsilon=float(cell_epsilon),
        gain=float(cell_epsilon * cells_of_user / plan.requested_epsilon),
        predicted_error=None if predicted is None else float((plan.span * predicted).mean()),
        proven_error=float(worst_case.mean()) if is_proven else None,
    )


def _predicted_errors(plan: MomentComponent) -> Floats | None:
    """Return each cell's mean absolute error by the prior, for bounds of width 1.

    None where cells have bounds of their own.
    """
    predicted: Floats | None = plan.allocation.clipping.predictions()
    if predicted is not None:
        return predicted
    try:
        problem = cell_mechanisms.map_problem(plan.problem)
    except InputError:
        return None
    mechanism, cell_epsilon = plan.request.mechanism, plan.cell_epsilon
    # Baseline and OptimalClipping, planned by their fast path: the same cells, one by one.
    assert isinstance(mechanism, CellMechanism) and cell_epsilon is not None  # noqa: S101, PT018
    return cell_mechanisms.predicted_errors(PerCell(mechanism).allocate_at(problem, cell_epsilon))
