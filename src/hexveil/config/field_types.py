"""The kinds of value a run file holds, each also readable from text as in "0,65".

Numbers stay exact: they are handed on as the text that was written, so 0.1 means one tenth.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from hexveil.planning.plan_arguments import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexveil.config.fields import RunField


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


def _numbers(value: object) -> tuple[str, ...]:
    return tuple(_number(item) for item in _items(value))


def _column_names(value: object) -> str | tuple[str, ...]:
    """Return a column, or several; a comma is part of a name."""
    names = _paths(value)
    if len(set(names)) < len(names):
        raise ValueError("names a column twice")
    return names[0] if len(names) == 1 else names


def _by_column(value: object, read: Callable[[object], object]) -> dict[str, object] | None:
    """Return the statements by value column, from a table or texts like "pm25=..."; else None."""
    if isinstance(value, dict):
        return {_text(name): read(stated) for name, stated in value.items()}
    texts = [item for item in as_list(value) if isinstance(item, str) and "=" in item]
    if not texts or len(texts) < len(as_list(value)):
        return None
    pairs = [text.rpartition("=") for text in texts]
    names = [name.strip() for name, _, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError("states one column twice")
    return {name: read(stated.strip()) for name, (_, _, stated) in zip(names, pairs, strict=True)}


def _or_by_column(read: Callable[[object], object]) -> Callable[[object], object]:
    """Return a reader of one value for all value columns, or of one for each."""

    def read_either(value: object) -> object:
        labelled = _by_column(value, read)
        # An option that may be repeated is a list.
        is_single = isinstance(value, list) and len(value) == 1
        return labelled or read(value[0] if is_single else value)  # type: ignore[index]

    return read_either


def _names(value: object) -> tuple[str, ...]:
    return tuple(_text(item) for item in _items(value))


def _words(value: object) -> tuple[str, ...]:
    """Return items as text, as the library reads them: 7-9 is a range, a date is ISO."""
    return tuple(str(item) for item in _items(value))


def _lists(value: object) -> tuple[tuple[str, ...], ...] | dict[str, tuple[str, ...]]:
    """Return lists of text: of one column alone, or one per column, in order or by name."""
    lists = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(lists, (list, tuple)):
        raise ValueError(  # noqa: TRY004  what is taken for a refusal
            'must be a list, or one for each label, such as ["4", "15"]'
        )
    if not isinstance(value, dict) and not any(isinstance(item, (list, tuple)) for item in lists):
        return (_names(lists),)
    if not all(isinstance(item, (list, tuple)) for item in lists):
        raise ValueError('must have a list for each label, such as [["4", "15"], ["7", "8"]]')
    texts = tuple(_names(item) for item in lists)
    return dict(zip(map(str, value), texts, strict=True)) if isinstance(value, dict) else texts


def _goals(value: object) -> str | dict[str, str | dict[str, str]]:
    """Return a target as exact text, or one per statistic or value column.

    Several come as a table, as "mean=2,variance=5%", or as such texts in a list. A column may have
    a table of its own.
    """
    if isinstance(value, dict):
        return {
            str(name): _goals_of_column(goal) if isinstance(goal, dict) else _number(goal)
            for name, goal in value.items()
        }
    entries = [entry for item in as_list(value) for entry in _goal_texts(item)]
    if len(entries) == 1 and "=" not in str(entries[0]):
        return _number(entries[0])
    if not all("=" in str(entry) for entry in entries):
        raise ValueError(
            "must be one number, or one per statistic or value column, for example "
            f"mean=2,variance=5%; got {', '.join(map(str, entries))}"
        )
    pairs = [str(entry).rpartition("=") for entry in entries]
    names = [name.strip() for name, _, _ in pairs]
    for name, _, goal in pairs:
        if names.count(name.strip()) > 1:
            raise ValueError(f"has two targets for {name.strip()}; use one")
        if not goal.strip():
            raise ValueError(f"names {name.strip()} without a number")
    return {name.strip(): goal.strip() for name, _, goal in pairs}


def _goals_of_column(goals: dict[object, object]) -> dict[str, str]:
    """Return the targets of one value column, by statistic."""
    return {str(name): _number(goal) for name, goal in goals.items()}


def _goal_texts(item: object) -> list[object]:
    """Return the targets of one text; a comma may be part of the name of a column."""
    return [item] if isinstance(item, str) and item.count("=") == 1 else _items(item)


def _weights(value: object) -> dict[str, str]:
    """Return weights by kind of statistics, from a table or a text like "moments=1"."""
    if isinstance(value, dict):
        return {_text(name): _number(weight) for name, weight in value.items()}
    entries = [str(entry) for item in as_list(value) for entry in _items(item)]
    if not entries or not all("=" in entry for entry in entries):
        raise ValueError(
            "must be one number per kind, for example moments=1,distribution=2; got "
            f"{', '.join(entries)}"
        )
    pairs = [entry.partition("=") for entry in entries]
    return {name.strip(): weight.strip() for name, _, weight in pairs}


def _version(value: object) -> str | dict[str, str]:
    """Return a version, or versions by the names of files."""
    if isinstance(value, dict):
        return {_text(name): _text(version) for name, version in value.items()}
    return _text(value)


READERS: dict[str, Callable[[object], object]] = {
    "text": _text,
    "names": _names,
    "words": _words,
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
    "series": ("daily", "fixed"),
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
