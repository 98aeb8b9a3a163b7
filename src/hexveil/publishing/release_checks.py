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
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.component import PlanComponent
    from hexveil.publishing.booking import AnyDataset

SMOOTHED = "smoothed"


def check_arguments(
    dataset: AnyDataset,
    plan: Plan,
    ledger: Ledger | None,
    estimates: tuple[str, ...] | str,
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
        book = _check_column(records, component, ledger, estimates)
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
        raise InputError(
            "the plan was made for other records (the value columns differ); plan these records "
            "again."
        )
    by_column = columns or dict.fromkeys(plan.components, source)
    return [(by_column[column], component) for column, component in plan.components.items()]


def _check_column(
    dataset: object,
    component: PlanComponent,
    ledger: Ledger | None,
    estimates: tuple[str, ...] | str,
) -> Ledger:
    """Return the ledger of a release of one value column where occupancy is public."""
    if not isinstance(dataset, Dataset):
        raise InputError(f"a release needs the records as read, got {type(dataset).__name__}.")
    book = _check_ledger(ledger)
    _check_estimates(estimates, dataset.public)
    if SMOOTHED in estimates and component.smoothing_trouble is not None:
        raise InputError(component.smoothing_trouble)
    check_same_promise(book.account.name, book.account.delta, component.delta)
    check_units(dataset)
    if component.facts is None:
        raise InputError("the plan was made for a bare occupancy; plan the records as read.")
    check_same_records(dataset.public, component.facts)
    if component.reads_bins:
        _check_bins(dataset.public, component.facts)
    refuse_labels(dataset.public.cells.labels, KINDS[component.kind].taken(component))
    return book


def _check_ledger(ledger: object) -> Ledger:
    """Refuse a release without a ledger."""
    if not isinstance(ledger, Ledger):
        raise InputError(
            "a release needs a ledger with a budget, where its privacy loss is booked first: "
            'ledger=hv.Ledger("ledger.sqlite", dataset="buses", budget="5").'
        )
    return ledger


def check_declared(facts: Any, plan: Plan, ledger: Ledger | None) -> Ledger:  # noqa: ANN401
    """Return the ledger of a release under private presence; declarations alone are looked at.

    Facts are declared, of one value column or of several.

    Raises
    ------
    InputError
        If the plan is another data set's, or its promise another than the account's, or there is
        no ledger.
    """
    book = _check_ledger(ledger)
    if isinstance(facts, DeclaredColumns):
        check_prefixes(facts)
    for facts_as_read, component in _pairs(plan, facts):
        if _reading(facts_as_read) != _reading(component.facts):
            raise InputError("the plan was made for another declared reading; plan again.")
        check_same_promise(book.account.name, book.account.delta, component.delta)
        refuse_labels(facts_as_read.cells.labels, KINDS[component.kind].taken(component))
    return book


def _reading(facts: DeclaredFacts) -> tuple[Any, ...]:
    """Return a declared reading without the names of files, which a plan may not know yet."""
    identity = {name: text for name, text in facts.identity.items() if name != "source"}
    bins = None if facts.bins is None else facts.bins.identity()
    return facts.grid.fingerprint(), facts.lattice, identity, bins


def _check_estimates(estimates: tuple[str, ...] | str, facts: PublicMetadata) -> None:
    """Refuse unknown estimates, and smoothing where there is nothing to borrow from."""
    names = set(items_of(estimates))
    if names not in ({"raw"}, {"raw", SMOOTHED}):
        raise InputError(f'estimates must be ("raw",) or ("raw", "smoothed"), got {estimates!r}.')
    if SMOOTHED in names and facts.occupancy.n_cells < 2:
        raise InputError(
            "smoothed needs more than one cell to borrow from; request raw alone, or a finer grid."
        )
    if SMOOTHED in names:
        # Called for its refusals: after the booking they would cost the budget for nothing.
        groupings_of(facts.cells)


def check_units(dataset: Dataset) -> None:
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


def check_same_records(read: PublicMetadata, planned: PublicMetadata) -> None:
    """Refuse records that are not those of a plan, by their public metadata.

    Raises
    ------
    InputError
        Naming the most general difference.
    """
    # One at a time, the most general first: a message names the cause, not its consequences.
    if planned.occupancy.fingerprint != read.occupancy.fingerprint:
        differs = "who reported how often where"
    elif planned.lattice != read.lattice:
        differs = "the bounds or the quantum they were read with"
    elif planned.privacy_unit != read.privacy_unit:
        differs = f"the privacy unit, {planned.privacy_unit} and not {read.privacy_unit},"
    elif planned.cells.names() != read.cells.names():
        differs = "the names of the cells"
    else:
        return
    raise InputError(
        f"the plan was made for other records ({differs} differs); plan these records again."
    )


def _check_bins(read: PublicMetadata, facts: PublicMetadata) -> None:
    """Refuse records that were counted by other bins than a plan was made for."""
    planned = facts.bins
    if read.bins is None or planned is None or read.bins.identity() != planned.identity():
        raise InputError(
            "the plan was made for records counted by other bins; read them with the same "
            "statistics."
        )


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
