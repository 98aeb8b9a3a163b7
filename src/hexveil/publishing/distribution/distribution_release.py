"""From a plan of distributions to published numbers: booked first, noised once, stored.

Neighbours: one unit's values all change within the bounds.
Sensitivity and loss: mechanisms/distribution/ for shapes, bins and scores, and for means and
variances the modules that `hexveil.publishing.pipeline.release` names. The losses of all components
are added for each unit, booked together, and computed again from the scales that go to the noise
library. Noise is drawn after the booking is committed, by mechanisms/noise.py alone; the result of
each private stage is stored before the next is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.ledger import Ledger, hash_losses
from hexveil.mechanisms.contract import Meter, execute, replay
from hexveil.mechanisms.noise import VettedNoise
from hexveil.planning.distribution.distribution_codec import (
    decode_distribution_plan,
    distribution_goal,
    encode_distribution,
)
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.planning.release_allocation import check_allocation
from hexveil.publishing.distribution.distribution_folder import DistributionRelease
from hexveil.publishing.distribution.distribution_manifest import build_distribution_manifest
from hexveil.publishing.distribution.distribution_table import (
    build_distribution_table,
    check_label_columns,
)
from hexveil.publishing.estimates.table import check_labels
from hexveil.publishing.ledger_journal import LedgerJournal, rows_of
from hexveil.publishing.manifest import fingerprint, record_facts
from hexveil.publishing.pinned_unit import unit_of
from hexveil.publishing.private_sums import binned_sums
from hexveil.publishing.release_checks import check_same_records, check_units
from hexveil.records.dataset import Dataset

if TYPE_CHECKING:
    from hexveil.mechanisms.contract import Outputs

USELESS_ERROR = 0.115
"""Predicted error of a share of records from which a map is refused: as much as cells differ."""


def release_distribution(
    dataset: Dataset,
    plan: DistributionPlan,
    *,
    ledger: Ledger | None = None,
    accept_noise: bool = False,
) -> DistributionRelease:
    """Publish quantiles, shares and histograms: book the loss, draw the noise once.

    The same request of the same records gets the plan that was booked for it and its numbers again,
    at no cost.

    Parameters
    ----------
    dataset : Dataset
        The records that the plan was made for, read with the same `statistics`.
    plan : DistributionPlan
        By `hexveil.plan_distribution`.
    ledger : Ledger
        Where the loss is booked before any noise is drawn.
    accept_noise : bool
        Release even a map whose shares of records are predicted to be off by as much as cells
        differ.

    Raises
    ------
    InputError
        Without a ledger, or if the plan was made for other records or is predicted to say nothing;
        nothing is spent.
    BudgetError
        If the loss exceeds the remaining budget; nothing is spent.
    StorageError
        If the ledger cannot be used.
    """
    _check_arguments(dataset, plan, ledger)
    assert isinstance(ledger, Ledger)  # noqa: S101  checked before
    facts = request_facts(ledger.dataset, plan)
    name = fingerprint(facts)
    encoded = ledger.plan_of(name)
    if encoded is not None:
        plan = decode_distribution_plan(encoded, plan)
    _check_plan(dataset, plan, accept_noise=accept_noise)
    plan, outputs, is_replay = _book_and_draw(dataset, plan, ledger, facts)
    table, booking = build_distribution_table(plan, outputs), ledger.find(name)
    assert booking is not None  # noqa: S101  it was booked just now, or before
    position = {"entry": booking.entry, "chain": booking.chain}
    manifest = build_distribution_manifest(plan, ledger.dataset, name, position)
    return DistributionRelease(table, manifest, plan.epsilon, is_replay)


def request_facts(dataset: str, plan: DistributionPlan) -> dict[str, str]:
    """Return the public request in words: its goal, and the records it is about."""
    goal = distribution_goal(plan)
    return record_facts(dataset, plan.facts) | {f"plan.{k}": v for k, v in sorted(goal.items())}


def _check_arguments(dataset: object, plan: object, ledger: object) -> None:
    """Refuse arguments that cannot be released, from public facts alone."""
    if not isinstance(dataset, Dataset):
        raise InputError(f"a release needs the records as read, got {type(dataset).__name__}.")
    if not isinstance(plan, DistributionPlan):
        raise InputError(
            "this release needs a plan made by hv.plan_distribution, got "
            f"{type(plan).__name__}; plans of hv.plan are released by hv.release."
        )
    if not isinstance(ledger, Ledger):
        raise InputError(
            "a release needs a ledger with a budget, where its privacy loss is booked first: "
            'ledger=hv.Ledger("ledger.sqlite", dataset="buses", budget="5").'
        )
    check_units(dataset)
    check_same_records(dataset.public, plan.facts)
    bins, planned = dataset.public.bins, plan.facts.bins
    if bins is None or planned is None or bins.identity() != planned.identity():
        raise InputError(
            "the plan was made for records counted by other bins; read them with the same "
            "statistics."
        )
    check_labels(dataset.public)
    check_label_columns(dataset.public, plan.terms)


def _check_plan(dataset: Dataset, plan: DistributionPlan, *, accept_noise: bool) -> None:
    """Refuse plans that cannot be computed or noised, or that are predicted to say nothing."""
    if plan.moment_plan is not None:
        moments = plan.allocation().component("moments").plan
        check_allocation(
            moments,  # type: ignore[arg-type]  # the plan of moments is a release's
            plan.moment_plan,
            dataset.public.lattice,
            has_squares=dataset.has_squares,
        )
    error = plan.expected_error["share"]
    if not error < USELESS_ERROR and not accept_noise:
        raise InputError(
            f"nothing was spent: shares of records are predicted to be off by {error:.2f}, as much "
            "as cells differ. Ask for larger cells or more epsilon; accept_noise=True releases the "
            "map anyway."
        )


def _book_and_draw(
    dataset: Dataset, plan: DistributionPlan, ledger: Ledger, facts: dict[str, str]
) -> tuple[DistributionPlan, Outputs, bool]:
    """Book the losses; then measure, noise and store stage by stage.

    Returned are the booked plan, its outputs, and whether the ledger had them before.
    """
    assert dataset.units is not None  # noqa: S101  see check_units
    units, name = dataset.units, fingerprint(facts)
    # One process at a time: whoever waits here gets the numbers that the other one stored.
    with ledger.drawing():
        encoded = ledger.plan_of(name)
        if encoded is not None:
            plan = decode_distribution_plan(encoded, plan)
        allocation = plan.allocation()
        losses = allocation.losses()
        hashed = hash_losses(
            units.ids(), losses, ledger.key, max_loss=plan.epsilon, periods=units.periods()
        )
        booking = ledger.reserve(
            name,
            hashed,
            privacy_unit=unit_of(dataset.public),
            facts=facts,
            plan=encoded or encode_distribution(plan),
        )
        if booking.complete:
            return plan, replay(allocation, rows_of(booking.stages)), True
        journal = LedgerJournal(ledger, name)
        # The vetted door is made here: no caller can give a release another one.
        outputs = execute(allocation, binned_sums(dataset), VettedNoise(), journal, Meter(losses))
        ledger.complete(name)
    return plan, outputs, False
