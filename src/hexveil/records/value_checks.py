"""PRIVATE. Checks of the values themselves, for the holder alone: nothing in here may be published.

Noise does not help against records that are wrong: a day in m/s between days in km/h, a sensor that
says -1 for no reading, bounds that clamp every second value. Only the values show it, and only
their holder may look. The figures are exact, cost no privacy loss because they are not released,
and are no part of a request: neither a plan nor a release sees them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.rational import Number
from hexveil.model.cells import OneCell
from hexveil.records.progress import show_progress
from hexveil.records.read_request import ReadRequest
from hexveil.records.reading_arguments import requests_of
from hexveil.records.sources.record_format import PLAIN, RecordFormat
from hexveil.records.sources.source_files import Files, resolve_source, safe_path

if TYPE_CHECKING:
    from hexveil.records.duckdb.relation import Relation
    from hexveil.records.duckdb.session import Session

UNIT_FACTORS = {
    "km/h where others are in mph": 1.609344,
    "km/h where others are in knots": 1.852,
    "mph where others are in m/s": 2.236936,
    "knots where others are in m/s": 1.943844,
    "km/h where others are in m/s": 3.6,
    "m/s where others are in km/s": 1000.0,
}
"""Ratios of values in one unit to the same values in another."""
RATIO_TOLERANCE = 0.12
"""Relative distance of each quartile's ratio from a factor."""
MIN_GROUP_RECORDS = 30
"""Records of a file or day from which its quartiles are compared."""
MAX_FILES = 400
SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 255.0, 511.0, 999.0, 9999.0, 65535.0)
"""Numbers that often mean "no reading"."""
SENTINEL_SHARE, FREQUENT_SHARE = 0.005, 0.2
"""Shares of records from which a sentinel, and any one value, is reported."""
CONSTANT_RECORDS = 20
"""Records of a user from which a value that never changes is reported."""
DOMINANT_USER_SHARE = 1.0 / 3.0
"""Share of records from which one user is reported."""


