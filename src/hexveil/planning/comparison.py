"""Other ways to answer the request of a plan, with the cost and the errors of each.

Methods for means and variances; ways to measure a distribution. Public facts only; nothing is
spent. A method that cannot do what is asked says why. Mechanisms of one cell are compared by
`hexveil.evaluation.evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.work_share import parts_of_work
from hexveil.mechanisms import OptimalClipping
from hexveil.model.statistic_terms import Share
from hexveil.planning.methods import allocate
from hexveil.planning.plan import Plan

if TYPE_CHECKING:
    from hexveil.planning.distribution_component import DistributionComponent
    from hexveil.planning.moment_component import MomentComponent

    Ways = Iterable[tuple[str, Mapping[str, Any]]]
    """Names, and the fields of the request that each changes; none for the plan itself."""

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
        Method or estimator.
    is_planned : bool
        Whether it is that of the plan that is compared.
    figures : dict of str to number
        Of all: `epsilon`, what the most exposed unit loses. Of methods `claimed` (what
        has to be paid if cells are counted), `worst`, `average` and `median` (planning errors over
        cells, as the compared plan judges them), `better` (cells that say more than one
        constant), and of the certificate `certifies` ("loss", "max error" or "mean error"),
        `lower_bound` and `gap`. Of estimators the average error of a `share`, and of means and
        variances by their names.
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
    estimators : list of ComparisonRow
        How a distribution is measured, the most accurate share first.
    """

    methods: list[ComparisonRow] = field(default_factory=list)
    estimators: list[ComparisonRow] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return all rows as JSON data."""
        kind = "estimators" if self.estimators else "methods"
        return {kind: [row.to_json() for row in getattr(self, kind)]}


def compare(plan: Plan) -> Comparison:
    """Return other ways to answer the request of a plan, with the cost and the errors of each.

    Of means and variances every method; of quantiles, shares and histograms every way to measure a
    distribution. Public facts only; nothing is spent.

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
    >>> [row.name for row in table.methods]
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
    if plan.is_declared:
        raise InputError(
            'compare takes plans of public occupancy: with protect="presence" declarations decide '
            "how a map is measured."
        )
    return COMPARED[plan.single.kind](plan.single)


def _compare_moments(plan: MomentComponent) -> Comparison:
    return Comparison(_rows(plan, _methods(plan)))


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


def _rows(plan: MomentComponent, candidates: Ways) -> list[ComparisonRow]:
    """Return a row for each way, with the figures of its plan."""
    rows = []
    for name, changes in parts_of_work(COMPARING, list(candidates)):
        try:
            result = _changed(plan, **changes) if changes else plan
            rows.append(ComparisonRow(name, not changes, _figures(plan, result)))
        except InputError as error:
            rows.append(ComparisonRow(name, trouble=str(error)))
    return rows


def _changed(plan: MomentComponent, **changes: Any) -> MomentComponent:  # noqa: ANN401  of a request
    """Return the component of the same request with some of its fields changed."""
    request = replace(plan.request, **changes)
    if request.delta:
        request.check_delta()
    return replace(
        plan, allocation=allocate(replace(plan.problem, request=request)), request=request
    )


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
