"""Rows of a table of sums that another system made, before their sums are projected.

Rows that no rule could count are dropped for a public reason: malformed, or without a usable sum
(present, finite, a number), user or cell. Counts and cells are public, so what is wrong with
them is said.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hexveil.base import hexagons
from hexveil.base.errors import ColumnError, InputError
from hexveil.model.cells import DAY, Cells, Labels
from hexveil.records.duckdb.times import END_OF_TIMES
from hexveil.records.sources.source_files import Files, MemoryTable
from hexveil.records.units import refuse_inexact_ids

_MEMORY = "1GB"
LARGEST_N = 2.0**53
SUMS_COLUMNS = ("user", "n", "sum", "sum_sq")
BIN = "bin"


def check_labels(grid: Cells | Labels, *, by_bin: bool = False) -> None:
    """Refuse labels with the name of another column of a table of sums."""
    names = (*SUMS_COLUMNS, *([BIN] if by_bin else []))
    clashing = [name for name in grid.columns if name in names] if isinstance(grid, Labels) else []
    if clashing:
        raise InputError(
            f"cells: the label {clashing[0]!r} has the name of another column of sums; rename it."
        )


def cell_columns(grid: Cells | Labels) -> tuple[str, ...]:
    """Return the names of the columns that identify a row's cell."""
    if isinstance(grid, Labels):
        return grid.columns
    return ("hexagon",) if grid.seconds is None else ("hexagon", "slot")


def read_rows(
    source: Files | MemoryTable, grid: Cells | Labels, *, by_bin: bool
) -> tuple[pa.Table, dict[str, int]]:
    """Return the usable rows of a table of sums, in any order, and the counts of its public rules.

    Columns are the keys of the cell as pairs have them, `user_id`, `n`, `value_sum`, and perhaps
    `square_sum` and `fine_bin`. PRIVATE.

    Parameters
    ----------
    source : Files or Table
    grid : Cells or Labels
    by_bin : bool
        Whether to read the column `bin`, the number of the fine bin that a row's values lie in.

    Raises
    ------
    ColumnError
        If a column is missing.
    InputError
        If the source cannot be read, a count is not one, a cell is not one of `grid`, or no row
        can be counted.
    """
    table, malformed = _fetch_columns(source, cell_columns(grid), by_bin=by_bin)
    if "inexact_user" in table.column_names:
        refuse_inexact_ids(pc.sum(table["inexact_user"]).as_py() or 0, "user")
        table = table.drop_columns("inexact_user")
    n = _counts(table, by_bin=by_bin)
    # How many rows a pair has depends on its values where rows are those of bins: then records,
    # which are public, are counted in their place.
    weight = n if by_bin else np.ones_like(n)
    # By usable or not, never by size: which rows are dropped is public, their sums are not.
    places_of = [name for name in table.column_names if name.startswith("place")]
    sums = [name for name in ("value_sum", "square_sum") if name in table.column_names]
    usable = np.ones(n.size, dtype=np.bool_)
    rules = {
        "records read" if by_bin else "rows read": int(weight.sum()) + malformed,
        "unparsable": malformed,
    }
    for rule, names, is_usable in (
        ("without a usable sum", sums, lambda column: np.isfinite(doubles(column))),
        ("without a user", ["user_id"], _is_present),
        ("without a usable place", places_of, _is_present),
    ):
        passed = usable & np.logical_and.reduce([is_usable(table[name]) for name in names])
        rules[rule] = int(weight[usable & ~passed].sum())
        usable = passed
    _refuse_nothing(int(usable.sum()), rules)
    table = table.set_column(table.column_names.index("n"), "n", pa.array(n)).filter(
        pa.array(usable)
    )
    keys = _cell_keys(table, grid, weight[usable])
    others = table.drop_columns(places_of)
    return pa.table([*keys.values(), *others.columns], [*keys, *others.column_names]), rules


def _fetch_columns(
    source: Files | MemoryTable, cell: tuple[str, ...], *, by_bin: bool
) -> tuple[pa.Table, int]:
    """Return the columns as text and numbers, and how many malformed lines were skipped."""
    from hexveil.records.duckdb import expressions  # noqa: PLC0415  the engine
    from hexveil.records.duckdb.session import Session  # noqa: PLC0415
    from hexveil.records.duckdb.source import open_source  # noqa: PLC0415

    with Session(_MEMORY) as session:
        relation = open_source(session, source, (*cell, *SUMS_COLUMNS, *[BIN] * by_bin))
        document = relation.document

        def number_of(name: str) -> str:
            return expressions.number(relation.find(session, name, name), name, document)

        user = expressions.canonical_id(relation.find_user(session, "user"), document)
        columns = {
            f"place{i}": expressions.name_text(
                relation.find(session, "cell", name), "cell", document
            )
            for i, name in enumerate(cell)
        }
        columns |= {"user_id": user.text, "n": number_of("n"), "value_sum": number_of("sum")}
        if user.inexact is not None:
            columns["inexact_user"] = user.inexact
        if by_bin:
            columns["fine_bin"] = number_of(BIN)
        with suppress(ColumnError):  # it may be left out
            columns["square_sum"] = number_of("sum_sq")
        select_list = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
        table = session.arrow(f"SELECT {select_list} FROM ({relation.query})")
        return table, relation.skipped()


