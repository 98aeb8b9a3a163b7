"""The value columns of a reading: one, or several with bounds, quantum and unit of measure each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.base.items import items_of

if TYPE_CHECKING:
    from hexveil.base.rational import Number


@dataclass(frozen=True)
class ValueColumn:
    """A value column and the declarations of its values; see `hexveil.records.read`."""

    name: str
    bounds: object
    quantum: Number
    value_unit: str | None


def value_columns(
    value: object, bounds: object, quantum: object, value_unit: object
) -> tuple[ValueColumn, ...]:
    """Return the value columns of a reading, in the order in which they are named.

    Parameters
    ----------
    value : str or sequence of str
    bounds, quantum, value_unit : object, or mapping of column to object
        One for all columns, or one for each.

    Raises
    ------
    InputError
        If a column is named twice, or missing in a mapping.

    Examples
    --------
    >>> [c.bounds for c in value_columns(("a", "b"), {"a": (0, 1), "b": (0, 9)}, "0.1", None)]
    [(0, 1), (0, 9)]
    """
    # Whatever they are, `RecordColumns` judges them.
    names = items_of(value) or [value]
    if len(set(map(str, names))) < len(names):
        raise InputError(f"value names a column twice; name each once, got {names!r}.")
    declared = {"bounds": bounds, "quantum": quantum, "value_unit": value_unit}
    for field, one in declared.items():
        _check_names(field, one, names)
    return tuple(
        ValueColumn(name, **{field: _of_column(one, name) for field, one in declared.items()})
        for name in names
    )


def _check_names(field: str, declared: object, names: Sequence[str]) -> None:
    """Refuse a mapping that leaves a value column out."""
    if not isinstance(declared, Mapping):
        return
    missing = [name for name in names if name not in declared]
    # Columns that are not read now may be named: one run file serves all, also one by one.
    unread = [name for name in declared if name not in names]
    if missing and (field != "value_unit" or unread):
        beside = f" (it names {', '.join(map(repr, unread))})" if unread else ""
        raise InputError(
            f"{field} leaves out the value column {missing[0]!r}{beside}; state it too."
        )


def _of_column(declared: object, name: str) -> Any:  # noqa: ANN401  a kind of value each
    return declared.get(name) if isinstance(declared, Mapping) else declared
