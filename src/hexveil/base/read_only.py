"""Frozen data classes whose arrays stay read-only, through `replace`, copies and pickles too.

A loss is computed once from such an object and booked, so nothing it depends on may change later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

import numpy as np


class ReadOnlyArrays:
    """Base of frozen data classes: array fields become read-only copies when an object is made.

    Mappings become read-only too. A copy or a pickle holds the fields alone and is built anew, so
    that cached properties never travel with it.
    """

    def __post_init__(self) -> None:
        """Replace array fields by read-only ones."""
        for name, value in _initial(self).items():
            object.__setattr__(self, name, read_only(value))

    def __reduce__(self) -> tuple[object, ...]:
        plain = {name: _picklable(value) for name, value in _initial(self).items()}
        return _rebuilt, (type(self), plain)


def read_only(value: Any) -> Any:  # noqa: ANN401  any field of a data class
    """Return an array or a mapping of arrays that cannot be written; others as they are.

    Examples
    --------
    >>> read_only(np.zeros(2)).flags.writeable
    False
    """
    if isinstance(value, np.ndarray):
        if value.flags.owndata and not value.flags.writeable:
            return value
        copied = np.array(value)
        copied.setflags(write=False)
        return copied
    if isinstance(value, Mapping):
        return MappingProxyType({name: read_only(one) for name, one in value.items()})
    return value


def _initial(one: Any) -> dict[str, Any]:  # noqa: ANN401  a data class
    return {field.name: getattr(one, field.name) for field in fields(one) if field.init}


def _picklable(value: Any) -> Any:  # noqa: ANN401
    return dict(value) if isinstance(value, MappingProxyType) else value


def _rebuilt(kind: type, values: dict[str, Any]) -> Any:  # noqa: ANN401
    return kind(**values)
