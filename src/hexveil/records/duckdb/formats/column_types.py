"""Types of the engine's columns as those that roles ask for, and names that the engine confuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duckdb.sqltypes import DuckDBPyType

from hexveil.base.errors import InputError
from hexveil.records.duckdb.session import Session
from hexveil.records.sources.columns import ColumnType, Schema, TypeName


def check_names(
    describe: Callable[[], str], names: Sequence[str], *, show_names: bool = True
) -> None:
    """Refuse columns that the engine takes for one: it reads names without regard to case.

    It would rename the second, perhaps to the name of a third.
    """
    by_folded_name: dict[bytes, str] = {}
    for name in names:
        # bytes.lower changes ASCII alone, as the engine does.
        earlier = by_folded_name.setdefault(name.encode(errors="replace").lower(), name)
        if name == earlier and list(names).count(name) > 1:
            raise InputError(f"source: {describe()} has two columns of one name; rename one.")
        if name != earlier:
            columns = f"columns {earlier!r} and {name!r}" if show_names else "two columns"
            raise InputError(
                f"source: {describe()} has {columns}, which differ in capital letters alone; "
                "rename one."
            )


def typed_schema(session: Session, query: str) -> Schema:
    """Return the types of the columns of a query."""
    return {name: _kind(duckdb_type) for name, duckdb_type in session.types(query).items()}


_NESTED = ("struct", "list", "array")
_KINDS: dict[str, TypeName] = {
    "varchar": "text",
    "enum": "text",
    "uuid": "text",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "naive time",
    "timestamp_s": "naive time",
    "timestamp_ms": "naive time",
    "timestamp_ns": "naive time",
    "timestamp with time zone": "time",
    "timestamptz_ns": "time",
    "time": "time of day",
    "time_ns": "time of day",
    "time with time zone": "time of day",
    "decimal": "number",
    "map": "map",
    "union": "map",
    "null": "number",  # a column that is declared to hold nothing
}
_FLOAT_BITS = {"float": 24, "double": 53}


def _kind(duckdb_type: DuckDBPyType) -> ColumnType:
    name = duckdb_type.id
    children = {} if name not in _NESTED else dict(duckdb_type.children)
    # An array's children include its size, a plain number.
    inner = {n: _kind(t) for n, t in children.items() if isinstance(t, DuckDBPyType)}
    if name == "struct":
        return ColumnType("struct", inner)
    if name in _NESTED:
        return ColumnType("list", element=inner["child"])
    if name.endswith(("int", "integer")):
        return ColumnType("number", is_integer=True)
    if name in _FLOAT_BITS:
        return ColumnType("number", float_bits=_FLOAT_BITS[name])
    return ColumnType(_KINDS.get(name, "other"))
