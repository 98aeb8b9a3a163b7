"""Other ways to answer the request of a plan, with the cost and the errors of each.

Methods, clipping ranges and mechanisms of one cell for means and variances; ways to measure a
distribution. One loop: the same request with some of its fields changed, and figures of what is
then planned. Public facts only; nothing is spent. A way that cannot do what is asked says why.

Mechanisms of one cell plan every cell apart, at the largest common loss whose exact loss is within
ε for every user. Their predictions assume that users' values are uniform over an unknown range
within the bounds: a choice by them costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.error_model import CellMechanismErrorModel
from hexveil.base.errors import InputError
from hexveil.base.work_share import parts_of_work, share_of_work
from hexveil.mechanisms import CellMechanism, OptimalClipping
from hexveil.mechanisms.per_cell_allocation import PerCell
from hexveil.mechanisms.single_cell.auto import PAPERS_MECHANISMS, Auto
from hexveil.model.statistic_terms import Share
from hexveil.planning import methods
from hexveil.planning.distribution_component import DistributionComponent
from hexveil.planning.optimizers import cell_mechanisms
from hexveil.planning.plan import Plan
from hexveil.planning.presence.presence_plan import PresenceComponent

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.planning.component import PlanComponent
    from hexveil.planning.moment_component import MomentComponent

    Ways = Iterable[tuple[str, Mapping[str, Any]]]
    """Names, and the fields of the request that each changes; none for the plan itself."""

COMPARING = "Comparing methods and mechanisms"
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
RANGES = ("bounds", "private", "per-cell")
"""Clipping ranges that are compared."""
MECHANISMS: tuple[CellMechanism, ...] = (*PAPERS_MECHANISMS, Auto())
EACH_CELL_APART: dict[str, Any] = {
    "method": "per-cell",
    "objective": "max",
    "split": None,
    "clipping_range": "bounds",
    "range_share": None,
}
"""Fields of a request whose cells are planned each by itself."""
MAX_CELLS, MAX_SLOW_CELLS = 200, 60
"""Cells up to which mechanisms are compared, as each cell is simulated for each of them; and beyond
which one that predicts before it chooses would take minutes."""


ALTERNATIVES: dict[str, Callable[..., Any]] = {
    "moments": methods.alternative,
    "distributions": DistributionComponent.alternative,
    "presence": PresenceComponent.alternative,
}
"""How a component of each kind is planned with other fields of its request."""


def alternative(component: PlanComponent, **changes: Any) -> Any:  # noqa: ANN401  fields; of its kind
    """Return the component of the same request with some of its fields changed.

    Raises
    ------
    InputError
        If what is then asked for cannot be planned.
    """
    return ALTERNATIVES[component.kind](component, **changes)


@dataclass(frozen=True)
class ComparisonRow:
    """One way to answer a request.

    Attributes
    ----------
    name : str
        Method (of the joint one with its objective), clipping range, mechanism or estimator.
    is_planned : bool
        Whether it is that of the plan that is compared.
    figures : dict of str to number, text or None
        Of all: `epsilon`, what the most exposed unit loses. Of methods and ranges `claimed` (what
        has to be paid if cells are counted), `worst`, `average` and `median` (planning errors over
        cells, as the objective of the compared plan judges them), `better` (cells that say more
        than one constant), and of the certificate `certifies` ("loss", "max error" or "mean
        error"), `lower_bound` and `gap`. Of mechanisms `predicted_error`, `proven_error` (a worst
        case, averages over cells; None where none is proven), `cell_epsilon` (the common loss of
        every cell) and `gain` (that over ε / most cells of a user: what exact accounting wins). Of
        estimators the average error of a `share`, and of means and variances by their names.
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


