"""From records with private presence and a plan to a release: the door of this privacy model.

Of several value columns it books the sum of their losses for any unit: all records of one unit may
be added or removed, with their values in all columns (`mechanisms.distribution.combined_stages`).

Checks come first and look at declarations alone; then `presence_release` books, draws and stores;
what is returned is made from stored noisy numbers.
"""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import TYPE_CHECKING, TypeAlias

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.ledger import Ledger
from hexveil.ledger.promises import check_same_promise
from hexveil.mechanisms.contract import rehearse, replay
from hexveil.mechanisms.distribution.combined_stages import ColumnSums
from hexveil.mechanisms.presence.any_unit import PresenceSums
from hexveil.model.column_facts import DeclaredColumns
from hexveil.planning.columns.column_plan import DeclaredColumnPlans
from hexveil.planning.presence.presence_plan import PresencePlan
from hexveil.publishing.columns.column_manifest import build_columns_manifest
from hexveil.publishing.columns.column_release import ColumnReleases
from hexveil.publishing.columns.column_table import check_prefixes
from hexveil.publishing.ledger_journal import rows_of
from hexveil.publishing.pinned_unit import unit_of
from hexveil.publishing.places import with_places
from hexveil.publishing.presence.map_accuracy import map_accuracy
from hexveil.publishing.presence.presence_manifest import presence_manifest
from hexveil.publishing.presence.presence_release import (
    BalanceKey,
    BookedStages,
    book_and_draw,
)
from hexveil.publishing.presence.presence_table import (
    check_label_names,
    decode_outputs,
    released_table,
)
from hexveil.publishing.presence.request_identity import MODEL, PRIVATE, identify, request_name
from hexveil.publishing.published_numbers import Release
from hexveil.records.columns.column_datasets import PrivateColumns

if TYPE_CHECKING:
    from typing import Any

    from hexveil.mechanisms.contract import Outputs, PrivateSums
    from hexveil.model.declared_grid import DeclaredFacts
    from hexveil.records.private_presence.private_dataset import PrivateDataset

DeclaredPlan: TypeAlias = PresencePlan | DeclaredColumnPlans
"""Plan of one value column, or of several."""
_EPOCH = date(1970, 1, 1)
_THURSDAY = 3
"""Days from the Monday before 1970-01-01 to it."""


def publish_presence(
    dataset: PrivateDataset | PrivateColumns,
    plan: object,
    *,
    ledger: Ledger | None,
    accept_noise: bool,
) -> Release:
    """Publish a plan's numbers: book the loss of any unit, draw once, return the release.

    Raises
    ------
    InputError, BudgetError, StorageError
        See `hexveil.release`; nothing is spent.

    Privacy
    -------
    Neighbours, sensitivity and loss: mechanisms/presence/contribution.py (the maps),
    mechanisms/pooled_histogram.py (how values lie), mechanisms/presence/count_map.py and
    mechanisms/presence/shape_allocation.py (medians, shares and histograms); of several value
    columns mechanisms/distribution/combined_stages.py.
    ε is booked for any unit, present or not, before anything is measured.
    """
    if not isinstance(plan, (PresencePlan, DeclaredColumnPlans)):
        raise InputError(
            f"records with private presence need a plan made for them, got {type(plan).__name__}."
        )
    book = check_presence(dataset.public, plan, ledger, accept_noise=accept_noise)
    if (stored := replay_presence(plan, book)) is not None:
        return stored
    facts, booked = presence_request(book.dataset, plan), booked_stages(plan)
    # An error that public facts decide must come before the booking.
    _decode(plan, rehearse(booked.stages), book, replayed=False)
    outputs, replayed = book_and_draw(
        _sums_of(dataset), booked, facts, book, balance_of(dataset.public)
    )
    return _decode(plan, outputs, book, replayed=replayed)


def _sums_of(dataset: PrivateDataset | PrivateColumns) -> PrivateSums:
    """Return the sums that the stages of a plan measure. PRIVATE."""
    if isinstance(dataset, PrivateColumns):
        return ColumnSums(
            {
                column: PresenceSums(column_dataset.pairs)
                for column, column_dataset in dataset.datasets.items()
            }
        )
    return PresenceSums(dataset.pairs)


def booked_stages(plan: DeclaredPlan) -> BookedStages:
    """Return the stages of a plan, and the losses booked for them."""
    if isinstance(plan, DeclaredColumnPlans):
        return BookedStages(plan.allocation(), plan.promise)
    stages = plan.request.allocation()
    return BookedStages(stages, stages.promise)


def replay_presence(plan: DeclaredPlan, ledger: Ledger) -> Release | None:
    """Return the release of a request that the ledger has all numbers of; None if it has not.

    No record is read for it, and nothing is spent.
    """
    booking = ledger.find(request_name(presence_request(ledger.dataset, plan)))
    if booking is None or not booking.complete:
        return None
    outputs = replay(booked_stages(plan).stages, rows_of(booking.stages))
    return _decode(plan, outputs, ledger, replayed=True)


def _decode(plan: DeclaredPlan, outputs: Outputs, book: Ledger, *, replayed: bool) -> Release:
    """Return the release of stored outputs; post-processing, without records."""
    name = request_name(presence_request(book.dataset, plan))
    if isinstance(plan, PresencePlan):
        return _decode_column(plan, outputs, book, name, replayed=replayed)
    stages, releases = plan.allocation(), {}
    for column, column_plan in plan.plans.items():
        own_outputs = stages.component(column).outputs(outputs)
        releases[column] = _decode_column(column_plan, own_outputs, book, name, replayed=replayed)
    manifest = build_columns_manifest(book.dataset, plan, name, _position(book, name))
    return ColumnReleases.of(releases, plan, manifest, replayed=replayed)


