"""The rules of `validation` on blocks of declared types, by few passes of numpy over each.

A record is left out for the same reason as by the engine's query, and has the same keys and quanta,
bit for bit: tests/records/duckdb/test_block_rules.py compares both. Whole blocks are looked at
first: where no field is null and all lie in range, no record is looked at by itself.

Where a field needs the engine's reading of text, or of numbers as times, a block is none of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.base.arrow_numbers import to_numpy
from hexveil.model.cells import DAY, Cells
from hexveil.records.duckdb.validation import (
    BOX,
    DATES,
    DROPPED,
    HOURS,
    NO_PLACE,
    NO_TIME,
    NO_USER,
    NO_VALUE,
)
from hexveil.records.utc_offsets import END_OF_TIMES, clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from hexveil.model.public_metadata import ValueLattice
    from hexveil.records.read_request import ReadRequest, Rules
    from hexveil.records.select import Select
    from hexveil.records.sources.columns import TypeName
    from hexveil.records.utc_offsets import UtcOffsets

    Columns = dict[str, NDArray[Any]]
    Flags = NDArray[np.bool_]
    Whole = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Tests = Sequence[tuple[int, "Flags | None"]]

MICROSECONDS = 10**6
_REASONS = 1 << 8
_TIMES = frozenset(("time", "naive time"))


@dataclass(frozen=True, repr=False)
class KeptRecords:
    """PRIVATE. Numbers of the records that all rules keep.

    Attributes
    ----------
    columns : dict of str to ndarray
        user_id, place0, place1, quanta; time_us, and slot, day and week, if they are needed: the
        last three a day later, as local times in 1970 can be below 0.
    left_out : ndarray of int64, shape (256,)
        How many records each reason covers, but for those that are kept.
    """

    columns: Columns
    left_out: Whole


class BlockRules:
    """The rules of a request.

    Parameters
    ----------
    request : ReadRequest
        With hexagons as cells, and one clock.
    fields : mapping of str to str
        The column of each role; of one role each.
    timed : bool
        Whether `time_us` is needed.
    """

    def __init__(self, request: ReadRequest, fields: Mapping[str, str], *, timed: bool) -> None:
        self._fields, self._rules, self._timed = fields, request.rules, timed
        zone, naive = request.rules.clock, request.rules.naive
        self._offset = None if zone is None else _step_function(clock(zone).offsets())
        self._wall = None if naive is None else _step_function(clock(naive).wall_offsets())
        self._keys = _clock_keys(request.rules)

    def fit(self, types: Mapping[str, TypeName]) -> bool:
        """Return whether blocks with columns of such types can be validated here."""
        kinds = {role: types[column] for role, column in self._fields.items()}
        return all(
            kind in _TIMES if role == "time" else kind == "number"
            for role, kind in kinds.items()
            if role != "user"
        )

    def apply(self, batch: pa.RecordBatch, types: Mapping[str, TypeName]) -> KeptRecords:
        """Validate records, with numbers as users."""
        columns, nulls = {}, {}
        for role, name in self._fields.items():
            columns[role], nulls[role] = _numbers(batch[name])
        if "time" in columns and types[self._fields["time"]] == "naive time":
            wall = columns["time"]
            columns["time"] = wall - self._wall_offset(wall // MICROSECONDS) * MICROSECONDS
        left_out = np.zeros(_REASONS, dtype=np.int64)
        columns = _filtered(columns, _usability_tests(columns, nulls), left_out)
        local = None
        if self._offset is not None and "time" in columns and columns["time"].size:
            local = columns["time"] // MICROSECONDS
            local += self._offset(local)
            columns["local"] = local
        columns = _filtered(columns, _selection_tests(columns, self._rules.select), left_out)
        kept: Columns = {"user_id": columns["user"]}
        if self._keys:
            # No record is left, or all have a local time: fewer than 2^32 seconds.
            local = columns.get("local", np.zeros(0, dtype=np.int64)).astype(np.uint32)
            kept |= {name: key(local) for name, key in self._keys.items()}
        kept |= {"quanta": _quanta(columns["value"], self._rules.scale)}
        kept |= {"place0": columns["lat"], "place1": columns["lon"]}
        if self._timed:
            kept["time_us"] = columns["time"]
        return KeptRecords(kept, left_out)

    def _wall_offset(self, wall: Whole) -> Whole | int:
        assert self._wall is not None  # noqa: S101  without one such times are text
        return self._wall(wall)


def _numbers(column: pa.Array) -> tuple[NDArray[Any], Flags | None]:
    """Return the numbers of a column, any where it is null, and where that is."""
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    if not column.null_count:
        return to_numpy(column), None
    is_null = to_numpy(column.is_null().cast(pa.uint8())).view(np.bool_)
    numbers = pa.Array.from_buffers(
        column.type, len(column), [None, column.buffers()[1]], 0, column.offset
    )
    return to_numpy(numbers), is_null


def _usability_tests(columns: Columns, nulls: Mapping[str, Flags | None]) -> Tests:
    tests: list[tuple[int, Flags | None]] = [
        (NO_VALUE, nulls["value"]),
        (NO_USER, nulls["user"]),
    ]
    if "time" in columns:
        tests.append((NO_TIME, nulls["time"]))
        tests.append((NO_TIME, _outside(columns["time"], 0, END_OF_TIMES * MICROSECONDS - 1)))
    for role, end in (("lat", 90.0), ("lon", 180.0)):
        tests.append((NO_PLACE, nulls[role]))
        tests.append((NO_PLACE, _outside(columns[role], -end, end)))
    return tests


def _outside(numbers: NDArray[Any], least: float, most: float) -> Flags | None:
    """Return which numbers are outside of a range; None if none is."""
    if not numbers.size or (numbers.min() >= least and numbers.max() <= most):
        return None
    return np.asarray((numbers < least) | (numbers > most))


def _selection_tests(columns: Columns, select: Select) -> Tests:
    tests: list[tuple[int, Flags | None]] = []
    if select.drop_values:
        dropped = np.array([float(value) for value in select.drop_values])
        tests.append((DROPPED, np.isin(columns["value"], dropped)))
    if "local" in columns and select.hours is not None:
        chosen = np.zeros(24, dtype=np.bool_)
        chosen[list(select.hours)] = True
        tests.append((HOURS, ~chosen[(columns["local"] + DAY) // 3600 % 24]))
    if "local" in columns and select.days is not None:
        start, end = select.days
        tests.append((DATES, _outside(columns["local"], start * DAY, end * DAY + DAY - 1)))
    if select.box is not None:
        west, south, east, north = select.box
        tests.append((BOX, _outside(columns["lon"], west, east)))
        tests.append((BOX, _outside(columns["lat"], south, north)))
    return tests


def _filtered(columns: Columns, tests: Tests, left_out: Whole) -> Columns:
    """Return the records that no test flags; count the others by the first that does."""
    found = [(reason, flags) for reason, flags in tests if flags is not None]
    if not found:
        return columns
    why = np.zeros(columns["value"].size, dtype=np.uint8)
    for reason, flags in reversed(found):
        why[flags] = reason
    left_out += np.bincount(why, minlength=_REASONS)
    left_out[0] = 0
    stays = np.flatnonzero(why == 0)
    return {role: column[stays] for role, column in columns.items()}


def _step_function(steps: UtcOffsets) -> Callable[[Whole], Whole | int]:
    """Return a step function of seconds: a single number where no step is between them."""
    starts = np.array([start for start, _ in steps.steps], dtype=np.int64)
    values = np.array([steps.initial, *(value for _, value in steps.steps)], dtype=np.int64)

    def offset(seconds: Whole) -> Whole | int:
        first, last = np.searchsorted(starts, (seconds.min(), seconds.max()), side="right")
        if first == last:
            return int(values[first])
        return np.asarray(values[np.searchsorted(starts, seconds, side="right")])

    return offset


def _clock_keys(rules: Rules) -> dict[str, Callable[[NDArray[np.uint32]], NDArray[np.uint32]]]:
    """Return the functions from local seconds to slots, days and weeks, each a day later."""
    keys: dict[str, Callable[[NDArray[np.uint32]], NDArray[np.uint32]]] = {}
    day = np.uint32(DAY)
    grid = rules.cells
    if isinstance(grid, Cells) and grid.seconds is not None:
        step, pooled = np.uint32(grid.seconds), grid.slot == "pooled"

        def slot(local: NDArray[np.uint32]) -> NDArray[np.uint32]:
            # Before 1970 seconds wrap, and a day more brings them back.
            start = (local + day) // step * step
            return np.asarray(start % day + day if pooled else start)

        keys["slot"] = slot
    if rules.privacy_unit == "user-day":
        keys["day"] = lambda local: np.asarray((local + day) // day + day)
    elif rules.privacy_unit == "user-week":
        # As `aggregation.unit_keys`.
        keys["week"] = lambda local: np.asarray((local + 10 * day) // (7 * day) + day)
    return keys


def _quanta(value: Floats, scale: ValueLattice) -> NDArray[np.signedinteger[Any]]:
    """Return finite values as `validation.quanta` does."""
    number = np.minimum(value, float(scale.upper))
    np.maximum(number, float(scale.lower), out=number)
    number *= float(scale.quantum.denominator)
    number /= float(scale.quantum.numerator)
    # Half away from zero. All of it is exact: what is cut off, its double, whole numbers to 2^53.
    whole = np.trunc(number)
    number -= whole
    number += number
    np.trunc(number, out=number)
    whole += number
    whole -= float(int(scale.lower / scale.quantum))
    np.clip(whole, 0.0, float(scale.span_quanta), out=whole)
    return whole.astype(np.int32 if scale.span_quanta < 2**31 else np.int64)