@dataclass(frozen=True, repr=False)
class UnitJump:
    """PRIVATE. A file or day with values that seem to be in another unit.

    Attributes
    ----------
    group : str
        Name of the file, or the local day.
    ratio : float
        Its median relative to that of the largest file or day.
    unit : str
        The units that have this ratio, in words.
    """

    group: str
    ratio: float
    unit: str

    def __repr__(self) -> str:
        return "UnitJump(private)"


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
    constant_users, users : int
        Users with many records of one and the same value, and all users.
    largest_user_share : float
    jumps : tuple of UnitJump
    """

    records: int
    below_share: float
    above_share: float
    frequent: tuple[tuple[float, float], ...]
    constant_users: int
    users: int
    largest_user_share: float
    jumps: tuple[UnitJump, ...]

    def __repr__(self) -> str:
        return "ValueChecks(private)"


def check_values(  # noqa: PLR0913  a door: keyword-only
    source: object,
    *,
    user: str,
    value: str,
    bounds: object,
    time: str | Sequence[str] | None = None,
    timezone: str | None = None,
    quantum: Number = "0.001",
    format: RecordFormat = PLAIN,  # noqa: A002  as for `read`
    memory: str = "1GB",
    scratch: str | os.PathLike[str] | None = None,
) -> ValueChecks:
    """Return findings about the values of a source. PRIVATE: for its holder alone.

    All records with a usable value count, before any selection and with repeats.

    Parameters
    ----------
    source, user, value, bounds, time, timezone, quantum, format, memory, scratch
        As for `hexveil.records.read`; days are compared where a time and a time zone are named.

    Privacy
    -------
    The result is exact and protected by nothing. The caller must neither publish nor store it.
    """
    from hexveil.records.duckdb.session import Session  # noqa: PLC0415  the engine
    from hexveil.records.duckdb.source import open_source  # noqa: PLC0415

    (request,) = requests_of(**locals(), cells=OneCell())
    resolved = resolve_source(source)
    with show_progress("Checking values"), Session(request.memory, scratch=scratch) as session:
        relation = open_source(session, resolved, request.column_names, format)
        relation.check_files(())
        return _checks(session, resolved, relation, request)


def _checks(
    session: Session, source: object, relation: Relation, request: ReadRequest
) -> ValueChecks:
    from hexveil.records.duckdb.validation import validate_records  # noqa: PLC0415  the engine

    # By file first: the parsed records of all files then stay in the temporary table.
    by_file = list(_file_quartiles(session, source, relation, request))
    raw = validate_records(session, relation, request, parse=True).clocked
    usable = f"SELECT * FROM ({raw}) WHERE isfinite(value) AND user_id IS NOT NULL"
    low, high = float(request.rules.scale.lower), float(request.rules.scale.upper)
    records, below, above = session.numbers(
        f"SELECT count(*), count(*) FILTER (WHERE value < {low!r}), "
        f"count(*) FILTER (WHERE value > {high!r}) FROM ({usable})"
    )
    users, largest, constant = session.numbers(
        "SELECT count(*), coalesce(max(n), 0), "
        f"count(*) FILTER (WHERE n >= {CONSTANT_RECORDS} AND same) FROM (SELECT count(*) AS n, "
        f"min(value) = max(value) AS same FROM ({usable}) GROUP BY user_id)"
    )
    timed = request.rules.clock is not None and request.columns.time is not None
    by_day = list(_day_quartiles(session, usable)) if timed else []
    total = max(records, 1)
    return ValueChecks(
        records=records,
        below_share=below / total,
        above_share=above / total,
        frequent=_frequent(session, usable, total, low),
        constant_users=constant,
        users=users,
        largest_user_share=largest / total,
        jumps=(*unit_jumps(by_file), *unit_jumps(by_day)),
    )


def _frequent(
    session: Session, usable: str, total: float, low: float
) -> tuple[tuple[float, float], ...]:
    """Return values that may mean "no reading", and values that many records have."""
    rows = session.rows(
        f"SELECT value, count(*) AS n FROM ({usable}) GROUP BY value "
        f"HAVING n >= {SENTINEL_SHARE * total!r} ORDER BY n DESC, value LIMIT 50"
    )
    shares = [(float(str(value)), float(str(n)) / total) for value, n in rows]
    return tuple(
        (value, share)
        for value, share in shares
        # A negative sentinel below the bounds would count as the lower bound.
        if share >= FREQUENT_SHARE or value in SENTINELS or (value < 0 <= low)
    )


def _file_quartiles(
    session: Session, source: object, relation: Relation, request: ReadRequest
) -> Iterator[tuple[str, float, list[float]]]:
    """Yield name, records and quartiles of each file, where there are several."""
    from hexveil.records.duckdb.validation import validate_records  # noqa: PLC0415  the engine

    if not isinstance(source, Files) or relation.select_files is None:
        return
    if not 1 < len(source.paths) <= MAX_FILES:
        return
    for path in source.paths:
        one = replace(relation, query=relation.select_files([path]))
        raw = validate_records(session, one, request).raw
        row = session.rows(
            f"SELECT count(*), quantile_cont(value, [0.25, 0.5, 0.75]) FROM ({raw}) "
            "WHERE isfinite(value)"
        )[0]
        if row[1] is not None:
            yield safe_path(path, source.paths), float(str(row[0])), list(row[1])  # type: ignore[call-overload]


def _day_quartiles(session: Session, usable: str) -> Iterator[tuple[str, float, list[float]]]:
    """Yield name, records and quartiles of each local day."""
    rows = session.rows(
        "SELECT CAST(DATE '1970-01-01' + CAST(local_s // 86400 AS INTEGER) AS VARCHAR), count(*), "
        f"quantile_cont(value, [0.25, 0.5, 0.75]) FROM ({usable}) "
        "WHERE local_s >= 0 GROUP BY 1 ORDER BY 1"
    )
    for day, n, quartiles in rows:
        yield str(day), float(str(n)), list(quartiles)  # type: ignore[call-overload]


def unit_jumps(groups: list[tuple[str, float, list[float]]]) -> tuple[UnitJump, ...]:
    """Return the groups with quartiles that all differ from the largest group's by one factor.

    Parameters
    ----------
    groups : list of (str, float, list of float)
        Name, records and quartiles of each file or day.

    Examples
    --------
    >>> [jump.unit for jump in unit_jumps([("a", 90, [10, 20, 30]), ("b", 50, [2.8, 5.5, 8.3])])]
    ['m/s where others are in km/h']
    """
    enough = [group for group in groups if group[1] >= MIN_GROUP_RECORDS]
    if len(enough) < 2:
        return ()
    _, _, reference = max(enough, key=lambda group: group[1])
    jumps = []
    for name, _, quartiles in enough:
        pairs = [(a, b) for a, b in zip(quartiles, reference, strict=True) if a > 0 and b > 0]
        # Standing vehicles make a quartile 0 in any unit; two are left to compare at least.
        if len(pairs) < 2:
            continue
        ratios = np.array([a / b for a, b in pairs])
        unit = _unit_of_ratio(ratios)
        if unit is not None:
            jumps.append(UnitJump(name, float(np.median(ratios)), unit))
    return tuple(jumps)


def _unit_of_ratio(ratios: np.ndarray) -> str | None:
    """Return the conversion nearest to some ratios, if all are near it."""
    candidates = []
    for words, factor in UNIT_FACTORS.items():
        first, _, second = words.partition(" where others are in ")
        inverse = f"{second} where others are in {first}"
        candidates += [(factor, words), (1.0 / factor, inverse)]
    distances = [
        (float(np.abs(ratios / factor - 1.0).max()), words) for factor, words in candidates
    ]
    distance, words = min(distances)
    return words if distance <= RATIO_TOLERANCE else None
