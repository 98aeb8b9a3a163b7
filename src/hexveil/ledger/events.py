"""The book's events: what one is, how one is added, what state a request is in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa

from hexveil.base.errors import InputError, StorageError
from hexveil.ledger import windows
from hexveil.ledger.integrity import hash_chain, soundness
from hexveil.ledger.storage.tables import events

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal[
    "opened",
    "joined",
    "budget",
    "unit",
    "reserved",
    "marked",
    "measured",
    "stored",
    "committed",
    "lost",
    "returned",
    "abandoned",
]
FOLLOWS: dict[str, tuple[str, ...]] = {
    "": ("reserved",),
    "reserved": ("marked", "returned"),
    "marked": ("measured", "lost", "abandoned"),
    "measured": ("marked", "stored", "abandoned"),
    "stored": ("committed",),
    "committed": (),
    "lost": ("reserved", "abandoned"),
    "returned": ("reserved",),
    "abandoned": (),
}
"""What may happen to a request next."""


@dataclass(frozen=True)
class Event:
    """One row of the book. Public facts, keyed hashes and published numbers only.

    Attributes
    ----------
    entry : int
        From 1, without gaps.
    account, dataset, request : str
        `request` is empty for what happens to an account.
    kind : str
    at : str
        UTC, to the second; never before the event before.
    body : mapping
        What the kind needs.
    units : bytes or None
        Losses of a reservation: see `units.Losses.blob`.
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
    """The last event: where the next is linked."""

    entry: int
    at: str | None
    chain: str


def head(connection: sa.Connection) -> Head:
    """Return where the book ends."""
    row = connection.execute(
        sa.select(events.c.entry, events.c.at, events.c.chain)
        .order_by(events.c.entry.desc())
        .limit(1)
    ).first()
    return Head(0, None, hash_chain.START) if row is None else Head(row.entry, row.at, row.chain)


def add(  # noqa: PLR0913  an event has these parts
    connection: sa.Connection,
    kind: Kind,
    *,
    account: str,
    dataset: str = "",
    request: str = "",
    body: Mapping[str, Any] | None = None,
    units: bytes | None = None,
    at: str | None = None,
) -> Event:
    """Add an event after the last one, now unless its time was taken before, and return it."""
    last = head(connection)
    fields: dict[str, Any] = {
        "entry": last.entry + 1,
        "account": account,
        "dataset": dataset,
        "request": request,
        "kind": kind,
        "at": windows.now(last.at) if at is None else at,
        "body": hash_chain.canonical(body or {}),
        "units": units,
    }
    linked = hash_chain.link(last.chain, fields)
    connection.execute(sa.insert(events).values(**fields, chain=linked))
    return Event(**(fields | {"body": dict(body or {}), "chain": linked}))


def of_request(connection: sa.Connection, dataset: str, request: str) -> tuple[Event, ...]:
    """Return what happened to a request, oldest first."""
    rows = connection.execute(
        sa.select(events)
        .where((events.c.dataset == dataset) & (events.c.request == request))
        .order_by(events.c.entry)
    ).all()
    soundness.check_links(connection, rows)
    return tuple(event(row) for row in rows)


def of_dataset(connection: sa.Connection, dataset: str) -> dict[str, tuple[Event, ...]]:
    """Return what happened to each request of a data set, in order of the first event."""
    columns = [c for c in events.c if c.name != "units"]
    rows = connection.execute(
        sa.select(*columns, sa.null().label("units"))
        .where((events.c.dataset == dataset) & (events.c.request != ""))
        .order_by(events.c.entry)
    )
    found: dict[str, tuple[Event, ...]] = {}
    for row in rows:
        found[row.request] = (*found.get(row.request, ()), event(row))
    return found


def listed(
    connection: sa.Connection,
    *,
    of: tuple[str, str] | None = None,
    limit: int | None = None,
) -> tuple[Event, ...]:
    """Return events, oldest first, without the losses of units; the last few, if limited.

    Parameters
    ----------
    of : tuple of str, optional
        An account and a data set of it: events of these alone.
    """
    asked = _bare().order_by(events.c.entry.desc())
    if of is not None:
        account, dataset = of
        asked = asked.where(events.c.account == account, events.c.dataset.in_(("", dataset)))
    rows = connection.execute(asked if limit is None else asked.limit(limit)).all()
    return tuple(event(row) for row in reversed(rows))


def stopped(connection: sa.Connection) -> tuple[Event, ...]:
    """Return the last event of each request whose results are not all stored and may be yet."""
    asked = _bare().where(
        events.c.kind.in_(("reserved", "marked", "measured", "lost")), events.c.entry.in_(_last())
    )
    return tuple(event(row) for row in connection.execute(asked.order_by(events.c.entry)))


def states(connection: sa.Connection) -> dict[str, dict[str, int]]:
    """Return how many requests are in each state, by account."""
    found: dict[str, dict[str, int]] = {}
    each = (events.c.account, events.c.kind)
    asked = sa.select(*each, sa.func.count()).where(events.c.entry.in_(_last())).group_by(*each)
    for account, kind, many in connection.execute(asked):
        found.setdefault(account, {})[kind] = many
    return found


def _last() -> sa.Select[Any]:
    """Return the question for the last entry of each request."""
    last = sa.select(sa.func.max(events.c.entry)).where(events.c.request != "")
    return last.group_by(events.c.dataset, events.c.request)


def _bare() -> sa.Select[Any]:
    """Return the question for events without the losses of units, which are long."""
    return sa.select(*[sa.null().label(c.name) if c.name == "units" else c for c in events.c])


def state(history: tuple[Event, ...]) -> str:
    """Return the last kind of a request's events; empty before the first."""
    return history[-1].kind if history else ""


def is_complete(history: tuple[Event, ...]) -> bool:
    """Return whether all results of a request are stored."""
    return state(history) in ("stored", "committed")


def check_next(history: tuple[Event, ...], kind: Kind) -> None:
    """Raise InputError if this cannot happen to a request now."""
    now = state(history)
    if kind not in FOLLOWS[now]:
        was = f"is {now}" if now else "is not in the ledger"
        raise InputError(f"the release {was}: it cannot be {kind} now.")


def event(row: Any) -> Event:  # noqa: ANN401  rows have the types of their columns
    """Return what a row says; StorageError if no ledger wrote it."""
    fields = row._asdict()
    try:
        fields["body"] = json.loads(fields["body"])
        fields["units"] = None if fields["units"] is None else bytes(fields["units"])
    except (TypeError, ValueError):
        raise StorageError(
            f"entry {row.entry} of the ledger is damaged, so what was spent is not known; nothing "
            "was published. Restore the ledger from a copy."
        ) from None
    return Event(**fields)
