"""Refusals of unusable records, each one sentence from public counts.

Called when too many records, or all, were left out. Public are: how many records each rule left
out, and the places and times of records. No value, id or row is ever shown.
"""

from __future__ import annotations

from collections.abc import Mapping

from hexveil.base.errors import InputError
from hexveil.records.duckdb import validation
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.times import END_OF_TIMES
from hexveil.records.duckdb.validation import ValidatedRecords
from hexveil.records.read_request import ReadRequest
from hexveil.records.units import refuse_inexact_ids

_SWAPPED = "latitude and longitude look swapped: "
_IN_RANGE = "{0} BETWEEN -90 AND 90 AND {1} BETWEEN -180 AND 180"


BYTES_OF_PAIR = 110
"""Memory that a pair takes at most while it is planned and released (docs/understand/limits.md)."""
BYTES_OF_HELD_PAIR = 50
"""Memory of a pair of a planned data set, with its sums, while another grid is planned."""
PAIRS_ALWAYS_HELD = 2 * 10**9
"""Bytes of pairs that are kept in memory, however small a memory the engine is given."""


def pairs_exceed(memory: float, pairs: int, held: int = 0) -> bool:
    """Return whether so many pairs are too many to be planned in so many bytes.

    Beside them are `held` pairs of the data set that the same records are.
    """
    room = max(memory, PAIRS_ALWAYS_HELD) - held * BYTES_OF_HELD_PAIR
    return pairs * BYTES_OF_PAIR > room


def refuse_unusable(
    session: Session, source: ValidatedRecords, request: ReadRequest, left_out: Mapping[int, int]
) -> None:
    """Raise InputError if the source has no record, keeps none, or has too many unusable ones.

    Parameters
    ----------
    left_out : mapping of int to int
        Per reason (0: kept) how many records it covers. Public.
    """
    total = sum(left_out.values())
    if total == 0:
        raise InputError("source: there is no record in it, so there is nothing to make a map of.")
    # A single one is refused: what its float was rounded to could be another vehicle's id.
    refuse_inexact_ids(left_out.get(validation.INEXACT_USER, 0), request.columns.user)
    bad = {reason: left_out.get(reason, 0) for reason in validation.UNUSABLE}
    # The most frequent reason is named; of equals the first, in the order of the rules.
    worst = max(bad, key=lambda reason: bad[reason])
    n_bad = sum(bad.values())
    if n_bad == total:
        hint = _hint(session, source, request, worst)
        raise InputError(f"{_NOTHING[worst]}{hint}.")
    if n_bad > request.rules.max_bad_rows * total:
        hint = _hint(session, source, request, worst)
        raise InputError(
            f"{n_bad} of {total} records cannot be used, more than max_bad_rows="
            f"{request.rules.max_bad_rows} allows; most of them are {validation.REASONS[worst]} "
            f"({bad[worst]}){hint}."
        )
    if not left_out.get(0, 0):
        raise InputError(_selected_away(session, source, request, left_out))


def refuse_repeats(request: ReadRequest, n_kept: int, repeats: int) -> None:
    """Raise InputError if more records are repeats of a user and time than is tolerated.

    Parameters
    ----------
    request : ReadRequest
    n_kept : int
        Records that passed the rules before, repeats among them. Public.
    repeats : int
        Of these, records that are left out. Public.
    """
    if repeats > request.rules.max_repeats * n_kept:
        raise InputError(
            f"time: {repeats} of {n_kept} records ({repeats / n_kept:.0%}) have the user and time "
            "of another, and would be left out. If the times are coarser than the reports, or the "
            'records are events, count all: repeats = "keep" (in [read], or --set '
            "read.repeats=keep). If each report is stored several times, accept it: max_repeats = "
            f"{min(1, -(-10 * repeats // n_kept) / 10)} (in [read])."
        )


_NOTHING = {
    validation.UNPARSABLE: "no record could be parsed; the file is not what its name says",
    validation.NO_VALUE: "no record has a usable value (a finite number); check the value column",
    validation.NO_USER: "no record has a user; check the user column",
    validation.NO_TIME: "no record has a usable time",
    validation.NO_PLACE: "no record has a usable place",
}


def _hint(session: Session, source: ValidatedRecords, request: ReadRequest, worst: int) -> str:
    if worst == validation.UNPARSABLE:
        return "" if source.text is None else source.text.hint()
    if worst == validation.NO_VALUE:
        if request.format.decimal == ",":
            return '; with decimal = "," a text with a point is no number'
        return (
            '; for numbers with a decimal comma add decimal = "," (in [format], or --set '
            "format.decimal=,), and remove units behind them"
        )
    if worst == validation.NO_TIME:
        return _time_hint(session, source, request)
    if worst == validation.NO_PLACE and request.columns.has_place:
        return _place_hint(session, source)
    return ""


def _counts(session: Session, source: ValidatedRecords, *tests: str) -> list[int]:
    """Return how many records pass each test. Public."""
    counted = ", ".join(f"count(*) FILTER (WHERE {test})" for test in tests)
    return session.numbers(f"SELECT {counted} FROM ({source.raw})")


def _time_hint(session: Session, source: ValidatedRecords, request: ReadRequest) -> str:
    if request.format.time_format is not None:
        return f"; times must have the declared time_format {request.format.time_format!r}"
    early, late = _counts(session, source, "time_us < 0", f"time_us >= {END_OF_TIMES * 10**6}")
    if early or late:
        return f"; {early} times are before 1970 and {late} after 2100, check the time column"
    lacks = '; times need an offset like "+05:30", or declare their timezone, for example '
    return (lacks + 'timezone="Europe/Warsaw"') * (request.rules.naive is None) + (
        "; other times than ISO 8601 text, or seconds or milliseconds since 1970, need a "
        'time_format = "%d/%m/%Y %H:%M:%S" (in [format], or --set format.time_format), and times '
        'of day a column of dates too, time = ["date", "time"]'
    )


def _place_hint(session: Session, source: ValidatedRecords) -> str:
    bad = f"NOT coalesce({_IN_RANGE.format('lat', 'lon')}, false)"
    swapped_here = f"{bad} AND abs(lat) > 90 AND {_IN_RANGE.format('lon', 'lat')}"
    numbers, swapped = _counts(
        session, source, f"{bad} AND isfinite(lat) AND isfinite(lon)", swapped_here
    )
    # Most of the bad places, not all: a few may be wrong in other ways.
    if swapped * 2 > numbers:
        return f"; {_SWAPPED}exchange them"
    return (
        "; latitude runs from -90 to 90, longitude from -180 to 180 degrees: convert metres (UTM)"
    )


def _selected_away(
    session: Session, source: ValidatedRecords, request: ReadRequest, left_out: Mapping[int, int]
) -> str:
    reason = max(
        (validation.DROPPED, validation.HOURS, validation.DATES, validation.BOX),
        key=lambda r: left_out.get(r, 0),
    )
    if left_out.get(validation.BOX, 0) and request.rules.select.box is not None:
        west, south, east, north = request.rules.select.box
        exchanged = f"lat BETWEEN {west} AND {east} AND lon BETWEEN {south} AND {north}"
        if _counts(session, source, exchanged)[0] * 2 > left_out[validation.BOX]:
            return f"no record lies inside the box; {_SWAPPED}exchange them."
    if reason == validation.BOX:
        return (
            "no record lies inside the box; it is west, south, east, north in degrees, and the "
            "places are elsewhere."
        )
    return (
        f"no record is left after selection: of {sum(left_out.values())} records, "
        f"{left_out.get(reason, 0)} are {validation.REASONS[reason]}; widen the selection."
    )