@dataclass(frozen=True)
class Comparison:
    """Other ways to answer one request.

    Attributes
    ----------
    methods : list of ComparisonRow
        How cells are planned together.
    clipping_ranges : list of ComparisonRow
        What values are clipped to, by the plan's own method; errors under a private range are
        predictions. Empty for a request that no private range goes with.
    mechanisms : list of ComparisonRow
        How one cell is planned, each cell apart; the least predicted error first.
    estimators : list of ComparisonRow
        How a distribution is measured, the most accurate share first.
    no_mechanisms : str or None
        Why mechanisms of one cell are not compared.
    """

    methods: list[ComparisonRow] = field(default_factory=list)
    clipping_ranges: list[ComparisonRow] = field(default_factory=list)
    mechanisms: list[ComparisonRow] = field(default_factory=list)
    estimators: list[ComparisonRow] = field(default_factory=list)
    no_mechanisms: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return all rows as JSON data."""
        kinds = ("estimators",) if self.estimators else ("methods", "clipping_ranges", "mechanisms")
        return {kind: [row.to_json() for row in getattr(self, kind)] for kind in kinds}


def compare(plan: Plan) -> Comparison:
    """Return other ways to answer the request of a plan, with the cost and the errors of each.

    Of means and variances every method, clipping range and mechanism of one cell; of quantiles,
    shares and histograms every way to measure a distribution. Public facts only; nothing is spent.

    Parameters
    ----------
    plan : Plan
        Of one value column: of several, `plan.plans` has the plan of each.

    Raises
    ------
    InputError
        If it is no plan, or one of several value columns or under private presence.

    Examples
    --------
    >>> from hexveil import Occupancy, plan
    >>> hat = Occupancy.from_dense([[3]] * 50)
    >>> table = compare(plan(hat, bounds=(0, 10), epsilon=2, advise=False))
    >>> [row.name for row in table.mechanisms if row.figures["proven_error"]][0]
    'Baseline()'
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
    if plan.is_declared:
        raise InputError(
            'compare takes plans of public occupancy: with protect="presence" declarations decide '
            "how a map is measured."
        )
    return COMPARED[plan.single.kind](plan.single)


def _rows(
    plan: Any,  # noqa: ANN401  a component
    candidates: Ways,
    figures: Callable[[Any], dict[str, Any]],
) -> list[ComparisonRow]:
    """Return a row for each way, with the figures of its plan."""
    rows = []
    for name, changes in parts_of_work(COMPARING, list(candidates)):
        try:
            trouble = changes.get("trouble")
            if trouble is not None:
                raise InputError(trouble)
            result = alternative(plan, **changes) if changes else plan
            rows.append(ComparisonRow(name, not changes, figures(result)))
        except InputError as error:
            rows.append(ComparisonRow(name, trouble=str(error)))
    return rows


def _compare_moments(plan: MomentComponent) -> Comparison:
    figures = partial(_method_figures, plan)
    with share_of_work(COMPARING, 0.0, 0.5):
        methods = _rows(plan, _methods(plan), figures)
    with share_of_work(COMPARING, 0.5, 0.8):
        ranges = _rows(plan, _ranges(plan), figures)
    absence = explain_absence(plan)
    with share_of_work(COMPARING, 0.8, 1.0):
        mechanisms = [] if absence else _rows(plan, _mechanisms(plan), _mechanism_figures)
    return Comparison(methods, ranges, sorted(mechanisms, key=_error_of), no_mechanisms=absence)


def _compare_estimators(plan: DistributionComponent) -> Comparison:
    # A single share has a way of its own, which no option names.
    has_indicator = len(plan.terms) == 1 and isinstance(plan.terms[0], Share)
    asked = ("ranks", "bins", *(("auto",) if has_indicator else ()))
    plans = [plan.alternative(estimator=estimator) for estimator in asked]
    rows = [
        ComparisonRow(
            one.estimator,
            one.estimator == plan.estimator,
            {"epsilon": float(one.epsilon), **one.expected_error},
        )
        for one in plans
    ]
    return Comparison(estimators=sorted(rows, key=lambda row: float(row.figures["share"])))


COMPARED: dict[str, Callable[[Any], Comparison]] = {
    "moments": _compare_moments,
    "distributions": _compare_estimators,
}
"""Other ways to answer the request of a component, by kind."""


