"""Items of an argument, whatever holds them: requests must not depend on a container or its order.

The items of a set come in an order of their own, which hash seeds do not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from hexveil.base.errors import InputError

_NUMBER = re.compile(r"-?[0-9]{1,30}([.][0-9]{1,30})?")


def items_of(value: object) -> list[Any]:
    """Return the items of a list, tuple, set, array or column; another value alone.

    Examples
    --------
    >>> import numpy as np
    >>> items_of({"b", "a", "10", "9"}), items_of(np.array([2, 1])), items_of("mean")
    (['9', '10', 'a', 'b'], [2, 1], ['mean'])
    """
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=natural_order)
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return [value]
    # Of arrays and columns these give numbers of Python, whose text is theirs.
    for method in ("tolist", "to_list", "to_pylist"):
        if hasattr(value, method):
            items = getattr(value, method)()
            return list(items) if isinstance(items, list) else [items]
    return list(value)


def in_order(value: object, name: str) -> list[Any]:
    """Return the items of an ordered container; refuse a set, which has no order.

    Raises
    ------
    InputError
        If it is a set.
    """
    if isinstance(value, (set, frozenset)):
        raise InputError(f"{name} is a set, whose items have no order; write a list.")
    return items_of(value)


def natural_order(item: object) -> tuple[bool, Fraction, str]:
    """Return the sort key of items: numbers by their size, then texts by their letters."""
    text = str(item)
    is_number = _NUMBER.fullmatch(text) is not None
    return not is_number, Fraction(text) if is_number else Fraction(0), text
