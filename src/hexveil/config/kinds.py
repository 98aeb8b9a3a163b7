"""The kinds of value a run file holds, each also readable from text as in "0,65".

Numbers stay exact: they are handed on as the text that was written, so 0.1 means one tenth.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator


def _text(value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise ValueError(f"must be text, got {value!r}")


def _number(value: object) -> str:
    """Return a number as exact text; the library judges its size."""
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise ValueError(f"must be a number, got {value!r}")


def _whole(value: object) -> int:
    try:
        return int(_number(value))
    except ValueError:
        raise ValueError(f"must be a whole number, got {_shown(value)}") from None


def _share(value: object) -> float:
    try:
        return float(_number(value))
    except ValueError:
        raise ValueError(f"must be a number from 0 to 1, got {_shown(value)}") from None


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"must be true or false, got {_shown(value)}")


def _shown(value: object) -> str:
    return str(value) if isinstance(value, Decimal) else repr(value)


def _items(value: object) -> list[object]:
    """Return a list as it is, and text as its comma-separated parts."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return listed(value)


def listed(value: object) -> list[object]:
    """Return a list as it is, and a single value as a list of one."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _paths(value: object) -> tuple[str, ...]:
    """Return paths; a comma is part of a name."""
    return tuple(_text(item) for item in listed(value))


def _numbers(value: object) -> tuple[str, ...]:
    return tuple(_number(item) for item in _items(value))


def _names(value: object) -> tuple[str, ...]:
    return tuple(_text(item) for item in _items(value))


def _words(value: object) -> tuple[str, ...]:
    """Return items as text, as the library reads them: 7-9 is a range, a date is ISO."""
    return tuple(str(item) for item in _items(value))


def _goals(value: object) -> str | dict[str, str]:
    """Return a target as exact text, or one per statistic from a table or "mean=2,variance=5%"."""
    if isinstance(value, dict):
        return {str(name): _number(goal) for name, goal in value.items()}
    if isinstance(value, str) and "=" in value:
        parts = (part.partition("=") for part in value.split(","))
        return {name.strip(): goal.strip() for name, _, goal in parts}
    return _number(value)


Text = Annotated[str, BeforeValidator(_text)]
Exact = Annotated[str, BeforeValidator(_number)]
Whole = Annotated[int, BeforeValidator(_whole)]
Share = Annotated[float, BeforeValidator(_share)]
Switch = Annotated[bool, BeforeValidator(_switch)]
Numbers = Annotated[tuple[str, ...], BeforeValidator(_numbers)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Paths = Annotated[tuple[str, ...], BeforeValidator(_paths)]
Goals = Annotated[str | dict[str, str], BeforeValidator(_goals)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
