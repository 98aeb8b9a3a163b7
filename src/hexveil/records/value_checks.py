"""PRIVATE. Checks of the values themselves, for the holder alone: nothing in here may be published.

Noise does not help against records that are wrong: a sensor that says -1 for no reading, bounds
that clamp every second value. Only the values show it, and only their holder may look. The figures
are exact, cost no privacy loss because they are not released, and are no part of a request: neither
a plan nor a release sees them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from hexveil.base.rational import Number
from hexveil.model.cells import OneCell
from hexveil.records.progress import show_progress
from hexveil.records.reading_arguments import requests_of
from hexveil.records.sources.record_format import PLAIN, RecordFormat
from hexveil.records.sources.source_files import resolve_source

SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 255.0, 511.0, 999.0, 9999.0, 65535.0)
"""Numbers that often mean "no reading"."""
SENTINEL_SHARE, FREQUENT_SHARE = 0.005, 0.2
"""Shares of records from which a sentinel, and any one value, is reported."""
DOMINANT_USER_SHARE = 1.0 / 3.0
"""Share of records from which one user is reported."""


@dataclass(frozen=True, repr=False)
class ValueChecks:
    """PRIVATE. Findings about values, for the terminal of their holder.

    Attributes
    ----------
    records : int
        Records with a usable value.
    below_share, above_share : float
        Shares of them that the bounds clamp.
    frequent : tuple of (float, float)
        Values that may be sentinels or constants, with their shares of records.
    users : int
    largest_user_share : float
    """

    records: int
    below_share: float
    above_share: float
    frequent: tuple[tuple[float, float], ...]
    users: int
    largest_user_share: float

    def __repr__(self) -> str:
        return "ValueChecks(private)"


def check_values(  # noqa: PLR0913  a door: keyword-only
    source: object,
    *,
    user: str,
    value: str,
    bounds: object,
    quantum: Number = "0.001",
    format: RecordFormat = PLAIN,  # noqa: A002  as for `read`
    memory: str = "1GB",
    scratch: str | os.PathLike[str] | None = None,
) -> ValueChecks:
    """Return findings about the values of a source. PRIVATE: for its holder alone.

    All records with a usable value count, before any selection and with repeats.

    Parameters
    ----------
    source, user, value, bounds, quantum, format, memory, scratch
        As for `hexveil.records.read`.

    Privacy
    -------
    The result is exact and protected by nothing. The caller must neither publish nor store it.
    """
    from hexveil.records.duckdb.session import Session  # noqa: PLC0415  the engine
    from hexveil.records.duckdb.source import open_source  # noqa: PLC0415
    from hexveil.records.duckdb.validation import validate_records  # noqa: PLC0415

    (request,) = requests_of(**locals(), cells=OneCell())
    with show_progress("Checking values"), Session(request.memory, scratch=scratch) as session:
        relation = open_source(session, resolve_source(source), request.column_names, format)
        relation.check_files(())
        raw = validate_records(session, relation, request, parse=True).raw
        usable = f"SELECT * FROM ({raw}) WHERE isfinite(value) AND user_id IS NOT NULL"
        low, high = float(request.rules.scale.lower), float(request.rules.scale.upper)
        records, below, above = session.numbers(
            f"SELECT count(*), count(*) FILTER (WHERE value < {low!r}), "
            f"count(*) FILTER (WHERE value > {high!r}) FROM ({usable})"
        )
        users, largest = session.numbers(
            "SELECT count(*), coalesce(max(n), 0) FROM "
            f"(SELECT count(*) AS n FROM ({usable}) GROUP BY user_id)"
        )
        total = max(records, 1)
        rows = session.rows(
            f"SELECT value, count(*) AS n FROM ({usable}) GROUP BY value "
            f"HAVING n >= {SENTINEL_SHARE * total!r} ORDER BY n DESC, value LIMIT 50"
        )
    shares = [(float(str(value)), float(str(n)) / total) for value, n in rows]
    return ValueChecks(
        records=records,
        below_share=below / total,
        above_share=above / total,
        frequent=tuple(
            (value, share)
            for value, share in shares
            # A negative sentinel below the bounds would count as the lower bound.
            if share >= FREQUENT_SHARE or value in SENTINELS or (value < 0 <= low)
        ),
        users=users,
        largest_user_share=largest / total,
    )
