"""Events of the ledger: append them, read them, derive the state of a request.

Windows of a budget: the lifetime, or a refill with each day or month.

Hash chain: each hash covers its event and the previous hash. So a change, a removal or a new order
of events is detected by whoever holds a later hash: the ledger itself by recomputing, a recipient
through the receipt in a release folder. A ledger that is restored to an older state is still
consistent; only a receipt of a later event proves the rollback.

The clock is the machine's, in UTC, but never goes back: an event happens at the time of the one
before it, at the earliest. So setting the clock back refills nothing.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import sqlalchemy as sa

from hexveil.base.errors import InputError, StorageError
from hexveil.ledger.tables import damaged, events

Kind = str
"""Of an event: one of `ACCOUNT_KINDS`, or of `TRANSITIONS`."""
ACCOUNT_KINDS = ("opened", "joined", "budget", "unit")
"""What happens to an account: it has a budget, a data set joins it, a release pins its unit."""
TRANSITIONS: dict[str, tuple[str, ...]] = {
    "": ("reserved",),
    "reserved": ("marked", "returned"),
    "marked": ("measured", "lost", "abandoned"),
    # A next stage begins, or all are there. Never back to the same stage: nothing is drawn twice.
    "measured": ("marked", "stored", "abandoned"),
    # The numbers can be asked for from here on, so that abandoning them would hide nothing.
    "stored": ("committed",),
    "committed": (),
    # Booked anew at full price: the lost noise may have been drawn, and a second draw costs again.
    "lost": ("reserved", "abandoned"),
    "returned": ("reserved",),
    "abandoned": (),
}
"""Possible next events of a request, by its state."""


@dataclass(frozen=True)
class Event:
    """One row of the ledger. Public facts, keyed hashes and published numbers only.

    Attributes
    ----------
    entry : int
        From 1, without gaps.
    account, dataset, request : str
        `request` is empty for events of an account.
    kind : str
    at : str
        UTC, to the second; never before the event before.
    body : mapping
        Fields of this kind of event.
    units : bytes or None
        Losses of a reservation: see `Losses.to_bytes`.
    chain : str
        Hash over this event and the chain before it.
    """

    entry: int
    account: str
    dataset: str
    request: str
    kind: str
    at: str
    body: Mapping[str, Any]
    units: bytes | None
    chain: str

    def __repr__(self) -> str:
        return f"Event({self.entry}, {self.kind!r}, dataset={self.dataset!r})"


@dataclass(frozen=True)
class Head:
    """The last event, to which the next one is chained."""

    entry: int
    at: str | None
    chain: str


# Built once: a release reads them dozens of times.
_LAST = (
    sa.select(events.c.entry, events.c.at, events.c.chain).order_by(events.c.entry.desc()).limit(1)
)
_BEFORE = events.alias("before")
_LINKED = (
    sa.select(events, _BEFORE.c.chain.label("before"))
    .outerjoin(_BEFORE, _BEFORE.c.entry == events.c.entry - 1)
    .order_by(events.c.entry)
)
"""Events, each with the hash before it."""
_OF_REQUEST = _LINKED.where(
    events.c.dataset == sa.bindparam("dataset"), events.c.request == sa.bindparam("request")
)
_OF_ACCOUNTS = _LINKED.where(sa.or_(*(events.c.kind == kind for kind in ACCOUNT_KINDS)))


def read_head(connection: sa.Connection) -> Head:
    """Return the last event of the ledger."""
    row = connection.execute(_LAST).first()
    return Head(0, None, GENESIS_HASH) if row is None else Head(row.entry, row.at, row.chain)


def append(  # noqa: PLR0913  an event has these parts
    connection: sa.Connection,
    kind: Kind,
    *,
    account: str,
    dataset: str = "",
    request: str = "",
    body: Mapping[str, Any] | None = None,
    units: bytes | None = None,
    moment: str | None = None,
) -> Event:
    """Append an event and return it; its time is now unless it was read before."""
    previous = read_head(connection)
    fields: dict[str, Any] = {
        "entry": previous.entry + 1,
        "account": account,
        "dataset": dataset,
        "request": request,
        "kind": kind,
        "at": next_time(previous.at) if moment is None else moment,
        # The text that is stored is the text that is hashed: JSON read back may differ in its
        # spelling.
        "body": canonical_json(body or {}),
        "units": units,
    }
    linked = chain_hash(previous.chain, fields)
    connection.execute(sa.insert(events).values(**fields, chain=linked))
    return Event(**(fields | {"body": dict(body or {}), "chain": linked}))


def request_events(connection: sa.Connection, dataset: str, request: str) -> tuple[Event, ...]:
    """Return the events of a request, oldest first, their hashes checked."""
    rows = connection.execute(_OF_REQUEST, {"dataset": dataset, "request": request}).all()
    if rows and rows[0].kind != "reserved":
        raise damaged(f"what happened before entry {rows[0].entry} is missing")
    return _linked(rows)


def dataset_events(connection: sa.Connection, dataset: str) -> dict[str, tuple[Event, ...]]:
    """Return the events of each request of a data set, in order of the first event."""
    query = without_units().where((events.c.dataset == dataset) & (events.c.request != ""))
    rows = connection.execute(query.order_by(events.c.entry))
    histories: dict[str, tuple[Event, ...]] = {}
    for row in rows:
        histories[row.request] = (*histories.get(row.request, ()), parse_event(row))
    return histories


def account_events(connection: sa.Connection) -> tuple[Event, ...]:
    """Return the events of accounts, oldest first, their hashes checked."""
    return _linked(connection.execute(_OF_ACCOUNTS).all())


def open_reservations(connection: sa.Connection, account: str, window: str) -> list[Event]:
    """Return the reservations of an account in a window that were not returned, with losses."""
    query = sa.select(events).where(
        events.c.kind.in_(("reserved", "returned")), events.c.account == account
    )
    reservations: dict[tuple[str, str], list[Event]] = {}
    for row in connection.execute(query.order_by(events.c.entry)):
        reserved = reservations.setdefault((row.dataset, row.request), [])
        if row.kind == "returned":
            del reserved[-1:]
        else:
            reserved.append(parse_event(row))
    return [e for reserved in reservations.values() for e in reserved if e.body["window"] == window]


def without_units() -> sa.Select[Any]:
    """Return the query for events without the losses of units: megabytes for a large fleet."""
    return sa.select(*[sa.null().label(c.name) if c.name == "units" else c for c in events.c])


def state(history: tuple[Event, ...]) -> str:
    """Return the last kind of a request's events; empty before the first."""
    return history[-1].kind if history else ""


