"""Names in a line of text that stands for a request: no two lists of names make the same line.

A name that holds one of the marks of a line (or could be taken for one that stands for nothing) is
quoted as JSON quotes it; any other stays as it is, so that the line can be read.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NOT_DECLARED = "not declared"
"""What stands for a text that was not given."""
_MARKS = frozenset('",;=\\')


def spelt(name: str) -> str:
    r"""Return a name as a line of names holds it.

    Examples
    --------
    >>> spelt("vehicle id"), spelt("a, b"), spelt(""), spelt("not declared")
    ('vehicle id', '"a, b"', '""', '"not declared"')
    """
    plain = name.isprintable() and name.strip() == name and name not in ("", NOT_DECLARED)
    return name if plain and _MARKS.isdisjoint(name) else json.dumps(name)


def listed(names: Iterable[str]) -> str:
    """Return names as a line.

    Examples
    --------
    >>> listed(["bus", "a, b"])
    'bus, "a, b"'
    """
    return ", ".join(map(spelt, names))


def mapped(pairs: Mapping[str, str] | Iterable[tuple[str, str]], mark: str = ", ") -> str:
    """Return pairs of names as a line; a name "" stands for all, and is left out.

    Examples
    --------
    >>> mapped({"user": "bus", "value": "v=1"})
    'user=bus, value="v=1"'
    """
    items = pairs.items() if hasattr(pairs, "items") else pairs
    return mark.join(f"{spelt(k)}={spelt(v)}" if k else spelt(v) for k, v in items)
