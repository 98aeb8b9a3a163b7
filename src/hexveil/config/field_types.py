"""The kinds of value a run file holds, each also readable from text as in "0,65".

Numbers stay exact: they are handed on as the text that was written, so 0.1 means one tenth.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hexveil.planning.plan_arguments import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hexveil.config.fields import RunField

T = TypeVar("T")


def _text(value: object) -> str:
    if isinstance(value, str) and "\0" in value:
        raise ValueError("must be text without a null character")  # no name of a file holds one
    if isinstance(value, str) and value.strip():
        return value
    raise ValueError(f"must be text, got {_text_of(value)}")


def _number(value: object) -> str:
    """Return a number as exact text; the library judges its size."""
    # A bool is an int in Python, and no number in a file.
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return _text_of(value)
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise ValueError(f"must be a number, got {_text_of(value)}")


def _integer(value: object) -> int:
    try:
        return int(_number(value))
    except ValueError:
        raise ValueError(f"must be a whole number, got {_text_of(value)}") from None


def _share(value: object) -> float:
    try:
        # A share limits no loss, so a double is exact enough.
        return float(_number(value))
    except ValueError:
        raise ValueError(f"must be a number from 0 to 1, got {_text_of(value)}") from None


def _switch(value: object) -> bool:
    # Booleans alone: the text "false" would count as true.
    if isinstance(value, bool):
        return value
    raise ValueError(f"must be true or false, got {_text_of(value)}")


def _text_of(value: object) -> str:
    """Return a value as text; refuse a number of so many digits that Python does not write it."""
    try:
        return str(value) if isinstance(value, Decimal) else repr(value)
    except ValueError:
        raise ValueError("contains a number with too many digits; use fewer") from None


def _items(value: object) -> list[object]:
    """Return a list as it is, and text as its comma-separated parts."""
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    return as_list(value)


def as_list(value: object) -> list[object]:
    """Return a list as it is, and a single value as a list of one."""
    # TOML gives lists, options of the command tuples.
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _paths(value: object) -> tuple[str, ...]:
    """Return paths; a comma is part of a name."""
    return tuple(_text(item) for item in as_list(value))


def _each(read: Callable[[object], T]) -> Callable[[object], tuple[T, ...]]:
    """Return a reader of several values, in a list or apart by commas."""
    return lambda value: tuple(read(item) for item in _items(value))


def _column_names(value: object) -> str | tuple[str, ...]:
    """Return a column, or several; a comma is part of a name."""
    names = _paths(value)
    if len(set(names)) < len(names):
        raise ValueError("names a column twice")
    return names[0] if len(names) == 1 else names


def _by_name(texts: Iterable[object]) -> dict[str, str]:
    """Return the statements of texts like "pm25=0,500", by name; a name may hold a sign."""
    stated: dict[str, str] = {}
    for text in texts:
        name, _, value = (part.strip() for part in str(text).rpartition("="))
        if name in stated:
            raise ValueError(f"states {name} twice; use one")
        if not value:
            raise ValueError(f"names {name} without a value")
        stated[name] = value
    return stated


def _table_of(read: Callable[[object], T]) -> Callable[[object], dict[str, T]]:
    """Return a reader of a table."""

    def read_table(value: object) -> dict[str, T]:
        if not isinstance(value, dict):
            raise ValueError("must be a table")  # noqa: TRY004  what is taken for a refusal
        return {_text(name): read(stated) for name, stated in value.items()}

    return read_table


def _or_by_column(read: Callable[[object], object]) -> Callable[[object], object]:
    """Return a reader of one value for all value columns, or of one for each."""

    def read_either(value: object) -> object:
        if isinstance(value, dict):
            return _table_of(read)(value)
        items = as_list(value)
        if items and all(isinstance(item, str) and "=" in item for item in items):
            return _table_of(read)(_by_name(items))
        # An option that may be repeated is a list.
        is_single = isinstance(value, list) and len(value) == 1
        return read(items[0] if is_single else value)

    return read_either


def _lists(value: object) -> tuple[tuple[str, ...], ...] | dict[str, tuple[str, ...]]:
    """Return lists of text: of one column alone, or one per column, in order or by name."""
    lists: Any = list(value.values()) if isinstance(value, dict) else value
    nested = isinstance(lists, (list, tuple)) and [isinstance(one, (list, tuple)) for one in lists]
    if nested is False:
        raise ValueError('must be a list, or one for each label, such as ["4", "15"]')
    if not isinstance(value, dict) and not any(nested):
        return (_names(lists),)
    if not all(nested):
        raise ValueError('must have a list for each label, such as [["4", "15"], ["7", "8"]]')
    return _table_of(_names)(value) if isinstance(value, dict) else tuple(map(_names, lists))


def _goals(value: object) -> str | dict[str, str | dict[str, str]]:
    """Return a target as exact text, or one per statistic or value column.

    Several come as a table, as "mean=2,variance=5%", or as such texts in a list. A column may have
    a table of its own.
    """
    if isinstance(value, dict):
        of_column = _table_of(_number)
        return {
            str(name): of_column(goal) if isinstance(goal, dict) else _number(goal)
            for name, goal in value.items()
        }
    # A comma may be part of the name of a column.
    entries = [
        entry
        for item in as_list(value)
        for entry in ([item] if str(item).count("=") == 1 else _items(item))
    ]
    if len(entries) == 1 and "=" not in str(entries[0]):
        return _number(entries[0])
    if not all("=" in str(entry) for entry in entries):
        raise ValueError(
            "must be one number, or one per statistic or value column, for example "
            f"mean=2,variance=5%; got {', '.join(map(str, entries))}"
        )
    return dict(_by_name(entries))


def _weights(value: object) -> dict[str, str]:
    """Return weights by kind of statistics, from a table or a text like "moments=1"."""
    weights = _goals(value)
    if isinstance(weights, str) or not all(isinstance(one, str) for one in weights.values()):
        raise ValueError(
            f"must be one number per kind, for example moments=1,distribution=2; got {weights}"
        )
    return cast("dict[str, str]", weights)


def _version(value: object) -> str | dict[str, str]:
    """Return a version, or versions by the names of files."""
    return _table_of(_text)(value) if isinstance(value, dict) else _text(value)


_names = _each(_text)
_numbers = _each(_number)

READERS: dict[str, Callable[[object], object]] = {
    "text": _text,
    "names": _names,
    # As the library reads them: 7-9 is a range, a date is ISO.
    "words": _each(str),
    "lists": _lists,
    "paths": _paths,
    "version": _version,
    "switch": _switch,
    "number": _number,
    "integer": _integer,
    "share": _share,
    "numbers": _numbers,
    "columns": _column_names,
    "text by column": _or_by_column(_text),
    "number by column": _or_by_column(_number),
    "integer by column": _or_by_column(_integer),
    "bounds by column": _or_by_column(_numbers),
    "goals": _goals,
    "weights": _weights,
}
"""Check and conversion of a value, by the kind of its field; each raises ValueError."""
CHOICES: dict[str, tuple[str, ...]] = {
    "protect": ("values", "presence"),
    "language": ("en", "de", "hi", "pl"),
    "late": ("keep", "revise"),
    "history": ("archive", "none"),
    **WORDS,
}
"""Words of the fields that take one of the library's."""


def read_value(name: str, field: RunField, value: object) -> object:
    """Return the value of a field as the library takes it; ValueError with the reason if none."""
    if field.kind != "choice":
        return READERS[field.kind](value)
    if value in CHOICES[name]:
        return value
    raise ValueError(f"must be one of {', '.join(CHOICES[name])}, got {_text_of(value)}")
