"""Frozen data classes with read-only arrays, also after `replace`, copying and pickling.

A privacy loss is computed once from such an object and booked, so nothing that it depends on may
change later.
"""

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np


class ReadOnlyArrays:
    """Base of frozen data classes: array fields become read-only copies when an object is made.

    Mappings become read-only too. A copy or a pickle contains only the fields and is rebuilt from
    them, so that cached properties are never carried over.
    """

    def __post_init__(self) -> None:
        """Replace array fields by read-only copies."""
        for name, value in _initial(self).items():
            object.__setattr__(self, name, read_only(value))

    def __reduce__(self) -> tuple[object, ...]:
        values = {
            name: dict(value) if isinstance(value, MappingProxyType) else value
            for name, value in _initial(self).items()
        }
        return partial(type(self), **values), ()


def read_only(value: Any) -> Any:  # noqa: ANN401  any field of a data class
    """Return a read-only copy of an array or of a mapping of arrays; other values unchanged.

    Examples
    --------
    >>> read_only(np.zeros(2)).flags.writeable
    False
    """
    if isinstance(value, np.ndarray):
        # A read-only view does not suffice: the array that owns its memory may still be written to.
        if value.flags.owndata and not value.flags.writeable:
            return value
        copied = np.array(value)  # the caller may still write to the original
        copied.setflags(write=False)
        return copied
    if isinstance(value, Mapping):
        return MappingProxyType({name: read_only(item) for name, item in value.items()})
    return value


def _initial(instance: Any) -> dict[str, Any]:  # noqa: ANN401  a data class
    return {field.name: getattr(instance, field.name) for field in fields(instance) if field.init}
