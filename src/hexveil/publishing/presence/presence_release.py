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

from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.ledger import hash_losses
from hexveil.mechanisms.contract import execute, replay
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.presence.any_unit import PresenceSums
from hexveil.planning.presence.counted_request import predict_accuracy
from hexveil.publishing.ledger_journal import LedgerJournal, rows_of
from hexveil.publishing.presence.presence_table import decode_outputs, released_table
from hexveil.publishing.presence.request_identity import PRIVACY_UNIT, identify, request_name

if TYPE_CHECKING:
    from fractions import Fraction

    import pyarrow as pa

    from hexveil.ledger import Ledger
    from hexveil.mechanisms.contract import Outputs, PrivateSums, StagedPlan
    from hexveil.mechanisms.presence.loss_shares import AddedSquares, LossShares
    from hexveil.model.private_pairs import PairBlocks
    from hexveil.planning.presence.counted_request import AnyRequest

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
    shares : LossShares
        Of all stages together.
    delta : Fraction
        0 for a pure promise.
    """

    stages: StagedPlan
    shares: LossShares | AddedSquares
    delta: Fraction


@dataclass(frozen=True, eq=False)
class PresenceRelease:
    """Released numbers of every cell of the declared grid. Public.

    Attributes
    ----------
    table : pyarrow.Table
        A row per cell: its name, whether it is open, and numbers, null where it is closed.
    facts : mapping of str to str
        The request.
    epsilon : Fraction
        Loss of any unit.
    is_replay : bool
        Whether the ledger had these numbers before, so that nothing was drawn.
    """

    table: pa.Table
    facts: dict[str, str]
    epsilon: Fraction
    is_replay: bool


def release_with_presence(
    pairs: PairBlocks,
    request: AnyRequest,
    *,
    source: str,
    ledger: Ledger,
    accept_noise: bool = False,
) -> PresenceRelease:
    """Book the loss, draw the noise once, return the release.

    The same request of the same source gets the same numbers again, at no cost.

    Parameters
    ----------
    pairs : PairBlocks
        PRIVATE.
    request : PresenceRequest, UnitCountRequest, ShapeRequest or CountedRequest
    source : str
        Public name of the records; another edition of them has another name.
    ledger : Ledger
    accept_noise : bool
        Release even a map that is predicted to have nothing to say.

    Raises
    ------
    InputError
        If the map is predicted to have nothing to say, or the account promises something else;
        nothing is spent.
    BudgetError
        If any unit would lose more than the budget allows; nothing is spent.
    """
    refusal = predict_accuracy(request).refusal
    if refusal is not None and not accept_noise:
        raise InputError(f"{refusal} Or accept the noise (accept_noise=True).")
    facts, plan = identify(request, source), request.allocation()
    booked = BookedStages(plan, plan.shares, plan.delta)
    outputs, is_replay = book_and_draw(PresenceSums(pairs), booked, facts, ledger)
    table = released_table(request, decode_outputs(request, outputs))
    return PresenceRelease(table, facts, request.epsilon, is_replay)


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
        max_loss=plan.shares.booked, periods=account.periods,
    )  # fmt: skip
    encoded = json.dumps(facts, sort_keys=True).encode()
    with ledger.drawing():
        booking = ledger.reserve(
            name, booked, privacy_unit=account.unit, facts=facts, plan=encoded, delta=plan.delta,
            id_space=account.id_space, missing_values=account.missing_values,
        )  # fmt: skip
        if booking.complete:
            return replay(plan.stages, rows_of(booking.stages)), True
        journal = LedgerJournal(ledger, name)
        # The vetted door is made here: no caller can give a release another one.
        # What is metered is what was booked, not what the stages say of themselves.
        metered = np.minimum(losses, round_up(plan.shares.booked))
        outputs = execute(plan.stages, sums, VettedNoise(), journal, plan.shares.meter(metered))
        ledger.complete(name)
    return outputs, False