def check_transition(history: tuple[Event, ...], kind: Kind) -> None:
    """Raise InputError if this cannot happen to a request now."""
    now = state(history)
    if kind not in TRANSITIONS[now]:
        was = f"is {now}" if now else "is not in the ledger"
        raise InputError(f"the release {was}: it cannot be {kind} now.")


def parse_event(row: Any) -> Event:  # noqa: ANN401  rows have the types of their columns
    """Return the event of a row; StorageError if no ledger wrote it."""
    fields = {name: value for name, value in row._asdict().items() if name != "before"}
    try:
        fields["body"] = json.loads(fields["body"])
        fields["units"] = None if fields["units"] is None else bytes(fields["units"])
    except (TypeError, ValueError):
        raise StorageError(
            f"entry {row.entry} of the ledger is damaged, so what was spent is not known; nothing "
            "was published. Restore the ledger from a copy."
        ) from None
    return Event(**fields)


Window = Literal["lifetime", "month", "day"]
LIFETIME = ""
"""Label of the window that never ends."""
_LETTERS = {"lifetime": 0, "month": 7, "day": 10}
"""Letters of an ISO time that name its window."""


def window_of(window: str, moment: str) -> str:
    """Return the window that contains a moment; the empty text for a lifetime.

    Examples
    --------
    >>> window_of("month", "2026-11-20T09:00:00Z"), window_of("lifetime", "2026-11-20T09:00:00Z")
    ('2026-11', '')
    """
    return moment[: _LETTERS[window]]


def next_time(previous: str | None, clock: datetime | None = None) -> str:
    """Return the time of the next event: the clock's, or the previous event's if that is later.

    Examples
    --------
    >>> next_time("2026-11-20T09:00:00Z", datetime(2026, 11, 19, tzinfo=UTC))
    '2026-11-20T09:00:00Z'
    """
    read = (clock or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    # ISO times in UTC of one length sort as text.
    return max(read, previous or read)


# ---- the chain ----

GENESIS_HASH = "0" * 64
"""The hash before the first event."""

HASHED_FIELDS = ("entry", "account", "dataset", "request", "kind", "at", "body")
"""Fields of an event that its hash covers as they are; `units` is covered by its digest."""


def canonical_json(body: Mapping[str, Any]) -> str:
    """Serialize to JSON with sorted keys: equal contents give equal text."""
    # In ASCII: neither the encoding nor the normal form of a text can change the hash.
    return json.dumps(dict(body), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def chain_hash(previous: str, event: Mapping[str, Any]) -> str:
    """Return the hash of an event, chained to the previous hash.

    Parameters
    ----------
    previous : str
        Hash of the previous event, or `GENESIS_HASH`.
    event : mapping
        The fields of `HASHED_FIELDS`, and `units` (bytes or None).
    """
    fields = {name: event[name] for name in HASHED_FIELDS}
    units = event["units"]
    # Not bytes(...), which takes a number for a size; a damaged column may hold one.
    fields["units"] = None if units is None else hashlib.sha256(memoryview(units)).hexdigest()
    # Unambiguous: a hash has no line break, and JSON names each field.
    return hashlib.sha256(f"{previous}\n{canonical_json(fields)}".encode()).hexdigest()


def _linked(rows: Sequence[Any]) -> tuple[Event, ...]:
    """Return the events of rows, if each hash covers its event and the previous hash.

    Raises
    ------
    StorageError
        If one is not what was written.
    """
    for row in rows:
        before = GENESIS_HASH if row.entry == 1 else row.before
        try:
            is_linked = before is not None and chain_hash(before, row._asdict()) == row.chain
        # SQLite stores any type in any column, whatever the column declares.
        except (TypeError, ValueError, AttributeError):
            is_linked = False
        if not is_linked:
            raise damaged(f"entry {row.entry} is not what was written")
    return tuple(parse_event(row) for row in rows)
