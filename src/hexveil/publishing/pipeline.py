"""From a plan to published numbers: booked first, noised once, stored before anyone sees them."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from hexveil.base.errors import InputError
from hexveil.base.items import items_of
from hexveil.base.work_share import (
    DRAWS,
    ESTIMATES,
    RELEASING,
    SEARCH,
    parts_of_work,
    share_of_work,
)
from hexveil.ledger import hash_losses
from hexveil.mechanisms.contract import DONE, Meter, Outputs, execute, rehearse, replay
from hexveil.mechanisms.noise import VettedNoise
from hexveil.planning.columns.column_plan import ColumnPlans, DeclaredColumnPlans
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.planning.presence.presence_plan import PresencePlan
from hexveil.planning.serialization import plan_codec
from hexveil.publishing.columns.column_manifest import build_columns_manifest
from hexveil.publishing.columns.column_release import ColumnReleases, with_column_costs
from hexveil.publishing.distribution.distribution_manifest import build_distribution_manifest
from hexveil.publishing.distribution.distribution_table import decode_release
from hexveil.publishing.distribution.releasable_plans import stages_of, sums_of
from hexveil.publishing.estimates.decoded_moments import decode_moments
from hexveil.publishing.ledger_journal import LedgerJournal, rows_of
from hexveil.publishing.manifest import build_manifest, fingerprint, request_of
from hexveil.publishing.pinned_unit import unit_of
from hexveil.publishing.places import with_places
from hexveil.publishing.presence.presence_publication import publish_presence
from hexveil.publishing.published_numbers import Release
from hexveil.publishing.release_checks import SMOOTHED, check_arguments, check_plan
from hexveil.records.columns.column_datasets import PrivateColumns
from hexveil.records.private_presence.private_dataset import PrivateDataset

if TYPE_CHECKING:
    from hexveil.ledger import Booking, Ledger
    from hexveil.mechanisms.distribution.combined_stages import CombinedStages
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning import Plan
    from hexveil.planning.columns.column_plan import SingleColumnPlan
    from hexveil.publishing.distribution.releasable_plans import (
        ReleasableDataset,
        ReleasablePlan,
        ReleasableStages,
    )
    from hexveil.records.columns.column_datasets import ColumnDatasets
    from hexveil.records.dataset import Dataset


@dataclass(frozen=True, eq=False)
class _Draw:
    """A plan, and the outputs of its stages."""

    plan: ReleasablePlan
    allocation: ReleasableStages
    outputs: Outputs
    replayed: bool


def release(
    dataset: Dataset | PrivateDataset | ColumnDatasets | PrivateColumns,
    plan: Plan | DistributionPlan | PresencePlan | ColumnPlans | DeclaredColumnPlans,
    *,
    ledger: Ledger | None = None,
    estimates: tuple[str, ...] | str = ("raw",),
    accept_noise: bool = False,
) -> Release:
    """Publish a plan's numbers: book the loss, draw the noise once, return the release.

    A request is its goal (planning/goal.py). The ledger keeps the first plan booked for a goal, and
    a repeated request gets that plan and its numbers at no cost: on another processor, and from
    another version of hexveil that plans better. To plan anew, and pay again, give the plan another
    `edition`. A plan of constants alone costs nothing: nothing is booked, and no value is read.

    Parameters
    ----------
    dataset : Dataset, PrivateDataset, ColumnDatasets or PrivateColumns
        The records that the plan was made for. If their presence is private, the loss is booked
        for any unit, present or not. Of several value columns the loss of each unit over all of
        them is booked, and the release is a `ColumnReleases`.
    plan : Plan, DistributionPlan, PresencePlan, ColumnPlans or DeclaredColumnPlans
    ledger : Ledger
        Where the loss is booked before any noise is drawn.
    estimates : tuple of str
        ("raw",), or for means and variances ("raw", "smoothed"): adds estimates shrunk towards
        similar cells, with intervals by a stated model. They are post-processing of noisy numbers
        and cost nothing.
    accept_noise : bool
        Release even a map that is no more accurate than one constant for all cells.

    Raises
    ------
    InputError
        Without a ledger, if the plan was made for other records, its grid is too fine and the noise
        was not accepted, or if it asks for variances and there are no sums of squares; nothing is
        spent.
    BudgetError
        If the loss exceeds the remaining budget; nothing is spent.
    StorageError
        If the ledger cannot be used.

    Privacy
    -------
    Neighbours, sensitivity and loss: mechanisms/clipped/clipped_mean.py for means,
    mechanisms/clipped/clipped_variance.py for variances; in a private clipping range
    mechanisms/private_quantile.py, mechanisms/weighted/weighted_mean.py,
    mechanisms/weighted/weighted_variance.py and
    mechanisms/cell_ranges/cell_range_allocation.py; of quantiles, shares and histograms
    mechanisms/distribution/binned_stage.py and mechanisms/distribution/combined_stages.py. The
    losses booked are those of each unit, rounded up, over all statistics; the largest is the
    release's `epsilon`. They are computed again from the scales that go to the noise library, and
    compared with what was booked. Noise is drawn after the booking is committed, by
    mechanisms/noise.py alone. The result of each private stage is stored before the next is
    computed, nothing is drawn twice under one booking, and only what the ledger stored is shown.
    """
    if isinstance(dataset, (PrivateDataset, PrivateColumns)):
        if items_of(estimates) != ["raw"]:
            raise InputError('estimates under private presence are ("raw",): leave them out.')
        return publish_presence(dataset, plan, ledger=ledger, accept_noise=accept_noise)
    if isinstance(plan, (PresencePlan, DeclaredColumnPlans)):
        raise InputError('the plan is for records read with protect="presence".')
    book = check_arguments(dataset, plan, ledger, estimates)
    request = request_of(book.dataset, dataset.public, plan)
    draw = _find_stored(dataset, plan, book, request)
    if draw is None:
        plan, allocation = _select_plan(dataset, plan, book)
        check_plan(dataset, plan, allocation, accept_noise=accept_noise)
        # Where no stage reads a value there is no loss to book.
        if allocation.next_stage(Outputs()) is DONE:
            draw = _Draw(plan, allocation, Outputs(), replayed=False)
        else:
            # An error that public facts decide must come before the booking.
            rehearsal = _Draw(plan, allocation, rehearse(allocation), replayed=False)
            with share_of_work(RELEASING, 0.0, 0.2):
                _decode(dataset, rehearsal, book, request, smoothing=SMOOTHED in estimates)
            with share_of_work(RELEASING, 0.2, 0.5, DRAWS):
                draw = _book_and_draw(dataset, plan, book, request)
    with share_of_work(RELEASING, 0.5, 1.0):
        return _decode(dataset, draw, book, request, smoothing=SMOOTHED in estimates)


def preview_release(
    dataset: ReleasableDataset,
    plan: ReleasablePlan,
    *,
    ledger: Ledger,
    estimates: tuple[str, ...] | str = ("raw",),
) -> tuple[ReleasablePlan, bool]:
    """Return the plan that `release` would use, and whether it would only replay numbers.

    Every check of `release` is made; nothing is booked, drawn or decoded.

    Raises
    ------
    InputError
        See `release`.
    """
    book = check_arguments(dataset, plan, ledger, estimates)
    request = request_of(book.dataset, dataset.public, plan)
    booking = book.find(fingerprint(request))
    plan, allocation = _select_plan(dataset, plan, book)
    if booking is not None and booking.complete:
        return plan, True
    check_plan(dataset, plan, allocation, accept_noise=True)
    return plan, False


def _find_stored(
    dataset: ReleasableDataset, plan: ReleasablePlan, book: Ledger, request: dict[str, str]
) -> _Draw | None:
    """Return the stored outputs of a complete request; None if there are none."""
    booking = book.find(fingerprint(request))
    if booking is None or not booking.complete:
        return None
    plan, allocation = _select_plan(dataset, plan, book)
    return _replay(plan, allocation, booking)


def _replay(plan: ReleasablePlan, allocation: ReleasableStages, booking: Booking) -> _Draw:
    return _Draw(plan, allocation, replay(allocation, rows_of(booking.stages)), replayed=True)


def _book_and_draw(
    dataset: ReleasableDataset, plan: ReleasablePlan, book: Ledger, request: dict[str, str]
) -> _Draw:
    """Book the losses; then measure, noise and store stage by stage."""
    assert dataset.units is not None  # noqa: S101  see check_arguments
    units, name = dataset.units, fingerprint(request)
    # One process at a time: whoever waits here gets the numbers that the other one stored.
    with book.drawing():
        # Selected again under the lock: another process may have booked its plan meanwhile.
        plan, allocation = _select_plan(dataset, plan, book)
        book.refuse_former_units(units.ids(), units.periods())
        losses = allocation.losses()
        hashed = hash_losses(
            units.ids(), losses, book.key, max_loss=plan.booked_limit, periods=units.periods()
        )
        with with_column_costs(plan):
            booking = book.reserve(
                name,
                hashed,
                privacy_unit=unit_of(dataset.public),
                facts=request,
                plan=book.plan_of(name) or plan_codec.encode(plan),
                delta=plan.delta,
                id_space=dataset.public.id_space,
                missing_values=dataset.public.identity.get("drop_values", ""),
            )
        if booking.complete:
            return _replay(plan, allocation, booking)
        journal = LedgerJournal(book, name)
        # The vetted door is made here and nowhere else: no caller can give a release another one.
        # Squares of mu add up where noise is Gaussian, losses elsewhere.
        meter = Meter(losses, squared=bool(plan.delta))
        outputs = execute(allocation, sums_of(dataset, plan), VettedNoise(), journal, meter)
        book.complete(name)
    return _Draw(plan, allocation, outputs, replayed=False)


def _decode(
    dataset: ReleasableDataset,
    draw: _Draw,
    book: Ledger,
    request: dict[str, str],
    *,
    smoothing: bool,
) -> Release:
    """Return the release of stored outputs; post-processing, without sums."""
    name = fingerprint(request)
    position = _ledger_position(book, name)
    decoding = _Decoding(book.dataset, name, position, smoothing, draw.replayed)
    if not isinstance(draw.plan, ColumnPlans):
        facts = cast("PublicMetadata", dataset.public)
        return decoding.decode_column(facts, draw.plan, draw.allocation, draw.outputs)
    manifest = build_columns_manifest(book.dataset, draw.plan, name, position)
    releases = {}
    for column in parts_of_work(RELEASING, tuple(draw.plan.plans)):
        plan = draw.plan.plans[column]
        component = cast("CombinedStages", draw.allocation).component(column)
        stages, own = cast("ReleasableStages", component.plan), component.outputs(draw.outputs)
        facts = draw.plan.facts.columns[column]
        releases[column] = decoding.decode_column(facts, plan, stages, own)
    return ColumnReleases.of(releases, draw.plan, manifest, replayed=draw.replayed)


@dataclass(frozen=True)
class _Decoding:
    """Facts that all value columns of a release have in common."""

    dataset: str
    request: str
    position: dict[str, Any] | None
    smoothing: bool
    replayed: bool

    def decode_column(
        self,
        facts: PublicMetadata,
        plan: SingleColumnPlan,
        stages: ReleasableStages,
        outputs: Outputs,
    ) -> Release:
        """Return the release of one value column."""
        # Constants alone cost nothing, whatever else was booked under the request.
        position = self.position if plan.epsilon else None
        if isinstance(plan, DistributionPlan):
            with share_of_work(RELEASING, 0.0, 0.8, ESTIMATES):
                decoded = decode_release(plan, outputs)
            manifest = build_distribution_manifest(
                self.dataset, plan, decoded, self.request, position
            )
            return Release(
                with_places(decoded.table, manifest), manifest, plan.epsilon, self.replayed
            )
        with share_of_work(RELEASING, 0.0, 0.6, ESTIMATES):
            moments = decode_moments(plan, stages, outputs, facts, smoothing=self.smoothing)
        # It states the lower bound of all plans.
        with share_of_work(RELEASING, 0.6, 1.0, SEARCH):
            manifest = build_manifest(
                self.dataset, facts, moments.plan, self.request, position, moments.smoothed,
                moments.accuracy,
            )  # fmt: skip
        return Release(with_places(moments.table, manifest), manifest, plan.epsilon, self.replayed)


def _ledger_position(book: Ledger, name: str) -> dict[str, Any] | None:
    """Return the ledger event that stored a request's numbers; None if it cost nothing."""
    booking = book.find(name)
    if booking is None or not booking.complete:
        return None
    return {"entry": booking.entry, "chain": booking.chain}


