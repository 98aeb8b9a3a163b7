"""Comparison of methods, and of mechanisms of one cell, on one request: cost and errors of each.

Public facts only; nothing is spent. A method that cannot do what is asked says why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.privacy_loss import KeptRecords
from hexveil.base.errors import InputError
from hexveil.base.work_share import parts_of_work, share_of_work
from hexveil.mechanisms import OptimalClipping
from hexveil.planning.alternatives import (
    EstimatorErrors,
    MechanismRow,
    alternative,
    compare_estimators,
    compare_mechanisms,
)
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.plan import Plan
from hexveil.planning.request import Method, Objective

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from hexveil.model.occupancy import Pairs
    from hexveil.planning.request import ClippingRangeMode

WAYS: tuple[tuple[Method, Objective], ...] = (
    ("joint", "mean"),
    ("joint", "max"),
    ("per-cell", "max"),
    ("clip-user", "max"),
    ("equal-split", "max"),
)
"""Methods and objectives that are compared."""
APART = ("per-cell", "equal-split")
"""Methods of which the request names the mechanism."""
RANGES: tuple[ClippingRangeMode, ...] = ("bounds", "private", "per-cell")
"""Clipping ranges that are compared."""

COMPARING = "Comparing methods and mechanisms"
"""Name of this work, of which parts are told."""


@dataclass(frozen=True)
class ComparisonRow:
    """One method's plan in figures.

    Attributes
    ----------
    method, objective : str
    clipping_range : str or None
        Clipping range of the plan, where these are compared.
    epsilon : float or None
        What the most exposed unit loses; None where the method cannot do what is asked.
    claimed : float or None
        What has to be paid if cells are counted: the price of "equal-split" itself.
    worst, average, median : float or None
        Planning error over cells, as the objective of the compared plan judges it.
    shrunk : int or None
        Users of whom something is put at the middle of the bounds.
    better : int or None
        Cells that say more than one constant for all.
    certifies : str or None
        What the joint plan's certificate is about: "loss", "max error" or "mean error".
    lower_bound, gap : float or None
        What no plan of the class goes below in it, and (value - lower_bound) / value.
    trouble : str or None
        Why there is no plan.
    """

    method: str
    objective: str
    clipping_range: str | None = None
    epsilon: float | None = None
    claimed: float | None = None
    worst: float | None = None
    average: float | None = None
    median: float | None = None
    shrunk: int | None = None
    better: int | None = None
    certifies: str | None = None
    lower_bound: float | None = None
    gap: float | None = None
    trouble: str | None = None


@dataclass(frozen=True)
class Comparison:
    """Methods, clipping ranges and mechanisms on one request.

    Attributes
    ----------
    methods : list of ComparisonRow
        How cells are planned together.
    clipping_ranges : list of ComparisonRow
        What values are clipped to, by the plan's own method; errors under a private range are
        predictions. Empty for a request that no private range goes with.
    mechanisms : list of MechanismRow
        How one cell is planned, each cell apart; the least predicted error first. Empty for a
        request with targets or variances, and for more than 200 cells.
    estimators : tuple of EstimatorErrors
        How a distribution is measured, the most accurate share first.
    """

    methods: list[ComparisonRow]
    clipping_ranges: list[ComparisonRow]
    mechanisms: list[MechanismRow]
    estimators: tuple[EstimatorErrors, ...] = ()


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
    >>> [row.mechanism for row in table.mechanisms if row.is_proven][0]
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


def _compare_moments(plan: MomentComponent) -> Comparison:
    with share_of_work(COMPARING, 0.0, 0.5):
        methods = compare_methods(plan)
    with share_of_work(COMPARING, 0.5, 0.8):
        ranges = compare_ranges(plan)
    with share_of_work(COMPARING, 0.8, 1.0):
        return Comparison(methods, ranges, compare_mechanisms(plan))


COMPARED: dict[str, Callable[[Any], Comparison]] = {
    "moments": _compare_moments,
    "distributions": lambda component: Comparison([], [], [], compare_estimators(component)),
}
"""Other ways to answer the request of a component, by kind."""


def compare_methods(plan: MomentComponent) -> list[ComparisonRow]:
    """Return each method on the request of a plan; with targets, by its own objective alone.

    A private interval goes with the plan's own method and objective alone: others are planned
    within the bounds.
    """
    request = plan.request
    methods = WAYS
    if request.target is not None:
        # A target fixes the objective, so that each method appears once.
        others = [(method, request.objective) for method, _ in WAYS if method != "joint"]
        methods = (("joint", request.objective), *others)
    rows = []
    for method, objective in parts_of_work(COMPARING, methods):
        changes = {
            "method": method,
            "objective": objective,
            "mechanism": request.mechanism if method in APART else OptimalClipping(),
            "split": request.split if method != "joint" else None,
            "clipping_range": "bounds",
            "range_share": None,
        }
        is_planned = (method, objective) == (plan.method, request.objective)
        rows.append(_row(plan, ComparisonRow(method, objective), {} if is_planned else changes))
    return rows


def compare_ranges(plan: MomentComponent) -> list[ComparisonRow]:
    """Return each clipping range on the request of a plan; none if no private range goes with it.

    Examples
    --------
    >>> from hexveil import Occupancy, plan
    >>> crowd = Occupancy.from_dense([[1, 2]] * 300)
    >>> rows = compare_ranges(plan(crowd, bounds=(0, 10), epsilon=1, advise=False).single)
    >>> [row.clipping_range for row in rows]
    ['bounds', 'private', 'per-cell']
    """
    one_pair = np.ptp(plan.lower) == 0 and np.ptp(plan.upper) == 0
    request = plan.request
    if request.range_needs("private") is not None or not one_pair:
        return []
    rows = []
    for mode in parts_of_work(COMPARING, RANGES):
        row = ComparisonRow(plan.method, request.objective, clipping_range=mode)
        is_planned = mode in {request.clipping_range, plan.allocation.clipping.mode}
        needs = None if is_planned else request.range_needs(mode)
        share = None if mode == "bounds" else request.range_share
        changes = {"clipping_range": mode, "range_share": share}
        rows.append(
            replace(row, trouble=f"it needs {needs}.")
            if needs
            else _row(plan, row, {} if is_planned else changes)
        )
    return rows


def _row(plan: MomentComponent, row: ComparisonRow, changes: Mapping[str, Any]) -> ComparisonRow:
    """Return a row with the figures of the changed request, judged as the compared plan is."""
    try:
        result = (alternative(plan, **changes) if changes else plan).with_lower_bound()
    except InputError as error:
        return replace(row, trouble=str(error))
    errors = plan.problem.objective_errors(result.error_models)
    row = replace(
        row,
        epsilon=float(result.epsilon),
        claimed=float(result.l0_epsilon),
        worst=float(errors.max()),
        average=float(errors.mean()),
        median=float(np.median(errors)),
        shrunk=shrunk(result),
        better=result.support.better,
    )
    # What is certified of two statistics is of the row's objective, which adds them up otherwise.
    if len(result.error_models) > 1 and row.objective != plan.request.objective:
        return row
    return replace(row, certifies=result.bound_kind, lower_bound=result.lower_bound, gap=result.gap)


def shrunk(plan: MomentComponent) -> int:
    """Return how many users are not kept whole in some cell."""
    occupancy, rows = plan.occupancy, plan.allocation
    is_reduced = np.zeros(occupancy.n_users, dtype=bool)
    for name, model in plan.error_models.items():
        # A cell that publishes a constant clips nobody.
        kept, noised = rows.kept(plan.problem, name), np.asarray(model.noised)
        is_reduced |= occupancy.map_users(partial(_reduced_users, kept=kept, noised=noised))
    return int(is_reduced.sum())


def _reduced_users(
    pairs: Pairs, *, kept: KeptRecords, noised: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which users do not contribute all of their records to some noised cell."""
    is_whole = kept.of(pairs) >= pairs.n
    reduced = pairs.own_user[noised[pairs.cell] & ~is_whole]
    return np.bincount(reduced, minlength=pairs.n_users) > 0