def _decode_column(
    plan: PresencePlan, outputs: Outputs, book: Ledger, name: str, *, replayed: bool
) -> Release:
    """Return the release of one value column, stored under the name of a request."""
    declared, decoded = plan.facts, decode_outputs(plan.request, outputs)
    table = released_table(plan.request, decoded, declared.value, declared.value_unit)
    manifest = presence_manifest(
        book.dataset,
        plan,
        outputs,
        name,
        _position(book, name),
        map_accuracy(plan.request, decoded),
    )
    return Release(with_places(table, manifest), manifest, plan.epsilon, replayed)


def check_presence(
    facts: DeclaredFacts | DeclaredColumns,
    plan: DeclaredPlan,
    ledger: Ledger | None,
    *,
    accept_noise: bool = False,
) -> Ledger:
    """Return the ledger of a release that can be made; declarations alone are looked at.

    Raises
    ------
    InputError
        If the plan is another data set's, or its promise another than the account's, or its map
        has nothing to say and the noise was not accepted, or there is no ledger.
    """
    if not isinstance(ledger, Ledger):
        raise InputError(
            "a release needs a ledger with a budget, where its privacy loss is booked first: "
            'ledger=hv.Ledger("ledger.sqlite", dataset="cars", budget="5").'
        )
    if isinstance(plan, DeclaredColumnPlans) or isinstance(facts, DeclaredColumns):
        _check_columns(facts, plan, ledger)
    else:
        _check_column(facts, plan, ledger)
    if plan.refusal is not None and not accept_noise:
        raise InputError(f"{plan.refusal} Or accept the noise (accept_noise=True).")
    return ledger


def _check_columns(
    facts: DeclaredFacts | DeclaredColumns, plan: DeclaredPlan, ledger: Ledger
) -> None:
    """Refuse a plan of other value columns; check each as if alone."""
    if (
        not isinstance(plan, DeclaredColumnPlans)
        or not isinstance(facts, DeclaredColumns)
        or set(plan.plans) != set(facts.columns)
    ):
        raise InputError(
            "the plan was made for another declared reading (the value columns differ); plan again."
        )
    check_prefixes(facts)
    for column, column_plan in plan.plans.items():
        _check_column(facts.columns[column], column_plan, ledger)


def _check_column(facts: DeclaredFacts, plan: PresencePlan, ledger: Ledger) -> None:
    """Refuse a plan of another reading, or of another promise than the account's."""
    same = (
        facts.grid.fingerprint() == plan.facts.grid.fingerprint()
        and facts.lattice == plan.facts.lattice
        and _reading(facts) == _reading(plan.facts)
        and _fine_bins(facts) == _fine_bins(plan.facts)
    )
    if not same:
        raise InputError("the plan was made for another declared reading; plan again.")
    account = ledger.account
    check_same_promise(account.name, account.delta, plan.delta)
    check_label_names(facts.cells)


def _reading(facts: DeclaredFacts) -> dict[str, str]:
    """Return a declared reading without the names of files, which a plan may not know yet."""
    return {name: text for name, text in facts.identity.items() if name != "source"}


def _fine_bins(facts: DeclaredFacts) -> str:
    """Return the bins in which records are counted as text; "" without any."""
    return "" if facts.bins is None else facts.bins.identity()


def presence_request(dataset: str, plan: DeclaredPlan) -> dict[str, str]:
    """Return the request in words: declared facts, so that equal requests replay."""
    if isinstance(plan, DeclaredColumnPlans):
        requests = {
            column: presence_request(dataset, column_plan)
            for column, column_plan in plan.plans.items()
        }
        return {
            "model": MODEL,
            "source": dataset,
            "epsilon": decimal_text(plan.epsilon),
            # In whichever order columns are named, the request is the same. Each has its part of ε.
            "columns": json.dumps(requests, sort_keys=True),
            "unit": plan.facts.privacy_unit,
        }
    facts = plan.facts
    identity = identify(plan.request, dataset, facts.identity)
    edition = {} if plan.edition is None else {"edition": plan.edition}
    return identity | {"value": facts.value, "unit": facts.privacy_unit} | edition


def balance_of(facts: DeclaredFacts | DeclaredColumns) -> BalanceKey:
    """Return the units of a booking: any unit, on its declared days or weeks.

    Units of a day begin by a clock, which is part of what the account pins (`pinned_unit`).
    """
    if isinstance(facts, DeclaredColumns):
        return balance_of(facts.leading)  # days and clock are common to all columns
    unit, codes = f"{unit_of(facts)}; {PRIVATE}", facts.identity.get("drop_values", "")
    if facts.privacy_unit == "user" or facts.days is None:
        return BalanceKey(unit, ("",), facts.id_space, codes)
    first_day, last_day = facts.days
    if facts.privacy_unit == "user-day":
        days = range(first_day, last_day + 1)
    else:
        # Weeks begin on Mondays, as for units that are counted.
        days = range(first_day - (first_day + _THURSDAY) % 7, last_day + 1, 7)
    periods = tuple((_EPOCH + timedelta(day)).isoformat() for day in days)
    return BalanceKey(unit, periods, facts.id_space, codes)


def _position(book: Ledger, name: str) -> dict[str, Any] | None:
    """Return the ledger event that stored a request's numbers."""
    booking = book.find(name)
    if booking is None or not booking.complete:
        return None
    return {"entry": booking.entry, "chain": booking.chain}
