"""PRIVATE. Packs in a cache folder: the sum of several entries' tables, so that each is read once.

A further day of a year would otherwise read 365 tables. Packs form a tree: eight tables become a
pack, eight packs a larger one, and larger ones a single one as soon as they hold an eighth of it:
so 365 days are a pack of 320, five of eight and five tables. Few days are then put among many,
which are in order already; a day is added up again about ten times in all. A pack
names its members by the digests of their tables, so it cannot outlive what it sums: where an entry
was made anew, its digest is another one. It is two files, a head `<key>.pack` and a table
`<token>.packed`, as an entry is, and can be deleted as freely.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from hexveil.records.sources.sealed_files import hash_terms, read_sealed, seal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

PACK, PACK_TABLE = ".pack", ".packed"
"""Endings of heads and of tables."""
FAN_OUT = 8
"""Tables that become a pack, and packs that become a larger one."""


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
    """

    query: str
    members: tuple[str, ...]
    table: str = ""
    digest: str = ""

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
        pack = MergedPack(members=members, **fields)
        # Never a path: a head must not lead out of its folder.
        is_name = bool(pack.table) and not set(pack.table) & set("/\\")
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return pack if is_name and path.name == pack.head else None


def covering(digests: Sequence[str], packs: Iterable[MergedPack]) -> list[MergedPack]:
    """Return disjoint packs of these tables alone, the largest first.

    Examples
    --------
    >>> one, two = MergedPack("", ("a", "b")), MergedPack("", ("b", "c", "d"))
    >>> [len(pack.members) for pack in covering(["a", "b", "c", "d"], [one, two])]
    [3]
    >>> covering(["a", "c"], [one, two])
    []
    """
    rest, chosen = set(digests), []
    if len(rest) < len(digests):
        return []  # two equal tables count twice, and their digests do not tell them apart
    for pack in sorted(packs, key=lambda one: (-len(one.members), one.digest)):
        if rest.issuperset(pack.members):
            chosen.append(pack)
            rest.difference_update(pack.members)
    return chosen


def next_merge(sizes: Sequence[int]) -> list[int]:
    """Return the places of tables to be added up next, of like size; empty if none.

    Parameters
    ----------
    sizes : sequence of int
        Of each table how many entries it sums, in the order of time.

    Examples
    --------
    >>> next_merge([64, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    [2, 3, 4, 5, 6, 7, 8, 9]
    >>> next_merge([640, 64, 8, 1]), next_merge([640, 64, 8, 64])
    ([], [0, 1, 3])
    >>> next_merge([64, 8, 1, 1, 1])
    []
    """
    large = [place for place, size in enumerate(sizes) if size >= FAN_OUT**2]
    largest = max(sizes, default=0)
    if len(large) > 1 and FAN_OUT * (sum(sizes[place] for place in large) - largest) >= largest:
        return large
    by_level: dict[int, list[int]] = {}
    for place, size in enumerate(sizes):
        if size >= FAN_OUT**2:
            continue
        level, reach = 0, FAN_OUT
        while size >= reach:
            level, reach = level + 1, reach * FAN_OUT
        by_level.setdefault(level, []).append(place)
    full = [level for level, places in by_level.items() if len(places) >= FAN_OUT]
    return by_level[min(full)][:FAN_OUT] if full else []
