"""From records with private presence and a plan to a release: the door of this privacy model.

Checks come first and look at declarations alone; then `presence_release` books, draws and stores;
what is returned is made from stored noisy numbers.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.ledger import Ledger
from hexveil.ledger.promises import check_same_promise
from hexveil.mechanisms.contract import replay
from hexveil.planning.presence.presence_plan import PresencePlan
from hexveil.publishing.ledger_journal import rows_of
from hexveil.publishing.pinned_unit import unit_of
from hexveil.publishing.presence.presence_manifest import presence_manifest
from hexveil.publishing.presence.presence_release import BalanceKey, book_and_draw
from hexveil.publishing.presence.presence_table import (
    check_label_names,
    decode_outputs,
    released_table,
)
from hexveil.publishing.presence.request_identity import PRIVATE, identify, request_name
from hexveil.publishing.published_numbers import Release

if TYPE_CHECKING:
    from typing import Any

    from hexveil.mechanisms.contract import Outputs
    from hexveil.model.declared_facts import DeclaredFacts
    from hexveil.records.private_presence.private_dataset import PrivateDataset

_EPOCH = date(1970, 1, 1)
_THURSDAY = 3
"""Days from the Monday before 1970-01-01 to it."""


def publish_presence(
    dataset: PrivateDataset, plan: object, *, ledger: Ledger | None, accept_noise: bool
) -> Release:
    """Publish a plan's numbers: book the loss of any unit, draw once, return the release.

    Raises
    ------
    InputError, BudgetError, StorageError
        See `hexveil.release`; nothing is spent.

    Privacy
    -------
    Neighbours, sensitivity and loss: mechanisms/presence/contribution.py (the maps),
    mechanisms/presence/population_quantile.py (the choices), mechanisms/presence/count_map.py and
    mechanisms/presence/shapes/binned_weights.py (medians, shares and histograms).
    ε is booked for any unit, present or not, before anything is measured.
    """
    if not isinstance(plan, PresencePlan):
        raise InputError(
            f"records with private presence need a plan made for them, got {type(plan).__name__}."
        )
    book = check_presence(dataset.public, plan, ledger, accept_noise=accept_noise)
    facts = presence_request(book.dataset, plan)
    outputs, replayed = book_and_draw(
        dataset.pairs, plan.request.allocation(), facts, book, balance_of(dataset.public)
    )
    return _decode(plan, outputs, book, replayed=replayed)


def replay_presence(plan: PresencePlan, ledger: Ledger) -> Release | None:
    """Return the release of a request that the ledger has all numbers of; None if it has not.

    No record is read for it, and nothing is spent.
    """
    booking = ledger.find(request_name(presence_request(ledger.dataset, plan)))
    if booking is None or not booking.complete:
        return None
    outputs = replay(plan.request.allocation(), rows_of(booking.stages))
    return _decode(plan, outputs, ledger, replayed=True)


def _decode(plan: PresencePlan, outputs: Outputs, book: Ledger, *, replayed: bool) -> Release:
    """Return the release of stored outputs; post-processing, without records."""
    declared, name = plan.facts, request_name(presence_request(book.dataset, plan))
    decoded = decode_outputs(plan.request, outputs)
    table = released_table(plan.request, decoded, declared.value, declared.value_unit)
    manifest = presence_manifest(book.dataset, plan, outputs, name, _position(book, name))
    return Release(table, manifest, plan.epsilon, replayed)


def check_presence(
    facts: DeclaredFacts, plan: PresencePlan, ledger: Ledger | None, *, accept_noise: bool = False
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
    if plan.refusal is not None and not accept_noise:
        raise InputError(f"{plan.refusal} Or accept the noise (accept_noise=True).")
    return ledger


def _reading(facts: DeclaredFacts) -> dict[str, str]:
    """Return a declared reading without the names of files, which a plan may not know yet."""
    return {name: text for name, text in facts.identity.items() if name != "source"}


def _fine_bins(facts: DeclaredFacts) -> str:
    """Return the bins in which records are counted as text; "" without any."""
    return "" if facts.bins is None else facts.bins.identity()


def presence_request(dataset: str, plan: PresencePlan) -> dict[str, str]:
    """Return the request in words: declared facts, so that equal requests replay."""
    facts = plan.facts
    identity = identify(plan.request, dataset, facts.identity)
    edition = {} if plan.edition is None else {"edition": plan.edition}
    return identity | {"value": facts.value, "unit": facts.privacy_unit} | edition


def balance_of(facts: DeclaredFacts) -> BalanceKey:
    """Return the units of a booking: any unit, on its declared days or weeks.

    Units of a day begin by a clock, which is part of what the account pins (`pinned_unit`).
    """
    unit = f"{unit_of(facts)}; {PRIVATE}"
    if facts.privacy_unit == "user" or facts.days is None:
        return BalanceKey(unit)
    first, last = facts.days
    if facts.privacy_unit == "user-day":
        days = range(first, last + 1)
    else:
        # Weeks begin on Mondays, as for units that are counted.
        days = range(first - (first + _THURSDAY) % 7, last + 1, 7)
    return BalanceKey(unit, tuple((_EPOCH + timedelta(day)).isoformat() for day in days))


def _position(book: Ledger, name: str) -> dict[str, Any] | None:
    """Return the ledger event that stored a request's numbers."""
    booking = book.find(name)
    if booking is None or not booking.complete:
        return None
    return {"entry": booking.entry, "chain": booking.chain}