def _select_plan(
    dataset: ReleasableDataset, plan: ReleasablePlan, book: Ledger
) -> tuple[ReleasablePlan, ReleasableStages]:
    """Return the plan that is booked for this goal, else this one, with its allocation."""
    # A new plan computes its figures anew, from the arrays as they are now.
    plan = booked_plan(dataset, plan, book) or replace(plan)
    return plan, stages_of(plan)


def booked_plan(
    dataset: ReleasableDataset, plan: ReleasablePlan, ledger: Ledger
) -> ReleasablePlan | None:
    """Return the plan that was booked for this plan's goal, or None if none was.

    Raises
    ------
    InputError
        If it was stored by a version of hexveil that this one cannot read, or another version
        began to draw by it.
    """
    name = fingerprint(request_of(ledger.dataset, dataset.public, plan))
    encoded = ledger.plan_of(name)
    if encoded is None:
        return None
    booking, version = ledger.find(name), plan_codec.made_by(encoded)
    # Stages measured so far are of that version's arithmetic: another one could not go on.
    if booking is not None and booking.state == "measured" and version != hexveil_version():
        raise InputError(
            f"hexveil {version} has drawn noise for some stages of this release; finish it with "
            "that version, or abandon it (hexveil ledger resolve)."
        )
    return plan_codec.decode(encoded, plan)


def hexveil_version() -> str:
    """Return the version of this package."""
    return importlib.metadata.version("hexveil")
