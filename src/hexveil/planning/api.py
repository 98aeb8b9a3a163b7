"""The public door of planning: arguments in, a plan out, and a warning if it says too little."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias

from hexveil.base.errors import InputError
from hexveil.model.declared_grid import ColumnFacts, DeclaredColumns, DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning import option_rules
from hexveil.planning.feasibility.advice import GridTooFineWarning, describe_repeats, ways_out
from hexveil.planning.least_loss import part_within_predictions
from hexveil.planning.plan import Facts, Plan
from hexveil.planning.plan_arguments import PlanArguments

if TYPE_CHECKING:
    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.part import HasFacts
P = ParamSpec("P")
Source: TypeAlias = "Occupancy | Facts | HasFacts[Facts]"


def _with_options(
    options: Callable[P, PlanArguments],
) -> Callable[[Callable[..., Plan]], Callable[Concatenate[Source, P], Plan]]:
    """Return a decorator: a function of a source gets signature and texts of the options."""
    source = inspect.Parameter("source", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.signature(options)

    def decorated(function: Any) -> Any:  # noqa: ANN401  a function, with the attributes of one
        parameters = [source, *signature.parameters.values()]
        function.__signature__ = signature.replace(
            parameters=parameters, return_annotation=inspect.Signature.empty
        )
        texts = (options.__doc__ or "").partition("----------\n")[2].rstrip()
        function.__doc__ = function.__doc__.replace("    **options\n", f"{texts}\n", 1)
        return function

    return decorated


@_with_options(PlanArguments)
def plan(source: Source, **options: Any) -> Plan:  # noqa: ANN401  of `PlanArguments`
    """Return a plan for all cells together: within a loss, or within planning errors.

    Only public facts enter: occupancy, bounds, the loss or the targets, and the prior. Nothing is
    spent. With quantiles, shares or histograms among the statistics the records were read with the
    same statistics. Records that were read with several value columns get a part of each column
    with all statistics, and one loss over all of them: within `epsilon`, or what the target errors
    of each cost. Of records that were read with protect="presence" only what was declared enters.
    Which options go together: docs/reference/options.md.

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
    stated, facts = PlanArguments(**options), getattr(source, "public", source)
    if isinstance(facts, (PublicMetadata, DeclaredFacts)):
        stated = stated.of_column(facts.value, facts.cells.names)
    about = [
        *([option_rules.SEVERAL] if isinstance(facts, (ColumnFacts, DeclaredColumns)) else []),
        *([option_rules.PRESENCE] if isinstance(facts, (DeclaredFacts, DeclaredColumns)) else []),
    ]
    stated.check(about)
    if stated.advise and isinstance(facts, (PublicMetadata, ColumnFacts)):
        repeats = describe_repeats(facts)
        if repeats is not None:
            warnings.warn(repeats, UserWarning, stacklevel=2)
    return _advised(_plan_of(facts, stated), advise=stated.advise)


def _plan_of(facts: Any, options: PlanArguments) -> Plan:  # noqa: ANN401  of any kind
    """Return the plan of public or declared facts, within checked options."""
    # Loaded where they are used.
    if isinstance(facts, ColumnFacts):
        from hexveil.planning.plan_columns import plan_columns  # noqa: PLC0415

        return plan_columns(facts, options, part_of)
    if isinstance(facts, DeclaredColumns):
        from hexveil.planning.plan_columns import plan_declared_columns  # noqa: PLC0415

        return plan_declared_columns(facts, options)
    return Plan.of(part_of(facts, options))


def part_of(facts: Any, options: PlanArguments) -> Any:  # noqa: ANN401  of one value column
    """Return the part of a plan for the statistics of one value column."""
    is_private = isinstance(facts, DeclaredFacts)
    if options.target_error is not None and (is_private or options.has_distribution):
        found, targets = part_within_predictions(partial(part_of, facts), options, facts.lattice)
        # Under private presence a plan is made again for each release: its stages are its request.
        return found if is_private else replace(found, target_errors=targets)
    if is_private:
        if isinstance(options.fleet, Mapping):
            raise InputError("fleet states one number, since there is one value column.")
        from hexveil.planning.presence.presence_plan import plan_presence  # noqa: PLC0415

        return plan_presence(facts, options)
    if options.has_distribution:
        from hexveil.planning.distribution.plan_distribution import (  # noqa: PLC0415
            plan_distribution,
        )

        return plan_distribution(facts, options)
    from hexveil.planning.plan_moments import plan_moments  # noqa: PLC0415

    return plan_moments(facts, options)


def _advised(made: Plan, *, advise: bool) -> Plan:
    """Return a plan that can be drawn; warn if its map is predicted to say nothing."""
    for component in made.components.values():
        component.refuse_undrawable()
    # Without a search: looking for grids takes longer than the plan.
    refusal = ways_out(made, search=False) if advise else None
    if refusal is not None:
        warnings.warn(refusal, GridTooFineWarning, stacklevel=3)
    return made
