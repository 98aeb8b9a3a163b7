"""Declared versions of records: one for all files, or one per file.

What is cached is trusted as long as this declaration says that a file is the same; so it is part
of what is published (`data.version` of a manifest).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from hexveil.base.errors import InputError
from hexveil.records.unambiguous_names import join_pairs

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
