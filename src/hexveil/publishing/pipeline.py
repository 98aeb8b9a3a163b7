"""From a plan to published numbers: booked first, noised once, stored before anyone sees them.

One path for every kind of plan and both privacy models (booking.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from hexveil.base.errors import InputError
from hexveil.base.optional_packages import installed_version
from hexveil.base.work_share import DRAWS, RELEASING, parts_of_work, share_of_work
from hexveil.mechanisms.contract import DONE, StagedPlan, execute, rehearse, replay
from hexveil.mechanisms.distribution import ColumnSums
from hexveil.mechanisms.distribution.binned_stage import BinnedBlockSums, BinnedSums
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.presence import PresenceSums
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.mechanisms.stage_data import Outputs, PrivateSums
from hexveil.planning import saved_plans
from hexveil.publishing.booking import (
    Charge,
    LedgerJournal,
    charge_of,
    identify_request,
    pin_unit,
    refuse_other_unit,
    rows_of,
)
from hexveil.publishing.components import join_tables, statements_of_whole
from hexveil.publishing.estimates.places import with_places
from hexveil.publishing.estimates.table import name_columns
from hexveil.publishing.manifest import build_manifest
from hexveil.publishing.part_kinds import KINDS
from hexveil.publishing.published_numbers import Release
from hexveil.publishing.release_checks import SMOOTHED, check_arguments, check_plan
from hexveil.records.column_datasets import ColumnDatasets, PrivateColumns, PrivateDataset
from hexveil.records.dataset import Dataset, DistributedSums

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.ledger import Ledger
    from hexveil.mechanisms.distribution import CombinedStages
    from hexveil.planning.component import PlanComponent
    from hexveil.planning.plan import Plan
    from hexveil.publishing.booking import AnyDataset, ReleasableDataset
    from hexveil.publishing.estimates.decoded_moments import Estimates
    from hexveil.publishing.memory.history import History


@dataclass(frozen=True, eq=False)
class _Draw:
    """A plan, and the outputs of its stages."""

    plan: Plan
    stages: StagedPlan
    outputs: Outputs
    replayed: bool


def release(
    dataset: AnyDataset,
    plan: Plan,
    *,
    ledger: Ledger | None = None,
    estimates: tuple[str, ...] | str = ("raw",),
    accept_noise: bool = False,
    history: History | None = None,
) -> Release:
    """Publish a plan's numbers: book the loss, draw the noise once, return the release.

    A request is its goal (planning/component.py). The ledger keeps the first plan booked for a
    goal, and a repeated request gets that plan and its numbers at no cost: on another processor,
    and from another version of hexveil that plans better. To plan anew, and pay again, give the
    plan another `edition`. A plan of constants alone costs nothing: nothing is booked, and no value
    is read.

    Parameters
    ----------
    dataset : Dataset, PrivateDataset, ColumnDatasets or PrivateColumns
        The records that the plan was made for. If their presence is private, the loss is booked
        for any unit, present or not. Of several value columns the loss of each unit over all of
        them is booked.
    plan : Plan
    ledger : Ledger
        Where the loss is booked before any noise is drawn.
    estimates : tuple of str
        ("raw",), or for means and variances ("raw", "smoothed"): adds estimates shrunk towards
        similar cells, with intervals by a stated model. They are post-processing of noisy numbers
        and cost nothing.
    accept_noise : bool
        Release even a map that is no more accurate than one constant for all cells.
    history : History, optional
        Earlier releases of an archive. Estimates of means of one value column remember them, where
        that makes their intervals narrower: post-processing of published numbers, which costs
        nothing.

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
    Neighbours, sensitivity and loss: mechanisms/looks/clipped_mean.py for means,
    mechanisms/looks/clipped_variance.py for variances; in a private clipping range
    mechanisms/looks/pooled_means.py, mechanisms/looks/weighted_mean.py,
    mechanisms/looks/weighted_variance.py and mechanisms/looks/cell_stages.py; of quantiles,
    shares and histograms mechanisms/distribution/binned_stage.py and
    mechanisms/distribution/__init__.py; under private presence
    mechanisms/presence/contribution.py (the maps), mechanisms/looks/pooled_means.py (how values
    lie), mechanisms/presence/count_map.py and
    mechanisms/presence/shape_allocation.py (medians, shares and histograms). The losses
    booked are those of each unit, or of any, rounded up, over all statistics; the largest is the
    release's `epsilon`. They are computed again from the scales that go to the noise library, and
    compared with what was booked. Noise is drawn after the booking is committed, by
    mechanisms/noise.py alone. The result of each private stage is stored before the next is
    computed, nothing is drawn twice under one booking, and only what the ledger stored is shown.
    """
    book = check_arguments(dataset, plan, ledger, estimates)
    wanted: Estimates = "smoothed" if SMOOTHED in estimates else "posterior"
    draw = _find_stored(dataset, plan, book)
    if draw is None:
        plan, stages = _select_plan(dataset, plan, book)
        check_plan(dataset, plan, accept_noise=accept_noise)
        # Where no stage reads a value there is no loss to book.
        if stages.next_stage(Outputs()) is DONE:
            pin_unit(dataset.public, book)
            draw = _Draw(plan, stages, Outputs(), replayed=False)
        else:
            # An error that public facts decide must come before the booking.
            rehearsal = _Draw(plan, stages, rehearse(stages), replayed=False)
            with share_of_work(RELEASING, 0.0, 0.05):
                _decode(dataset, rehearsal, book, estimates="none")
            with share_of_work(RELEASING, 0.05, 0.4, DRAWS):
                draw = _book_and_draw(dataset, plan, book)
    with share_of_work(RELEASING, 0.4, 1.0):
        return _decode(dataset, draw, book, estimates=wanted, history=history)


def preview_release(
    dataset: ReleasableDataset,
    plan: Plan,
    *,
    ledger: Ledger,
    estimates: tuple[str, ...] | str = ("raw",),
) -> tuple[Plan, bool]:
    """Return the plan that `release` would use, and whether it would only replay numbers.

    Every check of `release` is made; nothing is booked, drawn or decoded.

    Raises
    ------
    InputError
        See `release`.
    """
    book = check_arguments(dataset, plan, ledger, estimates)
    if (draw := _find_stored(dataset, plan, book)) is not None:
        return draw.plan, True
    selected, _ = _select_plan(dataset, plan, book)
    check_plan(dataset, selected, accept_noise=True)
    refuse_other_unit(dataset.public, book)
    return selected, False


def replay_presence(plan: Plan, ledger: Ledger, history: History | None = None) -> Release | None:
    """Return the release of a request that the ledger has all numbers of; None if it has not.

    No record is read for it, and nothing is spent.
    """
    draw = _find_stored(None, plan, ledger)
    return None if draw is None else _decode(None, draw, ledger, history=history)


def _find_stored(dataset: AnyDataset | None, plan: Plan, book: Ledger) -> _Draw | None:
    """Return the stored outputs of a complete request; None if there are none."""
    booking = book.find(identify_request(dataset, plan, book.dataset)[0])
    if booking is None or not booking.complete:
        return None
    plan, stages = _select_plan(dataset, plan, book)
    return _Draw(plan, stages, replay(stages, rows_of(booking.stages)), replayed=True)


def _book_and_draw(dataset: AnyDataset, plan: Plan, book: Ledger) -> _Draw:
    """Book the losses; then measure, noise and store stage by stage."""
    # One process at a time: whoever waits here gets the numbers that the other one stored.
    with book.drawing():
        # Selected again under the lock: another process may have booked its plan meanwhile.
        plan, stages = _select_plan(dataset, plan, book)
        charge = charge_of(dataset, plan, stages, book)
        outputs, replayed = draw_once(charge, stages, sums_of(dataset, plan), book)
    return _Draw(plan, stages, outputs, replayed)


def draw_once(
    charge: Charge, stages: StagedPlan, sums: PrivateSums, ledger: Ledger
) -> tuple[Outputs, bool]:
    """Book a charge and draw, under the ledger's lock; or return the stored outputs, and True.

    `sums` are PRIVATE.
    """
    booking = ledger.reserve(charge.name, **charge.booked)
    if booking.complete:
        return replay(stages, rows_of(booking.stages)), True
    # The vetted door is made here and nowhere else: no caller can give a release another one.
    # Squares of mu add up where noise is Gaussian, losses elsewhere.
    meter = Meter(charge.metered, squared=bool(charge.delta))
    outputs = execute(stages, sums, VettedNoise(), LedgerJournal(ledger, charge.name), meter)
    ledger.complete(charge.name)
    return outputs, False


def _decode(
    dataset: AnyDataset | None,
    draw: _Draw,
    book: Ledger,
    *,
    estimates: Estimates = "posterior",
    history: History | None = None,
) -> Release:
    """Return the release of stored outputs; post-processing, without sums."""
    plan, history = draw.plan, history if draw.plan.is_single else None
    name = identify_request(dataset, plan, book.dataset)[0]
    booking, position, memory = book.find(name), None, None
    # Constants alone cost nothing, whatever else was booked under the request.
    if plan.epsilon and booking is not None and booking.complete:
        position = {"entry": booking.entry, "chain": booking.chain}
    tables, entries, own, all_facts = {}, {}, {}, {}
    parts = tuple(_by_column(dataset, draw))
    for facts, component, stages, outputs in parts_of_work(RELEASING, parts):
        column = facts.value
        tables[column], entries[column], memory = KINDS[component.kind].publish(
            component, facts, stages, outputs, estimates, history
        )
        naming, all_facts[column] = name_columns(facts.cells), facts
        own[column] = [one for one in tables[column].column_names if one not in naming]
    manifest = build_manifest(book.dataset, plan, all_facts, entries, (name, position))
    table = with_places(join_tables(tables, own), statements_of_whole(manifest))
    return Release(table, manifest, plan.epsilon, draw.replayed, memory)


def _by_column(
    dataset: AnyDataset | None, draw: _Draw
) -> Iterator[tuple[Any, PlanComponent, StagedPlan, Outputs]]:
    """Yield the facts of each value column, as read; its part, and its stages and outputs."""
    plan = draw.plan
    if plan.is_single:
        facts = plan.single.facts if dataset is None else dataset.public
        yield facts, plan.single, draw.stages, draw.outputs
        return
    for column, component in plan.components.items():
        own = cast("CombinedStages", draw.stages).component(column)
        yield component.facts, component, own.plan, own.outputs(draw.outputs)


def _select_plan(dataset: AnyDataset | None, plan: Plan, book: Ledger) -> tuple[Plan, StagedPlan]:
    """Return the plan that is booked for this goal, else this one, with its stages."""
    # A plan from declarations alone is the same wherever it is made.
    if not plan.is_declared:
        # A new plan computes its figures anew, from the arrays as they are now.
        plan = booked_plan(dataset, plan, book) or plan.anew()
    return plan, plan.stages()


def booked_plan(dataset: AnyDataset | None, plan: Plan, ledger: Ledger) -> Plan | None:
    """Return the plan that was booked for this plan's goal, or None if none was.

    Raises
    ------
    InputError
        If it was stored by a version of hexveil that this one cannot read, or another version
        began to draw by it.
    """
    name = identify_request(dataset, plan, ledger.dataset)[0]
    encoded = ledger.plan_of(name)
    if encoded is None:
        return None
    booking, version = ledger.find(name), saved_plans.made_by(encoded)
    # Stages measured so far are of that version's arithmetic: another one could not go on.
    if booking is not None and booking.state == "measured" and version != installed_version():
        raise InputError(
            f"hexveil {version} has drawn noise for some stages of this release; finish it with "
            "that version, or abandon it (hexveil ledger resolve)."
        )
    return saved_plans.decode(encoded, plan)


def sums_of(dataset: AnyDataset, plan: Plan) -> PrivateSums:
    """Return the sums that the stages of a plan measure, of each value column. PRIVATE."""
    if isinstance(dataset, (ColumnDatasets, PrivateColumns)):
        return ColumnSums(
            {
                name: private_sums(dataset.datasets[name], binned=part.reads_bins)
                for name, part in plan.components.items()
            }
        )
    return private_sums(dataset, binned=plan.single.reads_bins)


def private_sums(dataset: Dataset | PrivateDataset, *, binned: bool = False) -> PrivateSums:
    """Return the sums of a data set, perhaps with its counts by bin, a batch of one. PRIVATE."""
    if isinstance(dataset, PrivateDataset):
        return PresenceSums(dataset.pairs)
    sums = dataset.sums
    # The one place where a release asks where its sums are.
    if isinstance(sums, DistributedSums):
        # Measured in their blocks, never fetched.
        return BinnedBlockSums(sums)
    if not binned:
        return PrivateSums(sums.total, sums.total_sq)
    assert sums.bins is not None  # noqa: S101  see release_checks
    return BinnedSums(sums.total, sums.total_sq, sums.bins)
