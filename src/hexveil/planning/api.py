"""The public door of planning: arguments in, a plan out, and a warning if it says too little.

One loss for several value columns is divided so that the weighted sum of predicted errors is least,
each as a part of its column's span (of its square for variances; errors of shares as they are).
Where the units most exposed in one column are less so in another, the exact sum of their losses
leaves a rest, which the columns get in the same proportion. Under a δ squares of μ are divided in
place of ε. With target errors nothing is divided: each column costs the least that meets its own.
Under private presence any unit may have records in every column, so that the parts add up exactly.
"""

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Concatenate, ParamSpec

import numpy as np

from hexveil.accounting.gaussian_composition import to_delta
from hexveil.accounting.promise import check_units, promised
from hexveil.base.errors import InputError
from hexveil.base.optional_packages import require_package
from hexveil.base.rational import to_positive_fraction
from hexveil.model.declared_grid import ColumnFacts, DeclaredColumns, DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning import distribution_component
from hexveil.planning.component import PlanComponent
from hexveil.planning.feasibility.recommendation import (
    GridTooFineWarning,
    describe_repeats,
    ways_out,
)
from hexveil.planning.feasibility.utility_test import default_baseline_error
from hexveil.planning.methods import plan_moments
from hexveil.planning.optimizers.calibration import within_predictions
from hexveil.planning.plan import Plan
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.planning.presence import presence_plan
from hexveil.planning.request import PRESENCE, SEVERAL

USED = Fraction(99, 100)
"""Part of ε that the most exposed unit loses; below it ε is divided anew."""
P = ParamSpec("P")
Options = dict[str, PlanArguments]


