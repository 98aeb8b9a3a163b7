"""Bit layout of kept records packed into integers.

From the highest bits to the lowest: the hexagon and the slot, or the labels; the user; the day or
week if a unit has one; the value in quanta. Slots, days and values are counted from their least,
users and combinations of labels numbered in the order of their bytes, in tables of the session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.model.cells import Cells
from hexveil.records.duckdb.validation import INTEGER_KEY_PREFIX, key_column
from hexveil.records.utc_offsets import END_OF_TIMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hexveil.records.duckdb.aggregation import GroupKeys
    from hexveil.records.duckdb.session import Session
    from hexveil.records.duckdb.validation import ValidatedRecords
    from hexveil.records.read_request import Rules

USERS, LABELS = "packed_users", "packed_labels"
"""Tables of the session: the number of each user, and of each combination of labels."""
COMBINATION = "combination"
"""The number of a combination of labels, and its field."""


@dataclass(frozen=True)
class Field:
    """An integer field of a packed record.

    Attributes
    ----------
    name, expression : str
    smallest, largest, step : int
        The value is stored as its number of steps above the smallest.
    bits : int
    """

    name: str
    expression: str
    smallest: int
    largest: int
    step: int

    @property
    def bits(self) -> int:
        """Number of bits of the largest value."""
        # A field of a single value takes no bits at all.
        return ((self.largest - self.smallest) // self.step).bit_length()

    def read(self, packed: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Decode the values of the field."""
        return packed.astype(np.int64) * self.step + self.smallest


@dataclass(frozen=True)
class Layout:
    """Fields of a packed record, from high to low bits: hexagon, cell, user, unit, value."""

    cell: tuple[Field, ...]
    unit: tuple[Field, ...]
    value: Field

    @property
    def fields(self) -> tuple[Field, ...]:
        """All below the hexagon."""
        return (*self.cell, *self.unit, self.value)

    @property
    def unit_bits(self) -> int:
        """Bits of a unit."""
        return sum(field.bits for field in self.unit)

    @property
    def below(self) -> int:
        """Bits below the hexagon."""
        return sum(field.bits for field in self.fields)

    @property
    def columns(self) -> str:
        """The fields as columns of SQL."""
        return ", ".join(f"{f.expression} AS packed{i}" for i, f in enumerate(self.fields))

    @property
    def expression(self) -> str:
        """All fields below the hexagon as one number; null if a column is out of its range.

        Null only if the records change after their ranges were read: a number that its bits cannot
        hold would otherwise be taken for a neighbour's.
        """
        number, tests = "CAST(0 AS BIGINT)", []
        for i, field in enumerate(self.fields):
            counted = f"(packed{i} - ({field.smallest}))"
            counted = f"({counted} // {field.step})" if field.step > 1 else counted
            number = f"({number} * {1 << field.bits} + {counted})"
            tests.append(f"packed{i} BETWEEN {field.smallest} AND {field.largest}")
        return f"CASE WHEN {' AND '.join(tests)} THEN {number} END"


def clocked_keys(grouping: GroupKeys) -> dict[str, str]:
    """Return the keys that are times, and have a range; the others are numbered."""
    return {n: e for n, e in grouping.all.items() if n in ("slot", "day", "week")}


def make_layout(
    session: Session, source: ValidatedRecords, grouping: GroupKeys, rules: Rules
) -> Layout | None:
    """Return the layout of records; None if it needs times and no record has one."""
    users = _number(session, source, USERS, {"user_id": "user_id"}, "number")
    labels = _number_labels(session, source) if source.labelled else ()
    clocked = clocked_keys(grouping)
    ends: list[int | None] = []  # least and largest of each
    if clocked:
        columns = ", ".join(f"min({e}), max({e})" for e in clocked.values())
        row = session.rows(
            f"SELECT {columns} FROM ({source.clocked}) "
            f"WHERE time_us BETWEEN 0 AND {END_OF_TIMES * 10**6 - 1}"
        )[0]
        ends = [None if end is None else int(str(end)) for end in row]
    ranges = {}
    for i, name in enumerate(clocked):
        lowest, highest = ends[2 * i : 2 * i + 2]
        if lowest is None or highest is None:
            return None
        ranges[name] = lowest, highest
    return layout_of_ranges(grouping, rules, ranges, users, labels)


