"""PRIVATE. Packs in a cache folder: the sum of several entries' tables, so that it is read at once.

A further day of a year would otherwise read 365 tables. As soon as eight tables are beside a pack,
all of them become the next one: a day is then added up with one pack and at most eight tables. A
day that is no longer asked for, as in a window of the last 30 days, is taken away from the pack.
A pack names its members by the digests of their tables, so it cannot outlive what it sums: where an
entry was made anew, its digest is another one. It is two files, a head `<key>.pack` and a table
`<token>.packed`, as an entry is, and can be deleted as freely. The two packs of a query that were
made last are kept, since two windows may be asked for in turn.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from hexveil.records.sources.sealed_files import hash_terms, read_sealed, seal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

PACK, PACK_TABLE = ".pack", ".packed"
"""Endings of heads and of tables."""
FAN_OUT = 8
"""Tables beside a pack that become part of the next one."""
KEPT = 2
"""Packs of one query that are kept."""
_LAYOUT = 2
"""To be raised whenever a pack's table is written in another way."""


@dataclass(frozen=True)
class MergedPack:
    """Head of a pack.

    Attributes
    ----------
    query : str
        Hash of all that shapes its table and those of its members.
    members : tuple of str
        Digests of the tables of entries that it sums, each once.
    table, digest : str
        Name and SHA-256 of its own table.
    layout : int
        How the table is written.
    """

    query: str
    members: tuple[str, ...]
    table: str = ""
    digest: str = ""
    layout: int = _LAYOUT

    @property
    def head(self) -> str:
        """Name of the head's file."""
        return hash_terms([self.query, sorted(self.members)])[:32] + PACK

    def sealed(self) -> bytes:
        """Return the head as it is written."""
        return seal(asdict(self))


def read_pack(path: Path) -> MergedPack | None:
    """Return the pack of a head's file; None if it cannot be read as one, for whatever reason."""
    try:
        fields = read_sealed(path)
        members = tuple(str(digest) for digest in fields.pop("members"))
        # Named: heads of an earlier layout lack it, and their packs count as not there.
        pack = MergedPack(members=members, layout=fields.pop("layout"), **fields)
        # Never a path: a head must not lead out of its folder.
        is_name = bool(pack.table) and not set(pack.table) & set("/\\")
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return pack if is_name and path.name == pack.head and pack.layout == _LAYOUT else None


def closest_packs(
    digests: Sequence[str], packs: Iterable[MergedPack], known: Collection[str]
) -> list[MergedPack]:
    """Return the packs that save most tables when these are added up, the best first.

    Parameters
    ----------
    digests : sequence of str
        Of the tables to be added up.
    packs : iterable of MergedPack
    known : collection of str
        Digests of all tables there are: what a pack sums beyond must be taken away again.

    Examples
    --------
    >>> one, two = MergedPack("", ("a", "b")), MergedPack("", ("b", "c", "d"))
    >>> found = closest_packs(["a", "b", "c", "d"], [one, two], set("abcd"))
    >>> [len(pack.members) for pack in found]
    [3, 2]
    >>> closest_packs(["a", "c", "d"], [one], set("acd"))
    []
    >>> closest_packs(["a", "a"], [one], set("ab"))
    []
    """
    asked = set(digests)
    if len(asked) < len(digests):
        return []  # two equal tables count twice, and their digests do not tell them apart
    saved = []
    for pack in packs:
        common = len(asked.intersection(pack.members))
        beyond = set(pack.members).difference(asked)
        # What is taken away is read, too, and so are its rows in the pack.
        if common > 2 * len(beyond) and beyond.issubset(known):
            saved.append((len(beyond) - common, pack.digest, pack))
    return [pack for *_, pack in sorted(saved, key=lambda one: one[:2])]


def is_due(n_tables: int) -> bool:
    """Return whether so many tables beside a pack are to become part of the next one."""
    return n_tables >= FAN_OUT
