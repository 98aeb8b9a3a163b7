"""What a release books, for whom and under which name: of both privacy models.

Where occupancy is public the loss of each unit is booked, with the plan, which comes back when the
request is repeated. Under private presence the loss of any unit is booked, present or not: which
units there are is private, so none is named. Balance, facts, stages and their sizes are the same
whatever the records are.

The ledger is the journal of a release: each stage is drawn once, and stored before the next. What a
stage costs was authorised before (`hexveil.mechanisms.contract.Meter`). A stage that was begun and
has no row is lost: the ledger refuses to begin it again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from hexveil.base.atomic_files import defer_interrupts
from hexveil.base.rational import round_up
from hexveil.ledger import hash_losses
from hexveil.model.declared_grid import ColumnFacts, DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning import saved_plans
from hexveil.publishing.kinds.presence_manifest import presence_request, request_name
from hexveil.publishing.manifest import fingerprint, request_of

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.accounting.promise import Promise
    from hexveil.base.arrays import Floats
    from hexveil.ledger import Ledger
    from hexveil.mechanisms.contract import StagedPlan
    from hexveil.model.declared_grid import DeclaredFacts
    from hexveil.planning.plan import Plan
    from hexveil.records.column_datasets import ColumnDatasets, PrivateColumns, PrivateDataset
    from hexveil.records.dataset import Dataset

    ReleasableDataset: TypeAlias = Dataset | ColumnDatasets
    AnyDataset: TypeAlias = ReleasableDataset | PrivateDataset | PrivateColumns
    from collections.abc import Callable, Mapping

    from hexveil.base.arrays import Ints


@dataclass(frozen=True, eq=False)
class Charge:
    """Booking of a release, and the losses that meter its stages.

    Attributes
    ----------
    name : str
        Of the request.
    booked : dict
        What the ledger reserves it with: see `Ledger.reserve`.
    metered : ndarray of float
        Losses that the stages may add up to, of each unit or of any.
    delta : Fraction
    """

    name: str
    booked: dict[str, Any]
    metered: Floats
    delta: Fraction


def identify_request(
    dataset: AnyDataset | None, plan: Plan, account: str
) -> tuple[str, dict[str, str]]:
    """Return the name of a request, and the request in words; equal requests replay.

    Parameters
    ----------
    dataset : dataset or None
        Under private presence the plan has all facts.
    plan : plan
    account : str
        Name of the data set in the ledger.
    """
    if plan.is_declared:
        facts = presence_request(account, plan)
        return request_name(facts), facts
    facts = request_of(account, cast("ReleasableDataset", dataset).public, plan)
    return fingerprint(facts), facts


def charge_of(dataset: AnyDataset, plan: Plan, stages: StagedPlan, ledger: Ledger) -> Charge:
    """Return the charge for a release of a plan."""
    name, facts = identify_request(dataset, plan, ledger.dataset)
    public: Any = dataset.public
    if plan.is_declared:
        # Days and clock are common to all columns.
        return any_unit_charge(
            stages, plan.promise, facts, ledger, getattr(public, "leading", public)
        )
    units, losses = cast("ReleasableDataset", dataset).units, stages.losses()
    assert units is not None  # noqa: S101  see release_checks
    hashed = hash_losses(
        units.ids(), losses, ledger.key, max_loss=plan.booked_limit, periods=units.periods()
    )
    encoded = ledger.plan_of(name) or saved_plans.encode(plan)
    booked: dict[str, Any] = {"losses": hashed, **_pinned(unit_of(public), public)}
    booked |= {"facts": facts, "plan": encoded, "delta": plan.delta}
    return Charge(name, booked, losses, plan.delta)


def any_unit_charge(
    stages: StagedPlan,
    promise: Promise,
    facts: dict[str, str],
    ledger: Ledger,
    declared: DeclaredFacts,
) -> Charge:
    """Return the charge for any unit, present or not.

    A unit of a day or a week is booked on each declared day or week: any unit of it may be there.
    Units of a day begin by a clock, which is part of what the account pins (`unit_of`).
    """
    losses, periods = stages.losses(), _periods(declared)
    hashed = hash_losses(
        [ANY_UNIT] * len(periods), np.repeat(losses, len(periods)), ledger.key,
        max_loss=promise.amount, periods=periods,
    )  # fmt: skip
    # What is metered is what was booked, not what the stages say of themselves.
    metered = np.minimum(losses, round_up(promise.amount))
    encoded = json.dumps(facts, sort_keys=True).encode()
    unit = f"{unit_of(declared)}; {PRIVATE}"
    booked: dict[str, Any] = {"losses": hashed, **_pinned(unit, declared)}
    booked |= {"facts": facts, "plan": encoded, "delta": promise.delta}
    return Charge(request_name(facts), booked, metered, promise.delta)


def refuse_other_unit(public: Any, ledger: Ledger) -> None:  # noqa: ANN401  counted facts
    """Refuse a release of another unit, id space or codes than its account pins."""
    ledger.account.refuse_other_unit(*_pinned(unit_of(public), public).values())


def pin_unit(public: Any, ledger: Ledger) -> None:  # noqa: ANN401  counted facts
    """Pin unit, id space and codes of a release that books nothing, or refuse other ones.

    Its public counts are published as well: where presence is private, that would break it.
    """
    ledger.pin_unit(**_pinned(unit_of(public), public))


def _pinned(unit: str, public: Any) -> dict[str, str]:  # noqa: ANN401  facts
    """Return the unit as the account pins it, and the meaning of ids and codes."""
    codes = public.identity.get("drop_values", "")
    return {"privacy_unit": unit, "id_space": public.id_space, "missing_values": codes}


PRIVATE = "presence is private"
"""In the unit that an account of this model pins: it refuses releases of the other one."""
ANY_UNIT = b"any unit, present or not"
_NO_CLOCK = ("none", "not usable")
_EPOCH = date(1970, 1, 1)
_THURSDAY = 3
"""Days from the Monday before 1970-01-01 to it."""


def unit_of(facts: PublicMetadata | DeclaredFacts | ColumnFacts) -> str:
    """Return the privacy unit as the text that an account pins.

    A day by one clock overlaps two days by another, and a reading may count in both: losses of
    units by one clock say nothing about units by the other. Days of units follow the clock of
    slots. Where some times have no offset and are read on another clock, that clock decides the
    day of a reading as well, so it is named; where all times have an offset it is not.
    The text is "user", "user-day (Europe/Warsaw)" or "user-week (Asia/Kolkata; times
    without an offset: UTC)".
    """
    if facts.privacy_unit == "user":
        return facts.privacy_unit
    clock = facts.identity.get("timezone", "none")
    clock_text = "clock not named" if clock == "none" else clock
    other_clock = facts.identity.get("naive_times", "none")
    # Times that all have an offset are instants: no second clock decides their day.
    if other_clock not in (*_NO_CLOCK, clock):
        clock_text += f"; times without an offset: {other_clock}"
    return f"{facts.privacy_unit} ({clock_text})"


def _periods(facts: DeclaredFacts) -> list[str]:
    """Return declared days, or first days of weeks; one empty text where the unit is a user."""
    if facts.privacy_unit == "user" or facts.days is None:
        return [""]
    first_day, last_day = facts.days
    step = 1
    if facts.privacy_unit == "user-week":
        # Weeks begin on Mondays, as for units that are counted.
        first_day, step = first_day - (first_day + _THURSDAY) % 7, 7
    days = range(first_day, last_day + 1, step)
    return [(_EPOCH + timedelta(day)).isoformat() for day in days]


class LedgerJournal:
    """Rows of a booking in the ledger, under its lock (`Ledger.drawing`).

    Parameters
    ----------
    ledger : Ledger
    request : str
    """

    def __init__(self, ledger: Ledger, request: str) -> None:
        self._ledger, self._request = ledger, request

    def stored(self, name: str, entries: int) -> Ints | None:  # noqa: ARG002  see Journal.stored
        """Return the row of a stage, or None if there is none yet."""
        booking = self._ledger.find(self._request)
        return None if booking is None else rows_of(booking.stages).get(name)

    def draw_once(self, name: str, entries: int, draw: Callable[[], Ints]) -> Ints:
        """Mark the stage as begun, draw, store the row durably, and return it as stored."""
        # Between mark and row an interruption would lose the draw, and its epsilon with it.
        with defer_interrupts():
            entry = self._ledger.begin_draw(self._request, name, entries)
            try:
                # Its space was reserved with the mark: a full disk must not lose what was drawn.
                row = draw()
                self._ledger.store(self._request, entry, row[0])
            finally:
                self._ledger.free_space(entry)
        return row


def rows_of(stages: Mapping[str, tuple[int, ...]]) -> dict[str, Ints]:
    """Return the stored rows of a booking, shape (1, entries) each."""
    return {name: np.array([row], dtype=np.int64) for name, row in stages.items()}
