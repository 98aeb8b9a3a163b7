"""Refusals of a release before anything is spent, from public metadata alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.base.rational import items_of
from hexveil.ledger import Ledger
from hexveil.ledger.promises import check_same_promise
from hexveil.model.declared_grid import DeclaredColumns
from hexveil.planning.feasibility.recommendation import ways_out
from hexveil.planning.plan import Plan
from hexveil.publishing.components import check_prefixes, refuse_labels
from hexveil.publishing.estimates.decoded_moments import groupings_of
from hexveil.publishing.part_kinds import KINDS
from hexveil.records.column_datasets import ColumnDatasets, PrivateColumns, PrivateDataset
from hexveil.records.dataset import Dataset

if TYPE_CHECKING:
    from hexveil.model.declared_grid import DeclaredFacts
    from hexveil.planning.component import PlanComponent
    from hexveil.publishing.booking import AnyDataset

SMOOTHED = "smoothed"


def check_arguments(
    dataset: AnyDataset, plan: Plan, ledger: Ledger | None, estimates: tuple[str, ...] | str
) -> Ledger:
    """Return the ledger of a release that can be made from these arguments.

    Raises
    ------
    InputError
        See `release`.
    """
    if not isinstance(plan, Plan):
        raise InputError(f"a release needs a plan made by hv.plan, got {type(plan).__name__}.")
    if isinstance(dataset, (PrivateDataset, PrivateColumns)):
        if items_of(estimates) != ["raw"]:
            raise InputError('estimates under private presence are ("raw",): leave them out.')
        if not plan.is_declared:
            raise InputError(
                "records with private presence need a plan made for them, from what hv.declare or "
                "hv.read returned."
            )
        return check_declared(dataset.public, plan, ledger)
    if plan.is_declared:
        raise InputError('the plan is for records read with protect="presence".')
    if isinstance(dataset, ColumnDatasets):
        check_prefixes(dataset.public)
    for records, component in _pairs(plan, dataset):
        if not isinstance(records, Dataset):
            raise InputError(f"a release needs the records as read, got {type(records).__name__}.")
        book = _check_account(ledger, component)
        _check_estimates(estimates, records, component)
        _check_units(records)
        _check_same_records(records, component)
        refuse_labels(records.public.cells.labels, KINDS[component.kind].taken(component))
    return book


def check_declared(facts: Any, plan: Plan, ledger: Ledger | None) -> Ledger:  # noqa: ANN401
    """Return the ledger of a release under private presence; declarations alone are looked at.

    Facts are declared, of one value column or of several.

    Raises
    ------
    InputError
        If the plan is another data set's, or its promise another than the account's, or there is
        no ledger.
    """
    if isinstance(facts, DeclaredColumns):
        check_prefixes(facts)
    for facts_as_read, component in _pairs(plan, facts):
        book = _check_account(ledger, component)
        if _reading(facts_as_read) != _reading(component.facts):
            raise InputError("the plan was made for another declared reading; plan again.")
        refuse_labels(facts_as_read.cells.labels, KINDS[component.kind].taken(component))
    return book


def _pairs(plan: Plan, source: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401  records or facts
    """Return records or facts of each value column with its component.

    Raises
    ------
    InputError
        If a plan is of other value columns.
    """
    columns: Any = None
    if isinstance(source, (ColumnDatasets, PrivateColumns)):
        columns = source.datasets
    elif isinstance(source, DeclaredColumns):
        columns = source.columns
    if plan.is_single != (columns is None) or (columns and set(columns) != set(plan.components)):
        raise _other_records("the value columns differ")
    by_column = columns or dict.fromkeys(plan.components, source)
    return [(by_column[column], component) for column, component in plan.components.items()]


def _other_records(difference: str) -> InputError:
    return InputError(
        f"the plan was made for other records ({difference}); plan these records again."
    )


def _check_account(ledger: Ledger | None, component: PlanComponent) -> Ledger:
    """Refuse a release without a ledger, or of another promise than the account's."""
    if not isinstance(ledger, Ledger):
        raise InputError(
            "a release needs a ledger with a budget, where its privacy loss is booked first: "
            'ledger=hv.Ledger("ledger.sqlite", dataset="buses", budget="5").'
        )
    check_same_promise(ledger.account.name, ledger.account.delta, component.delta)
    return ledger


