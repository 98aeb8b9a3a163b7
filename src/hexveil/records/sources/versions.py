"""Declared versions of records: one for all files, or one per file.

What is cached is trusted as long as this declaration says that a file is the same; so it is part
of what is published (`data.version` of a manifest).

Unambiguous lines of names, for texts that identify a request.

Different lists of names give different lines. A name that contains a separator of the line, a
quote or an unprintable character is quoted as JSON; other names stay as they are, so the line
remains readable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from hexveil.base.errors import InputError

Version = str | Mapping[str, str]
"""One version for all files, or versions by the names or patterns of files."""


@dataclass(frozen=True)
class Versions:
    """Versions by patterns of file names; the first that fits counts.

    Attributes
    ----------
    declared : tuple of (str, str)
        Pattern and version; a pattern "" is for all files.

    Examples
    --------
    >>> days = Versions.parse({"2026-11-03.parquet": "2", "*.parquet": "1"})
    >>> days.number("/data/2026-11-03.parquet"), days.number("/data/2026-11-04.parquet")
    (0, 1)
    >>> days.describe([1])
    '*.parquet=1'
    """

    declared: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, version: object) -> Versions:
        """Return the versions that a caller declared."""
        pairs = list(version.items()) if isinstance(version, Mapping) else [("", version)]
        if not pairs or not all(_is_text(text) for _, text in pairs):
            raise InputError(
                'version must be text, like "2026-11", or texts by the names of files, like '
                '{"2026-11-*.parquet": "1"}.'
            )
        if isinstance(version, Mapping) and not all(_is_text(name) for name, _ in pairs):
            raise InputError("version by files needs the name or pattern of a file for each.")
        return cls(tuple((str(name), str(text)) for name, text in pairs))

    def number(self, path: str) -> int:
        """Return which of the declarations is that of a file."""
        for number, (pattern, _) in enumerate(self.declared):
            # match compares from the right, so that a pattern need not know where the folder lies.
            if not pattern or PurePath(path).match(pattern):
                return number
        raise InputError(
            f"version: none is declared for the file {PurePath(path).name!r}; name it, or a "
            "pattern that it fits."
        )

    def describe(self, used: Iterable[int]) -> str:
        """Return the declared versions of the used files as a line."""
        return join_pairs((self.declared[number] for number in sorted(set(used))), "; ")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


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