# ---- methods and clipping ranges ----


def _methods(plan: MomentComponent) -> Ways:
    """Yield each method with its changes; with targets, by the plan's own objective alone.

    A private interval goes with the plan's own method and objective alone: others are planned
    within the bounds.
    """
    request = plan.request
    candidates: dict[tuple[str, str], None] = dict.fromkeys(METHODS)
    if request.target is not None:
        # A target fixes the objective, so that each method appears once.
        candidates = dict.fromkeys((method, request.objective) for method, _ in METHODS)
    for method, objective in candidates:
        changes = {
            "method": method,
            "objective": objective,
            "mechanism": request.mechanism if method in APART else OptimalClipping(),
            "split": request.split if method != "joint" else None,
            "clipping_range": "bounds",
            "range_share": None,
        }
        is_planned = (method, objective) == (plan.method, request.objective)
        name = f"{method}, {objective}" if method == "joint" else method
        yield name, {} if is_planned else changes


def _ranges(plan: MomentComponent) -> Ways:
    """Yield each clipping range with its changes; none if no private range goes with the plan."""
    request = plan.request
    if request.range_needs("private") is not None:
        return
    for mode in RANGES:
        is_planned = mode in {request.clipping_range, plan.allocation.clipping.mode}
        needs = None if is_planned else request.range_needs(mode)
        share = None if mode == "bounds" else request.range_share
        changes = {"clipping_range": mode, "range_share": share}
        lacking = {"trouble": f"it needs {needs}."}
        yield mode, {} if is_planned else lacking if needs else changes


def _method_figures(plan: MomentComponent, changed: MomentComponent) -> dict[str, Any]:
    """Return the figures of a changed request, judged as the compared plan is."""
    result = changed.with_lower_bound()
    errors = plan.problem.objective_errors(result.error_models)
    # What is certified of two statistics is of the row's objective, which adds them up otherwise.
    is_certified = len(result.error_models) == 1 or result.request.objective == (
        plan.request.objective
    )
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


# ---- mechanisms of one cell ----


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


def _mechanisms(plan: MomentComponent) -> Ways:
    """Yield each mechanism with its changes; the requested one, too, if it has options."""
    requested, n_cells = plan.request.mechanism, plan.occupancy.n_cells
    is_other = isinstance(requested, CellMechanism) and requested not in MECHANISMS
    for mechanism in (*MECHANISMS, requested) if is_other else MECHANISMS:
        slow = f"on {n_cells:,} cells its predictions take minutes; plan it by itself, with "
        slow += f'the method "per-cell" and the mechanism "{mechanism.name}".'
        is_slow = isinstance(mechanism, Auto) and n_cells > MAX_SLOW_CELLS
        changes = {"mechanism": mechanism, **EACH_CELL_APART}
        yield mechanism.name, {"trouble": slow} if is_slow else changes


def _error_of(row: ComparisonRow) -> float:
    errors = (row.figures.get(name) for name in ("predicted_error", "proven_error"))
    return next((error for error in errors if error is not None), np.inf)


def _mechanism_figures(plan: MomentComponent) -> dict[str, Any]:
    model, cell_epsilon = plan.error_models["mean"], plan.cell_epsilon
    assert cell_epsilon is not None  # noqa: S101  every cell is planned at one loss
    # Plans within the bounds state worst cases; those with stages of their own predictions.
    is_proven, worst_case = True, model.error
    if isinstance(model, CellMechanismErrorModel):
        is_proven, worst_case = bool(model.proven.all()), model.worst_case_error
    cells_of_user = int(plan.occupancy.cells_per_user.max())
    predicted = _predicted_errors(plan)
    return {
        "epsilon": float(plan.epsilon),
        "cell_epsilon": float(cell_epsilon),
        "gain": float(cell_epsilon * cells_of_user / plan.requested_epsilon),
        "predicted_error": None if predicted is None else float((plan.span * predicted).mean()),
        "proven_error": float(worst_case.mean()) if is_proven else None,
    }


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
