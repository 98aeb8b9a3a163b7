"""The public door of planning: arguments in, a plan out, and a warning if it says too little."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from hexveil.base.errors import InputError
from hexveil.model.column_facts import ColumnFacts, DeclaredColumns
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.columns.column_options import (
    ColumnOptions,
    own_baseline_error,
    own_target,
)
from hexveil.planning.feasibility.advice import (
    GridTooFineWarning,
    describe_repeats,
)
from hexveil.planning.moment_options import MomentOptions, check_edition
from hexveil.planning.plan import Plan

if TYPE_CHECKING:
    from hexveil.base.rational import Number
    from hexveil.mechanisms import CellMechanism, ThresholdMechanism
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.statistic_terms import Estimator
    from hexveil.planning.clipping_range.private_range import ClippingRangeMode
    from hexveil.planning.plan_moments import HasFacts, HasPublicMetadata
    from hexveil.planning.presence.presence_request import FleetDeclaration
    from hexveil.planning.request import (
        ClipUserForm,
        ErrorKind,
        ExemptCell,
        Method,
        Objective,
        UnfinishedStage,
    )


def plan(  # noqa: PLR0913  a public door; keyword-only
    source: Occupancy
    | PublicMetadata
    | HasPublicMetadata
    | DeclaredFacts
    | ColumnFacts
    | DeclaredColumns
    | HasFacts[DeclaredFacts | ColumnFacts | DeclaredColumns],
    *,
    epsilon: Number | None = None,
    target_error: object = None,
    bounds: object = None,
    statistics: Sequence[str] | str | None = None,
    weights: Mapping[str, Number] | None = None,
    estimator: Estimator | None = None,
    method: Method = "joint",
    mechanism: ThresholdMechanism | CellMechanism | str | None = None,
    objective: Objective | None = None,
    error: ErrorKind | None = None,
    split: Number | None = None,
    clipping_range: ClippingRangeMode = "auto",
    range_share: Number | None = None,
    clip_user: ClipUserForm = "improved",
    cell_epsilon: Number | None = None,
    unfinished_stage: UnfinishedStage | None = None,
    exempt: ExemptCell | None = None,
    edition: str | None = None,
    baseline_error: Number | Mapping[str, Number] | None = None,
    advise: bool = True,
    fleet: FleetDeclaration | int | Mapping[str, FleetDeclaration | int] | None = None,
    user_cap: int | str | None = None,
    delta: Number | None = None,
) -> Plan:
    """Return a plan for all cells together: within a loss, or within planning errors.

    Only public facts enter: occupancy, bounds, the loss or the targets, and the prior. Nothing is
    spent. Quantiles, shares and histograms are planned for records that were read with the same
    statistics, and the arguments are epsilon, statistics, weights, estimator and edition. Of
    records that were read with several value columns each column is planned with all statistics,
    under one loss over all of them: within `epsilon`, or what the target errors of each cost. Of
    records that were read with protect="presence" only what was declared enters, and the arguments
    are epsilon, fleet, statistics (also "users"), weights, user_cap, delta, baseline_error and
    edition.

    Parameters
    ----------
    source : Dataset, PublicMetadata, Occupancy, PrivateDataset or DeclaredFacts
        Of a data set only its public facts are looked at.
    epsilon : int, str, Decimal, Fraction or float
        Largest loss of any privacy unit, over all its cells. Either this or `target_error`.
    target_error : number, text like "10%", sequence or mapping
        Planning errors to stay within at the least loss: in value units (squared ones for the
        variance), or a percentage of the span (of its square); one for all cells, one per cell
        (sequence, or mapping of cell name), or a mapping of statistic to any of these; of several
        value columns any of these but a mapping by cell, or a mapping of column to any of these.
    bounds : pair of numbers, or mapping of cell name to pair, optional
        Default: those the records were read with.
    statistics : tuple of str, optional
        Some of "mean", "variance", "sd" (the root of the variance, at no further cost), "p50" (any
        quantile between 0 and 100), "share<10" (also "<=", ">" and ">=") and "histogram". Default
        the mean; with `error="sum"` mean and variance.
    weights : mapping, optional
        Of quantiles, shares and histograms beside means or variances: how much errors of "moments"
        (as a part of the span) and of the "distribution" (of shares of records) count in the split
        of ε between them; of several value columns, by their names, how much errors of each (as a
        part of its own span) count; under private presence also of "users" (as a part of the
        typical number of units in a cell), beside other statistics. Default 1 each.
    estimator : "auto", "ranks" or "bins", optional
        How a cell's distribution is measured: by the mean rank of its records among the quantiles
        and thresholds asked for, or by few bins. "auto" takes the smaller predicted error; the
        share beyond a single threshold alone then is the mean of an indicator.
    method : "joint", "per-cell", "equal-split" or "clip-user"
        A factor for each user and the noise of each cell, chosen together; every cell planned
        alone at one common loss, the largest whose exact loss is within `epsilon`, or `epsilon`
        divided by the most cells of a user; users suppressed by CLIP-USER.
    mechanism : mechanism, or its text like "Levy(gamma=0.2)"
        How one cell is planned, for "per-cell" and "equal-split"; default OptimalClipping(). With
        others than OptimalClipping and Baseline: the mean alone, within `epsilon`, in the bounds
        that the records were read with.
    objective : "max" or "mean"
        Whether the largest or the average planning error over cells is made small, or kept
        within the targets. Default: the average within `epsilon`, the largest with targets, so that
        every cell meets its own. With both statistics, errors are judged as shares of what a
        constant can miss.
    error : "separate" or "sum"
        "sum" adds value units to squared ones, as COMP eq. (12) does: for reproduction only.
        Default "separate", and "sum" for CLIP-USER as printed.
    split : number, optional
        The mean's part of a cell's loss, for the methods that plan cells apart and for variances
        under a private interval; default the best, by prediction.
    clipping_range : "auto", "per-cell", "bounds" or "private"
        "bounds" clips to the public bounds alone. "private" finds one interval for user means
        privately, from a small share of ε, projects user means to it, and weighs users so that the
        predicted error is small (docs/understand/clipping-range.md); within `epsilon`, by the joint
        method. "per-cell" gives each cell a range by a first noisy look at it, for means. "auto"
        is "private" from 25 users times ε on, "per-cell" for means of several cells from 25 for
        each on, and "bounds" below and above 1,000 for each; with targets, bounds of the caller's
        own or another method or objective it is "bounds".
    range_share : number, optional
        Part of ε that finds the interval; default from the number of users.
    clip_user : "improved" or "printed"
        Form of the method "clip-user". "improved" puts what is suppressed at the middle of the
        bounds, splits each cell's loss best, charges exact losses and spends all of `epsilon`.
        "printed" is COMP's Algorithm 1 with the caps of its section V-B.3, errata mended: a loss
        per cell, half for each statistic, and suppressed users left out of a cell's average.
    cell_epsilon : number, optional
        For `clip_user="printed"`, in place of `epsilon`: the loss of one cell.
        `Plan.l0_epsilon` is the paper's loss K times it, `Plan.epsilon` the exact one.
    unfinished_stage : "keep" or "undo", optional
        For `clip_user="printed"`: whether the suppressions of the stage that was halted stay, as
        printed, or are undone. Default "keep".
    exempt : "smallest" or "none", optional
        For method "clip-user": whether nobody is suppressed in the cell of smallest initial error,
        as in COMP's experiments, or every cell is treated alike, as in its Algorithm 1. Default
        "smallest".
    edition : str, optional
        A name of your own. The same goal asked again gets the plan that was booked first; under
        another edition it is another request, which is planned anew and paid again.
    baseline_error : number or mapping of value column to number, optional
        What one constant for all cells is assumed to miss on average, in value units, at most half
        the span; default span / 20. It comes from outside the records, never from their values.
    advise : bool
        Warn when the grid is too fine, with an epsilon that is enough. `hv.capacity` finds grids
        that are not.
    fleet : int or FleetDeclaration, optional
        For private presence: the declared number of units, which no record decides; of several
        value columns perhaps a mapping with that of each.
    user_cap : int, "private" or "none", optional
        For private presence: records from which on a unit has its full weight; declared, or found
        privately for large fleets. Default none.
    delta : int, str, Decimal, Fraction or float, optional
        Promises (ε, δ) with Gaussian noise, which is less where units are in many cells. Far below
        one over the number of units, such as "1e-6". Default a pure promise. Where occupancy is
        public it goes with means and variances, within epsilon or target_error; with quantiles,
        shares and histograms, alone or beside the mean; and with several value columns.

    Raises
    ------
    InputError
        On a bad argument, named; nothing is spent.

    Warns
    -----
    GridTooFineWarning
        If the map would say no more than one constant for all cells.
    UserWarning
        If more than a few per cent of the records are left out as repeats of a user and time.

    Examples
    --------
    >>> from hexveil import Occupancy
    >>> crowd = Occupancy.from_dense([[1]] * 100)
    >>> made = plan(crowd, bounds=(0, 10), epsilon=2)
    >>> made.expected_error
    0.05...
    >>> float(plan(crowd, bounds=(0, 10), target_error="0.5%").epsilon)
    2.0...
    """
    options = MomentOptions(
        target_error, bounds, method, mechanism, objective, error, split, clipping_range,
        range_share, clip_user, cell_epsilon, unfinished_stage, exempt, delta,
    )  # fmt: skip
    facts = getattr(source, "public", source)
    if isinstance(facts, (PublicMetadata, DeclaredFacts)):
        # Statements by value column: others are not read.
        target = own_target(options.target_error, facts.value, facts.cells.names)
        options = replace(options, target_error=target)
        baseline_error = own_baseline_error(baseline_error, facts.value)
    if isinstance(facts, (DeclaredFacts, DeclaredColumns)):
        _refuse(replace(options, delta=None), 'protect="presence"', estimator=estimator)
        on_paper = _plan_declared(
            facts, epsilon=epsilon, fleet=fleet, statistics=statistics, weights=weights,
            user_cap=user_cap, baseline_error=baseline_error, edition=check_edition(edition),
            delta=delta,
        )  # fmt: skip
        return _advised(on_paper, advise=advise)
    if advise and isinstance(facts, (PublicMetadata, ColumnFacts)):
        repeats = describe_repeats(facts)
        if repeats is not None:
            warnings.warn(repeats, UserWarning, stacklevel=2)
    checked = check_edition(edition)
    columns = ColumnOptions(statistics, weights, estimator, checked, options, baseline_error)
    if isinstance(facts, ColumnFacts):
        from hexveil.planning.columns.plan_columns import plan_columns  # noqa: PLC0415  if used

        unused = {"fleet": fleet, "user_cap": user_cap}
        several = plan_columns(facts, columns, epsilon=epsilon, unused=unused)
        return _advised(several, advise=advise)
    if fleet is not None or user_cap is not None:
        raise InputError(
            'fleet and user_cap go with protect="presence"; leave them out, since the units are '
            "counted here."
        )
    if columns.has_distribution:
        _refuse(replace(options, delta=None), "quantiles, shares and histograms")
    made = columns.plan_column(cast("Occupancy | PublicMetadata", source), epsilon, weights)
    return _advised(Plan.of(made), advise=advise)


def _plan_declared(
    facts: DeclaredFacts | DeclaredColumns,
    **arguments: Any,  # noqa: ANN401  of the public door
) -> Plan:
    """Return a plan from declarations."""
    if isinstance(facts, DeclaredColumns):
        from hexveil.planning.columns.plan_columns import plan_declared_columns  # noqa: PLC0415  if used

        return plan_declared_columns(facts, **arguments)
    if isinstance(arguments["fleet"], Mapping):
        raise InputError("fleet states one number, since there is one value column.")
    from hexveil.planning.presence.presence_plan import plan_presence  # noqa: PLC0415  if used

    return Plan.of(plan_presence(facts, **arguments))


def _refuse(options: MomentOptions, beside: str, **others: object) -> None:
    """Refuse options of means and variances, which have no meaning beside something else."""
    given = [*options.given(), *(name for name, value in others.items() if value is not None)]
    if given:
        raise InputError(
            f"{given[0]} has no meaning with {beside}; leave it out ({_CHOICES[beside]} lists what "
            "can be chosen)."
        )


_CHOICES = {
    'protect="presence"': "docs/how-to/private-presence.md",
    "quantiles, shares and histograms": "docs/how-to/medians-and-shares.md",
}


def _advised(made: Plan, *, advise: bool) -> Plan:
    """Return a plan that can be drawn; warn if its map is predicted to say nothing."""
    for component in made.components.values():
        component.refuse_undrawable()
    # Without a search: looking for grids takes longer than the plan.
    refusal = made.advice(search=False) if advise else None
    if refusal is not None:
        warnings.warn(refusal, GridTooFineWarning, stacklevel=3)
    return made