def layout_of_ranges(
    grouping: GroupKeys,
    rules: Rules,
    ranges: Mapping[str, tuple[int, int]],
    users: int,
    labels: tuple[Field, ...] = (),
) -> Layout:
    """Return the layout of records with so many users.

    Parameters
    ----------
    grouping : GroupKeys
    rules : Rules
    ranges : mapping of str to (int, int)
        Least and largest slot, day and week, where cells and units have them.
    users : int
    labels : tuple of Field
    """
    fields = {}
    for name, (lowest, highest) in ranges.items():
        step = _slot_step(rules) if name in grouping.cell else 1
        fields[name] = Field(name, grouping.all[name], lowest, highest, step)
    user = Field("user_id", "number", 0, max(users - 1, 0), 1)
    return Layout(
        (*labels, *(fields[name] for name in grouping.cell if name in fields)),
        (user, *(fields[name] for name in grouping.unit if name in fields)),
        Field("quanta", "quanta", 0, rules.scale.span_quanta, 1),
    )


def _number_labels(session: Session, source: ValidatedRecords) -> tuple[Field, ...]:
    """Return the field of labels, all combinations numbered in the order of their bytes."""
    column_names = {f"raw_label{i}": name for i, name in enumerate(source.places)}
    n_labels = _number(session, source, LABELS, column_names, COMBINATION)
    return (Field(COMBINATION, COMBINATION, 0, max(n_labels - 1, 0), 1),)


def _number(
    session: Session,
    source: ValidatedRecords,
    table: str,
    column_names: dict[str, str],
    number: str,
) -> int:
    """Create a table of the distinct texts of raw columns, in order; return their number.

    Whole numbers are told apart in place of their texts, and stand beside them.
    """
    keys = [key_column(name, source.twins) for name in column_names]
    columns = [f"{key} AS {key}" for key in keys if key.startswith(INTEGER_KEY_PREFIX)]
    texts = [
        f"CAST({key} AS VARCHAR) AS {column_names[name]}"
        if key.startswith(INTEGER_KEY_PREFIX)
        else f"{key} AS {text}"
        for key, (name, text) in zip(keys, column_names.items(), strict=True)
    ]
    present = " AND ".join(f"{key} IS NOT NULL" for key in keys)
    session.run(
        f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT *, row_number() OVER (ORDER BY "
        f"{', '.join(column_names.values())}) - 1 AS {number} FROM ("
        f"SELECT {', '.join(columns + texts)} FROM ("
        # Over raw records: a user whose records are all rejected gets a number too, and no pair.
        f"SELECT DISTINCT {', '.join(keys)} FROM ({source.raw})) WHERE {present})"
    )
    return int(str(session.rows(f"SELECT count(*) FROM {table}")[0][0]))


def join_numbers(source: ValidatedRecords) -> str:
    """Return the joins that give records the numbers of their users and labels."""
    of_users = f" LEFT JOIN {USERS} USING ({key_column('user_id', source.twins)})"
    if not source.labelled:
        return of_users
    keys = [key_column(f"raw_label{i}", source.twins) for i in range(len(source.places))]
    columns = [
        key if key.startswith(INTEGER_KEY_PREFIX) else f"place{key.removeprefix('raw_label')}"
        for key in keys
    ]
    return f"{of_users} LEFT JOIN {LABELS} USING ({', '.join(columns)})"


def _slot_step(rules: Rules) -> int:
    return (rules.cells.seconds or 1) if isinstance(rules.cells, Cells) else 1