def doubles(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return numbers, NaN where there is none."""
    return np.asarray(column.to_numpy(), dtype=np.float64)


def nearest_bins(written: NDArray[np.float64], n_bins: int) -> NDArray[np.int64]:
    """Return the nearest number of a bin; the first for one that is missing."""
    # No error and no dropped row: a bin is private, so nothing public may depend on it.
    numbers = np.clip(np.nan_to_num(written, nan=0.0), 0, n_bins - 1)
    return np.asarray(np.rint(numbers), dtype=np.int64)


def _is_present(column: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return which entries are not null."""
    return np.asarray(pc.is_valid(column), dtype=np.bool_)


def _counts(table: pa.Table, *, by_bin: bool) -> NDArray[np.int64]:
    """Return the counts; they are public, so an odd one is refused rather than dropped."""
    n = doubles(table["n"])
    # Negated as a whole, so that a missing count, which is NaN here, is bad too.
    bad = ~((n >= 1) & (n <= LARGEST_N) & (np.floor(n) == n))
    if bad.any():
        rows = "some" if by_bin else f"{int(bad.sum())} of {n.size}"
        raise InputError(
            f"n: {rows} rows have no whole number of at least 1 there; it counts a user's records "
            "in a cell."
        )
    return n.astype(np.int64)


def _refuse_nothing(selected: int, rules: Mapping[str, int]) -> None:
    if selected:
        return
    read = next(iter(rules.values()))
    if not read:
        raise InputError("source: there is no row of sums in it.")
    counts = ", ".join(f"{count} are {rule}" for rule, count in list(rules.items())[1:] if count)
    raise InputError(f"no row of sums can be used: of {read} rows, {counts}.")


def _cell_keys(
    table: pa.Table, grid: Cells | Labels, weight: NDArray[np.int64]
) -> dict[str, pa.Array]:
    """Return the keys of each row's cell, as pairs have them; refuse a text that is none.

    Cells are public, so that it is said how many rows have no cell.
    """
    if isinstance(grid, Labels):
        return {f"label{i}": table[f"place{i}"] for i in range(len(grid.columns))}
    keys = {"hexagon": _parsed(table["place0"], lambda t: parse_hexagon(t, grid.resolution))}
    expected = {"hexagon": (f"H3 cell of resolution {grid.resolution}", "the hex text of H3")}
    if grid.seconds is not None:
        keys["slot"] = _parsed(table["place1"], lambda text: parse_slot(text, grid))
        example = '"15:00"' if grid.slot == "pooled" else '"2024-02-19T15:00"'
        expected["slot"] = (f"local start of a {grid.slot} slot of {grid.timeslot}", example)
    for name, key in keys.items():
        if key.null_count:
            bad, (cell, example) = int(weight[~_is_present(key)].sum()), expected[name]
            raise InputError(
                f"{name}: {bad} of {int(weight.sum())} rows have no {cell} there; write for "
                f"example {example}."
            )
    return keys | {"hexagon": keys["hexagon"].cast(pa.uint64())}


def _parsed(column: pa.ChunkedArray, parse: Callable[[str], int | None]) -> pa.Array:
    """Return the number that each text means, null where it means none."""
    # Millions of rows, but few distinct texts: only these are parsed.
    texts = column.cast(pa.large_string()).combine_chunks().dictionary_encode()
    numbers = pa.array([parse(text) for text in texts.dictionary.to_pylist()], pa.int64())
    return numbers.take(texts.indices)


_HEX = re.compile(r"\s*(?:0[xX])?([0-9a-fA-F]{15,16})\s*")
_DECIMAL = re.compile(r"\s*(\d{17,19})\s*")


def parse_hexagon(text: str, resolution: int) -> int | None:
    """Return the H3 index in a text, hex or decimal; None if it is no cell of the resolution."""
    if match := _HEX.fullmatch(text):
        index = int(match[1], 16)
    elif match := _DECIMAL.fullmatch(text):
        index = int(match[1])
    else:
        return None
    return index if hexagons.is_name(f"{index:x}", resolution) else None


def parse_slot(text: str, grid: Cells) -> int | None:
    """Return a slot's local start in seconds; None if no slot of the grid starts there."""
    written = text.strip() if grid.slot == "calendar" else f"1970-01-01T{text.strip()}"
    try:
        start = datetime.fromisoformat(written)
    except ValueError:
        return None
    if start.tzinfo is not None or start.microsecond:
        return None
    seconds = int(start.replace(tzinfo=UTC).timestamp())
    assert grid.seconds is not None  # noqa: S101  only slots are parsed
    # Local clocks are up to a day from UTC, in which usable times run from 1970 to 2100.
    good = -DAY <= seconds < END_OF_TIMES + DAY and seconds % grid.seconds == 0
    return seconds if good else None
