"""Refusals of a release before anything is spent, from public metadata alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from hexveil.base.errors import InputError
from hexveil.base.items import items_of
from hexveil.ledger import Ledger
from hexveil.ledger.promises import check_same_promise
from hexveil.model.column_facts import DeclaredColumns
from hexveil.planning.columns.column_plan import ColumnPlans, DeclaredColumnPlans
from hexveil.planning.distribution.distribution_components import MOMENTS, SCORE_LATTICE, SCORES
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.planning.feasibility.advice import advice
from hexveil.planning.plan import Plan
from hexveil.publishing.columns.column_table import check_prefixes
from hexveil.publishing.distribution.distribution_table import check_label_columns
from hexveil.publishing.estimates.smoothed_estimates import groupings_of
from hexveil.publishing.estimates.table import check_labels
from hexveil.publishing.presence.presence_table import check_label_names
from hexveil.publishing.privacy_models import DeclaredPlan
from hexveil.records.columns.column_datasets import ColumnDatasets, PrivateColumns
from hexveil.records.dataset import Dataset
from hexveil.records.private_presence.private_dataset import PrivateDataset

if TYPE_CHECKING:
    from hexveil.mechanisms.contract import StagedPlan
    from hexveil.mechanisms.distribution.combined_stages import CombinedStages
    from hexveil.mechanisms.looks.kinds import ReleaseAllocation
    from hexveil.model.declared_grid import DeclaredFacts
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.publishing.privacy_models import AnyDataset, AnyPlan, ReleasablePlan

SMOOTHED = "smoothed"
_OTHER_COLUMNS = (
    "the plan was made for other records (the value columns differ); plan these records again."
)


def check_arguments(
    dataset: AnyDataset,
    plan: AnyPlan,
    ledger: Ledger | None,
    estimates: tuple[str, ...] | str,
) -> Ledger:
    """Return the ledger of a release that can be made from these arguments.

    Raises
    ------
    InputError
        See `release`.
    """
    if isinstance(dataset, (PrivateDataset, PrivateColumns)):
        if items_of(estimates) != ["raw"]:
            raise InputError('estimates under private presence are ("raw",): leave them out.')
        if not isinstance(plan, DeclaredPlan):
            raise InputError(
                f"records with private presence need a plan made for them, got "
                f"{type(plan).__name__}."
            )
        return check_declared(dataset.public, plan, ledger)
    if isinstance(plan, DeclaredPlan):
        raise InputError('the plan is for records read with protect="presence".')
    if isinstance(plan, ColumnPlans) or isinstance(dataset, ColumnDatasets):
        if (
            not isinstance(plan, ColumnPlans)
            or not isinstance(dataset, ColumnDatasets)
            or set(plan.plans) != set(dataset.datasets)
        ):
            raise InputError(_OTHER_COLUMNS)
        check_prefixes(dataset.public)
        for column, own_plan in plan.plans.items():
            check_arguments(dataset.datasets[column], own_plan, ledger, estimates)
        return _check_ledger(ledger)
    return _check_column(dataset, plan, ledger, estimates)


def _check_column(
    dataset: object,
    plan: ReleasablePlan,
    ledger: Ledger | None,
    estimates: tuple[str, ...] | str,
) -> Ledger:
    """Return the ledger of a release of one value column where occupancy is public."""
    if not isinstance(dataset, Dataset):
        raise InputError(f"a release needs the records as read, got {type(dataset).__name__}.")
    book = _check_ledger(ledger)
    _check_estimates(estimates, dataset.public)
    _check_smoothing(estimates, plan)
    if isinstance(plan, (Plan, DistributionPlan)):
        check_same_promise(book.account.name, book.account.delta, plan.delta)
    check_units(dataset)
    _check_records(dataset, plan)
    check_labels(dataset.public)
    if isinstance(plan, DistributionPlan):
        _check_bins(dataset.public, plan)
        check_label_columns(dataset.public, plan.terms)
    return book


def _check_ledger(ledger: object) -> Ledger:
    """Refuse a release without a ledger."""
    if not isinstance(ledger, Ledger):
        raise InputError(
            "a release needs a ledger with a budget, where its privacy loss is booked first: "
            'ledger=hv.Ledger("ledger.sqlite", dataset="buses", budget="5").'
        )
    return ledger


def check_declared(
    facts: DeclaredFacts | DeclaredColumns, plan: DeclaredPlan, ledger: Ledger | None
) -> Ledger:
    """Return the ledger of a release under private presence; declarations alone are looked at.

    Raises
    ------
    InputError
        If the plan is another data set's, or its promise another than the account's, or there is
        no ledger.
    """
    book = _check_ledger(ledger)
    if isinstance(plan, DeclaredColumnPlans) or isinstance(facts, DeclaredColumns):
        if (
            not isinstance(plan, DeclaredColumnPlans)
            or not isinstance(facts, DeclaredColumns)
            or set(plan.plans) != set(facts.columns)
        ):
            raise InputError(_OTHER_COLUMNS)
        check_prefixes(facts)
        pairs = [(facts.columns[column], own) for column, own in plan.plans.items()]
    else:
        pairs = [(facts, plan)]
    for own_facts, own_plan in pairs:
        if _reading(own_facts) != _reading(own_plan.facts):
            raise InputError("the plan was made for another declared reading; plan again.")
        check_same_promise(book.account.name, book.account.delta, own_plan.delta)
        check_label_names(own_facts.cells)
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


def _check_smoothing(estimates: tuple[str, ...] | str, plan: ReleasablePlan) -> None:
    """Refuse smoothing of means with noise that depends on private choices."""
    if SMOOTHED in estimates and isinstance(plan, DistributionPlan):
        raise InputError(
            "smoothed goes with means and variances alone: quantiles and shares are estimated from "
            "all cells together anyway; request raw alone."
        )
    if SMOOTHED not in estimates or not isinstance(plan, Plan):
        return
    if plan.allocation.clipping.has_stages:
        raise InputError(
            f"smoothed needs noise of a scale known beforehand, which {plan.mechanism} does not "
            "have in general; request raw alone, or another mechanism."
        )


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


def _check_records(dataset: Dataset, plan: ReleasablePlan) -> None:
    """Refuse a plan that was made for other records."""
    if not isinstance(plan, (Plan, DistributionPlan)):
        raise InputError(f"a release needs a plan made by hv.plan, got {type(plan).__name__}.")
    if plan.facts is None:
        raise InputError("the plan was made for a bare occupancy; plan the records as read.")
    check_same_records(dataset.public, plan.facts)


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


def _check_bins(read: PublicMetadata, plan: DistributionPlan) -> None:
    """Refuse records that were counted by other bins than a plan was made for."""
    planned = plan.facts.bins
    if read.bins is None or planned is None or read.bins.identity() != planned.identity():
        raise InputError(
            "the plan was made for records counted by other bins; read them with the same "
            "statistics."
        )


def check_plan(
    dataset: AnyDataset, plan: AnyPlan, stages: StagedPlan, *, accept_noise: bool
) -> None:
    """Refuse plans that cannot be computed or noised, or that are no better than a constant.

    Raises
    ------
    InputError
        See `release`.
    """
    useless = _refusal(dataset, plan, stages, accept_noise=accept_noise)
    if useless is not None and not accept_noise:
        raise InputError(
            f"nothing was spent: {useless.removesuffix('.')}; accept_noise=True releases the map "
            "anyway."
        )


def _refusal(
    dataset: AnyDataset, plan: AnyPlan, stages: StagedPlan, *, accept_noise: bool
) -> str | None:
    """Return why a map has nothing to say; refuse what cannot be computed or noised."""
    if isinstance(plan, ColumnPlans):
        combined, datasets = cast("CombinedStages", stages), cast("ColumnDatasets", dataset)
        for column, own_plan in plan.plans.items():
            # Judged once for all columns, without looking for other grids.
            own_stages, own_data = combined.component(column).plan, datasets.datasets[column]
            check_plan(own_data, own_plan, own_stages, accept_noise=True)
    elif isinstance(plan, DistributionPlan):
        _check_moments(cast("Dataset", dataset), plan)
        if not plan.epsilon:
            raise InputError(
                "nothing was spent: at this epsilon every cell would publish the same constant; "
                "ask for larger cells or more epsilon."
            )
    elif isinstance(plan, Plan):
        allocation, records = cast("ReleaseAllocation", stages), cast("Dataset", dataset)
        epsilon, has_squares = float(plan.requested_epsilon), records.has_squares
        allocation.check_release(records.public.lattice, epsilon, has_squares=has_squares)
        # The advice looks for grids, which takes longer than the plan.
        is_useless = not accept_noise and not plan.support.beats_constant
        return advice(plan) if is_useless else None
    return plan.refusal


def _check_moments(dataset: Dataset, plan: DistributionPlan) -> None:
    """Refuse means and variances, or mean scores, that cannot be computed or noised."""
    lattice = dataset.public.lattice
    plans = {MOMENTS: (plan.moment_plan, lattice), SCORES: (plan.score_plan, SCORE_LATTICE)}
    for name, (one, own_lattice) in plans.items():
        if one is not None:
            allocation = cast("ReleaseAllocation", plan.allocation().component(name).plan)
            epsilon, has_squares = float(one.requested_epsilon), dataset.has_squares
            allocation.check_release(own_lattice, epsilon, has_squares=has_squares)
