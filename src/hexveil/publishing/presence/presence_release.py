"""From a request with private presence to published numbers: booked, noised once, stored.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity and loss: `mechanisms.presence`. The ledger books ε for "any unit", in one balance,
before anything is measured: which units there are is private, so none is named. Balance, facts,
stages and their sizes are the same whatever the records are.
Relies on the caller for `PrivatePairs` that were grouped by the privacy unit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.ledger import hash_losses
from hexveil.mechanisms.contract import Meter, execute, replay
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.presence.any_unit import PresenceSums
from hexveil.mechanisms.presence.count_map import UnitCountMap
from hexveil.planning.presence.presence_prediction import predict_counts, predict_map
from hexveil.planning.presence.presence_request import PresenceRequest
from hexveil.publishing.ledger_journal import LedgerJournal, rows_of
from hexveil.publishing.presence.request_identity import PRIVACY_UNIT, identify, request_name

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.ledger import Ledger
    from hexveil.mechanisms.contract import Floats, Outputs
    from hexveil.mechanisms.presence.count_map import CountAllocation
    from hexveil.mechanisms.presence.presence_allocation import PresenceAllocation
    from hexveil.mechanisms.presence.presence_decoding import PresenceMap
    from hexveil.model.cells import CellTable
    from hexveil.model.private_pairs import PrivatePairs
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.planning.presence.presence_request import UnitCountRequest

    Request = PresenceRequest | UnitCountRequest

ANY_UNIT = b"any unit, present or not"


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
    pairs: PrivatePairs,
    request: Request,
    *,
    source: str,
    ledger: Ledger,
    accept_noise: bool = False,
) -> PresenceRelease:
    """Book the loss, draw the noise once, return the release.

    The same request of the same source gets the same numbers again, at no cost.

    Parameters
    ----------
    pairs : PrivatePairs
        PRIVATE.
    request : PresenceRequest or UnitCountRequest
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
    refusal = _refusal(request)
    if refusal is not None and not accept_noise:
        raise InputError(f"{refusal} Or accept the noise (accept_noise=True).")
    facts, plan = identify(request, source), request.allocation()
    outputs, is_replay = _book_and_draw(pairs, plan, facts, ledger)
    return PresenceRelease(_table(request, plan.decode(outputs)), facts, request.epsilon, is_replay)


def _book_and_draw(
    pairs: PrivatePairs,
    plan: PresenceAllocation | CountAllocation,
    facts: dict[str, str],
    ledger: Ledger,
) -> tuple[Outputs, bool]:
    """Book the loss; then measure, noise and store stage by stage. Also whether it was there."""
    name, losses = request_name(facts), plan.losses()
    booked = hash_losses([ANY_UNIT], losses, ledger.key, max_loss=plan.epsilon)
    encoded = json.dumps(facts, sort_keys=True).encode()
    with ledger.drawing():
        booking = ledger.reserve(name, booked, privacy_unit=PRIVACY_UNIT, facts=facts, plan=encoded)
        if booking.complete:
            return replay(plan, rows_of(booking.stages)), True
        journal = LedgerJournal(ledger, name)
        # The vetted door is made here: no caller can give a release another one.
        outputs = execute(plan, PresenceSums(pairs), VettedNoise(), journal, Meter(losses))
        ledger.complete(name)
    return outputs, False


def _refusal(request: Request) -> str | None:
    """Return why a map is predicted to have nothing to say; None for a useful one."""
    if isinstance(request, PresenceRequest):
        return predict_map(request).refusal
    return predict_counts(request).refusal


def _table(request: Request, decoded: PresenceMap | UnitCountMap) -> pa.Table:
    """Return the table of a decoded map."""
    columns = _cell_columns(request.grid.table) | {"is_open": decoded.is_open}
    if isinstance(decoded, UnitCountMap):
        numbers = {
            "users": decoded.units,
            "users_low": decoded.units_low,
            "users_high": decoded.units_high,
        }
    else:
        assert isinstance(request, PresenceRequest)  # noqa: S101  its allocation decodes to means
        numbers = {
            "mean": _values(request.lattice, decoded.mean),
            "mean_low": _values(request.lattice, decoded.mean_low),
            "mean_high": _values(request.lattice, decoded.mean_high),
            "weight": decoded.weight,
            "weight_low": decoded.weight_low,
            "weight_high": decoded.weight_high,
            "smoothed": _values(request.lattice, decoded.smoothed),
        }
    nullable = {name: pa.array(column, from_pandas=True) for name, column in numbers.items()}
    return pa.table(columns | nullable)


def _cell_columns(table: CellTable) -> dict[str, Any]:
    """Return the public description of each cell."""
    named: dict[str, Any] = {"hexagon": table.hexagon_names(), "slot": table.slot_names()}
    present = {name: column for name, column in named.items() if column is not None}
    labels = {name: column for name, column in table.labels.items() if name != "cell"}
    return {"cell": table.names()} | present | labels


def _values(lattice: ValueLattice, shares: Floats) -> Floats:
    """Return shares of the span in value units."""
    return float(lattice.lower) + float(lattice.span) * shares
