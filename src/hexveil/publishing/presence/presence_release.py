"""From a request with private presence to published numbers: booked, noised once, stored.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity and loss: `mechanisms.presence`. The ledger books ε for "any unit", in one balance,
before anything is measured: which units there are is private, so none is named. Balance, facts,
stages and their sizes are the same whatever the records are.
Relies on the caller for pairs that were grouped by the privacy unit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.rational import round_up
from hexveil.ledger import hash_losses
from hexveil.mechanisms.contract import Meter, execute, replay
from hexveil.mechanisms.noise import VettedNoise
from hexveil.publishing.ledger_journal import LedgerJournal, rows_of
from hexveil.publishing.presence.request_identity import PRIVACY_UNIT, request_name

if TYPE_CHECKING:
    from hexveil.accounting.promise import Promise
    from hexveil.ledger import Ledger
    from hexveil.mechanisms.contract import Outputs, PrivateSums, StagedPlan

ANY_UNIT = b"any unit, present or not"


@dataclass(frozen=True)
class BalanceKey:
    """Units of a booking under private presence: public, and the same for any records.

    Attributes
    ----------
    unit : str
        The privacy unit as the account pins it.
    periods : tuple of str
        Declared days, or first days of weeks; one empty text where the unit is a user.
    id_space, missing_values : str
        Name of what an id names, and codes of missing readings; "" if not known.
    """

    unit: str = PRIVACY_UNIT
    periods: tuple[str, ...] = ("",)
    id_space: str = ""
    missing_values: str = ""


@dataclass(frozen=True, eq=False)
class BookedStages:
    """Stages of a release with what is booked for any unit, and what they are metered by.

    Attributes
    ----------
    stages : StagedPlan
        Losses have one entry: that of any unit.
    promise : Promise
        Of all stages together.
    """

    stages: StagedPlan
    promise: Promise


def book_and_draw(
    sums: PrivateSums,
    plan: BookedStages,
    facts: dict[str, str],
    ledger: Ledger,
    account: BalanceKey | None = None,
) -> tuple[Outputs, bool]:
    """Book the loss; then measure, noise and store stage by stage. Also whether it was there.

    A unit of a day or a week is booked on each declared day or week: any unit of it may be there.
    `sums` are PRIVATE: `PresenceSums`, or those of each value column.
    """
    name, losses = request_name(facts), plan.stages.losses()
    account = account or BalanceKey()
    booked = hash_losses(
        [ANY_UNIT] * len(account.periods), np.repeat(losses, len(account.periods)), ledger.key,
        max_loss=plan.promise.amount, periods=account.periods,
    )  # fmt: skip
    encoded = json.dumps(facts, sort_keys=True).encode()
    with ledger.drawing():
        booking = ledger.reserve(
            name, booked, privacy_unit=account.unit, facts=facts, plan=encoded,
            delta=plan.promise.delta, id_space=account.id_space,
            missing_values=account.missing_values,
        )  # fmt: skip
        if booking.complete:
            return replay(plan.stages, rows_of(booking.stages)), True
        journal = LedgerJournal(ledger, name)
        # The vetted door is made here: no caller can give a release another one.
        # What is metered is what was booked, not what the stages say of themselves.
        metered = np.minimum(losses, round_up(plan.promise.amount))
        meter = Meter(metered, squared=bool(plan.promise.delta))
        outputs = execute(plan.stages, sums, VettedNoise(), journal, meter)
        ledger.complete(name)
    return outputs, False