def _with_options(
    options: Callable[P, PlanArguments],
) -> Callable[[Callable[..., Plan]], Callable[Concatenate[Any, P], Plan]]:
    """Return a decorator: a function of a source gets signature and texts of the options."""
    source = inspect.Parameter("source", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.signature(options)

    def decorated(function: Any) -> Any:  # noqa: ANN401  a function, with the attributes of one
        parameters = [source, *signature.parameters.values()]
        function.__signature__ = signature.replace(
            parameters=parameters, return_annotation=inspect.Signature.empty
        )
        # Dedented: newer Pythons have it so.
        texts = inspect.cleandoc(options.__doc__ or "").partition("----------\n")[2]
        text = inspect.cleandoc(function.__doc__)
        function.__doc__ = text.replace("**options\n", f"{texts}\n", 1)
        return function

    return decorated


@_with_options(PlanArguments)
def plan(source: Any, **options: Any) -> Plan:  # noqa: ANN401  of `PlanArguments`
    """Return a plan for all cells together: within a loss, or within planning errors.

    Only public facts enter: occupancy, bounds, the loss or the targets, and the prior. Nothing is
    spent. With quantiles, shares or histograms among the statistics the records were read with the
    same statistics. Records that were read with several value columns get a component of each
    column with all statistics, and one loss over all of them: within `epsilon`, or what the target
    errors of each cost. Of records that were read with protect="presence" only what was declared
    enters. Which options go together: docs/reference/options.md.

    Parameters
    ----------
    source : Dataset, PublicMetadata, Occupancy, PrivateDataset or DeclaredFacts
        Of a data set only its public facts are looked at.
    **options

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
    require_package("scipy", "publish")
    stated, facts = PlanArguments(**options), getattr(source, "public", source)
    if isinstance(facts, (PublicMetadata, DeclaredFacts)):
        stated = stated.of_column(facts.value)
    is_private = isinstance(facts, (DeclaredFacts, DeclaredColumns))
    several = isinstance(facts, (ColumnFacts, DeclaredColumns))
    stated.check([SEVERAL] * several + [PRESENCE] * is_private)
    if stated.advise and isinstance(facts, (PublicMetadata, ColumnFacts)):
        repeats = describe_repeats(facts)
        if repeats is not None:
            warnings.warn(repeats, UserWarning, stacklevel=2)
    result = _plan_columns(facts, stated) if several else Plan.of(_component_of(facts, stated))
    for component in result.components.values():
        component.refuse_undrawable()
    # Without a search: looking for grids takes longer than the plan.
    refusal = ways_out(result, search=False) if stated.advise else None
    if refusal is not None:
        warnings.warn(refusal, GridTooFineWarning, stacklevel=2)
    return result


def _component_of(facts: Any, options: PlanArguments) -> Any:  # noqa: ANN401  of one value column
    """Return the component of a plan for the statistics of one value column."""
    is_private = isinstance(facts, DeclaredFacts)
    if options.target_error is not None and (is_private or options.has_distribution):
        component, targets = within_predictions(
            partial(_component_of, facts), options, facts.lattice
        )
        # Under private presence a plan is made again for each release: its stages are its request.
        return component if is_private else replace(component, target_errors=targets)
    if is_private:
        if isinstance(options.fleet, Mapping):
            raise InputError("fleet states one number, since there is one value column.")
        return presence_plan.plan_presence(facts, options)
    if options.has_distribution:
        return distribution_component.plan_distribution(facts, options)
    return plan_moments(facts, options)


# ---- several value columns ----


def _plan_columns(facts: ColumnFacts | DeclaredColumns, options: PlanArguments) -> Plan:
    """Return a plan of several value columns within one ε, or within the targets of each.

    Under private presence statistics and cap are those of each column, the fleet perhaps, where not
    every unit measures everything.
    """
    is_private, columns = isinstance(facts, DeclaredColumns), facts.columns
    by_name = _options_of_columns(columns, options)
    delta, edition = to_delta(options.delta), options.edition
    if isinstance(facts, ColumnFacts):
        check_units(delta, facts.n_units)
    if options.epsilon is None:
        components = {name: _component_of(columns[name], by_name[name]) for name in by_name}
        return Plan(facts, components, None, {}, edition)
    kinds_of = presence_plan.KINDS if is_private else distribution_component.KINDS
    weights, kinds = _split_weights(options.weights, [*columns], kinds_of)
    if kinds and not is_private and not options.has_distribution:
        raise InputError(
            "weights of moments and distribution go with quantiles, shares or histograms in "
            "statistics; others are by value column."
        )
    requested = to_positive_fraction(options.epsilon, "epsilon")
    promise = promised(requested, delta)

    def planned_column(column: str, part: Fraction) -> PlanComponent:
        of_column = replace(by_name[column], epsilon=part, weights=kinds)
        component: PlanComponent = _component_of(columns[column], of_column)
        return component

    def planned(parts: Iterable[Fraction]) -> Plan:
        pairs = zip(weights, parts, strict=True)
        components = {column: planned_column(column, part) for column, part in pairs}
        return Plan(facts, components, requested, weights, edition)

    equal = promise.part(Fraction(1, len(weights))).planned
    errors = [planned_column(column, equal).relative_error for column in weights]
    shares = promise.divide([*weights.values()], errors)
    if is_private:
        # Shares are of few digits: another processor divides ε alike, so that its request is the
        # same.
        return planned(promise.epsilons(shares))

    def within(times: Fraction) -> Plan:
        return planned(promise.part(share * times).planned for share in shares)

    column_plans = within(Fraction(1))
    if not 0 < column_plans.booked_limit < USED * promise.amount:
        return column_plans
    # Losses are about proportional to ε, so that the rest can be used; never beyond the promise.
    larger = within(promise.amount / column_plans.booked_limit * Fraction(999, 1000))
    return larger if larger.booked_limit <= promise.amount else column_plans


def _options_of_columns(columns: Mapping[str, Any], options: PlanArguments) -> Options:
    """Return the options of each value column, with its own targets, fleet and baseline error."""
    names, targets = [*columns], dict.fromkeys(columns, options.target_error)
    if options.is_by_column(columns):
        targets = by_column("target_error", options.target_error, names, is_complete=True)
    errors = by_column("baseline_error", options.baseline_error, names)
    fleets = by_column("fleet", options.fleet, names, is_complete=True)
    of_columns = {}
    for column, facts in columns.items():
        stated = {"baseline_error": errors[column], "fleet": fleets[column]}
        own = of_columns[column] = replace(options, target_error=targets[column], **stated)
        if not isinstance(facts, PublicMetadata):
            continue
        lower, upper = float(facts.lattice.lower), float(facts.lattice.upper)
        try:
            # Before planning: a bad target of the last column must not cost minutes first.
            default_baseline_error(lower, upper, errors[column])
            if options.target_error is not None:
                span = np.full(facts.occupancy.n_cells, upper - lower)
                replace(own, weights=None).request(span)
        except InputError as error:
            raise InputError(f"{column}: {error}") from None
    return of_columns


def by_column(
    name: str, stated: object, columns: Sequence[str], *, is_complete: bool = False
) -> dict[str, Any]:
    """Return the statement about each value column: the same for all, or from a mapping.

    With `is_complete` a mapping has to name every column; else others have None.
    """
    if not isinstance(stated, Mapping):
        return dict.fromkeys(columns, stated)
    of = ", ".join(columns)
    for column in stated:
        if column not in columns:
            raise InputError(f"{name} has {column!r}, which is no value column; name each of {of}.")
    for column in columns if is_complete else ():
        if column not in stated:
            raise InputError(f"{name} leaves out the value column {column!r}; name each of {of}.")
    return {column: stated.get(column) for column in columns}


def _split_weights(
    weights: Mapping[str, Any] | None, names: Sequence[str], kinds: Sequence[str]
) -> tuple[dict[str, Fraction], dict[str, Any] | None]:
    """Return the weight of each value column, default 1, and weights of kinds of statistics."""
    by_name = dict(weights or {})
    unknown = set(by_name) - {*names, *kinds}
    if unknown:
        raise InputError(
            f"weights has {min(unknown)!r}, which is no value column; name some of "
            f"{', '.join(names)}, or {', '.join(kinds[:-1])} and {kinds[-1]}."
        )
    columns = {column: to_positive_fraction(by_name.get(column, 1), "weights") for column in names}
    return columns, {name: by_name[name] for name in by_name if name not in names} or None
