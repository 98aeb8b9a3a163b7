"""Unambiguous lines of names, for texts that identify a request.

Different lists of names give different lines. A name that contains a separator of the line, a
quote or an unprintable character is quoted as JSON; other names stay as they are, so the line
remains readable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

NOT_DECLARED = "not declared"
"""Placeholder for a text that was not given."""
_MARKS = frozenset('",;=\\')


def quoted(name: str) -> str:
    r"""Return a name as it stands in a line: unchanged, or quoted as JSON.

    Examples
    --------
    >>> quoted("vehicle id"), quoted("a, b"), quoted(""), quoted("not declared")
    ('vehicle id', '"a, b"', '""', '"not declared"')
    """
    # Blanks at the ends would vanish where a line is split at its separators.
    is_plain = name.isprintable() and name.strip() == name and name not in ("", NOT_DECLARED)
    return name if is_plain and _MARKS.isdisjoint(name) else json.dumps(name)


def join_names(names: Iterable[str]) -> str:
    """Join names into a line.

    Examples
    --------
    >>> join_names(["bus", "a, b"])
    'bus, "a, b"'
    """
    return ", ".join(map(quoted, names))


def join_pairs(pairs: Mapping[str, str] | Iterable[tuple[str, str]], mark: str = ", ") -> str:
    """Join pairs into a line of key=value; a value with an empty key stands alone.

    Examples
    --------
    >>> join_pairs({"user": "bus", "value": "v=1"})
    'user=bus, value="v=1"'
    """
    items = pairs.items() if hasattr(pairs, "items") else pairs
    return mark.join(f"{quoted(k)}={quoted(v)}" if k else quoted(v) for k, v in items)