def _reading(facts: DeclaredFacts) -> tuple[Any, ...]:
    """Return a declared reading without the names of files, which a plan may not know yet."""
    identity = {name: text for name, text in facts.identity.items() if name != "source"}
    bins = None if facts.bins is None else facts.bins.identity()
    return facts.grid.fingerprint(), facts.lattice, identity, bins


def _check_estimates(
    estimates: tuple[str, ...] | str, dataset: Dataset, component: PlanComponent
) -> None:
    """Refuse unknown estimates, and smoothing where there is nothing to borrow from."""
    names = set(items_of(estimates))
    if names not in ({"raw"}, {"raw", SMOOTHED}):
        raise InputError(f'estimates must be ("raw",) or ("raw", "smoothed"), got {estimates!r}.')
    if SMOOTHED not in names:
        return
    if dataset.occupancy.n_cells < 2:
        raise InputError(
            "smoothed needs more than one cell to borrow from; request raw alone, or a finer grid."
        )
    # Called for its refusals: after the booking they would cost the budget for nothing.
    groupings_of(dataset.public.cells)
    if component.smoothing_trouble is not None:
        raise InputError(component.smoothing_trouble)


def _check_units(dataset: Dataset) -> None:
    """Refuse privacy units with losses that the ledger could not add up."""
    if dataset.units is None:
        raise InputError(
            "a release books the loss of each privacy unit, and these records have no ids; "
            "read them with hv.read, or name the column of ids."
        )
    if dataset.public.privacy_unit != "user" and dataset.units.periods() is None:
        raise InputError(
            f"user: a release of {dataset.public.privacy_unit}s needs the day of each id, because "
            "the losses of one user add up over days; end every id of the sums with a space and "
            'the day (of a week, its Monday), like "bus 7 2026-11-20", as the query of hexveil '
            "inspect --sql does."
        )


def _check_same_records(dataset: Dataset, component: PlanComponent) -> None:
    """Refuse records that are not those of a plan, by their public metadata."""
    read, planned = dataset.public, component.facts
    if planned is None:
        raise InputError("the plan was made for a bare occupancy; plan the records as read.")
    bins = [None if facts.bins is None else facts.bins.identity() for facts in (read, planned)]
    # The most general first: a message names the cause, not its consequences.
    differences = {
        "who reported how often where": read.occupancy.fingerprint != planned.occupancy.fingerprint,
        "the bounds or the quantum they were read with": read.lattice != planned.lattice,
        f"the privacy unit, {planned.privacy_unit} and not {read.privacy_unit},": (
            read.privacy_unit != planned.privacy_unit
        ),
        "the names of the cells": read.cells.names() != planned.cells.names(),
        "the bins that statistics were read with": component.reads_bins
        and (bins[0] is None or bins[0] != bins[1]),
    }
    for words, differs in differences.items():
        if differs:
            raise _other_records(f"{words} differs")


def check_plan(dataset: AnyDataset, plan: Plan, *, accept_noise: bool) -> None:
    """Refuse plans that cannot be computed or noised, or that are no better than a constant.

    Raises
    ------
    InputError
        See `release`.
    """
    for records, component in _pairs(plan, dataset):
        component.check_release(has_squares=getattr(records, "has_squares", False))
    # The advice looks for grids, which takes longer than the plan.
    useless = None if accept_noise else ways_out(plan, search=True)
    if useless is not None:
        raise InputError(
            f"nothing was spent: {useless.removesuffix('.')}; accept_noise=True releases the map "
            "anyway."
        )
