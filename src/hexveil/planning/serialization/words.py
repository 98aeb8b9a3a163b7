"""Words of saved plans: texts that are one of a few, exact numbers, and optional parts."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

Words = dict[str, Any]


def one_of(word: Any, known: tuple[Any, ...]) -> Any:  # noqa: ANN401  words of several types
    """Return a word that is one of the known ones; InputError otherwise."""
    if word not in known:
        raise InputError(f"{word!r} is none of {', '.join(map(str, known))}.")
    return word


def positive(text: str) -> Fraction:
    """Return a number above 0 from its exact text."""
    number = Fraction(text)
    if number <= 0:
        raise InputError(f"{text} must be above 0.")
    return number


def optional(convert: Callable[[Any], Any], value: Any) -> Any:  # noqa: ANN401  of any types
    """Return a converted word, or None for a missing one."""
    return None if value is None else convert(value)
