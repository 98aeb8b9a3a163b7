"""PRIVATE. The tables that sum all entries of a cached reading: packs where there are any.

Packs are made as entries come (`hexveil.records.sources.merged_packs`); a folder that cannot take
one, or pairs that do not fit into memory, cost time and change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from hexveil.base.errors import StorageError
from hexveil.records.duckdb.packing.merged_entries import merge_entries
from hexveil.records.sources.merged_packs import MergedPack, covering, next_merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.records.duckdb.aggregation import GroupKeys
    from hexveil.records.duckdb.packing.unpacking import PackedPairs
    from hexveil.records.duckdb.session import Session
    from hexveil.records.sources.cache import CacheEntry, CacheFolder

_ROW_GROUP = 1 << 25
"""Rows that are read as one piece, which need not be joined with others."""


@dataclass(frozen=True)
class SummedTable:
    """A table of pairs, and the digests of the entries' tables that it sums."""

    members: tuple[str, ...]
    path: str


class PackTree:
    """PRIVATE. Packs of one query in a cache folder.

    Parameters
    ----------
    session : Session
    store : CacheFolder
    query : str
        Hash of all that shapes the tables.
    keys : GroupKeys
    n_bins : int
        Fine bins of the tables; 0 without.
    """

    def __init__(
        self,
        session: Session,
        store: CacheFolder,
        query: str,
        keys: GroupKeys,
        n_bins: int = 0,
    ) -> None:
        self._session, self._store, self._query = session, store, query
        self._keys, self._n_bins = keys, n_bins
        self._packs: list[MergedPack] = []

    def __repr__(self) -> str:
        return "PackTree(private)"

    def choose(self, entries: Sequence[CacheEntry]) -> set[str]:
        """Choose whole packs of these entries; return the digests of the tables that they sum.

        These tables need not be read, nor checked.
        """
        digests = [entry.digest for entry in entries if entry.table]
        found = covering(digests, self._store.packs(self._query))
        self._packs = [pack for pack in found if self._store.is_intact(pack)]
        return {digest for pack in self._packs for digest in pack.members}

    def tables(self, entries: Sequence[CacheEntry]) -> list[str]:
        """Return the tables that sum these entries, once packs are made that are due."""
        place = {entry.digest: number for number, entry in enumerate(entries)}
        if len(place) < len(entries):
            return [self._store.table(entry) for entry in entries]
        packed = {digest for pack in self._packs for digest in pack.members}
        summed = [SummedTable(pack.members, self._store.table(pack)) for pack in self._packs]
        summed += [
            SummedTable((entry.digest,), self._store.table(entry))
            for entry in entries
            if entry.digest not in packed
        ]
        # In the order of time: what came together stays together, also where old days are left out.
        summed.sort(key=lambda one: place[one.members[0]])
        # What lies across an end of dates is of use for these dates alone.
        windowed = {entry.digest for entry in entries if entry.window}
        rest = [one for one in summed if windowed.issuperset(one.members)]
        summed = [one for one in summed if not windowed.issuperset(one.members)]
        while places := next_merge([len(one.members) for one in summed]):
            larger = self._packed([summed[place] for place in places])
            if larger is None:
                break
            kept = [one for place, one in enumerate(summed) if place not in places]
            summed = [*kept[: places[0]], larger, *kept[places[0] :]]
        return [one.path for one in (*summed, *rest)]

    def _packed(self, tables: Sequence[SummedTable]) -> SummedTable | None:
        """Return the pack of some tables; None if it cannot be made."""
        paths = [one.path for one in tables]
        pairs = merge_entries(paths, self._keys, {}, self._session.memory, self._n_bins)
        if pairs is None:
            return None
        members = tuple(digest for one in tables for digest in one.members)
        try:
            pack = self._store.put_pack(MergedPack(self._query, members), partial(_write, pairs))
        except StorageError:
            return None  # a full disk: everything is there without it
        return SummedTable(members, self._store.table(pack))


def _write(pairs: PackedPairs, path: str) -> None:
    """Write pairs to a path, in their order: rows in order need not be sorted when they are read.

    Sums have 64 bits, as where they are added up: those that these may not hold are never used.
    """
    names = pc.dictionary_encode(pairs.units["user_id"])
    units = pairs.units.set_column(pairs.units.schema.get_field_index("user_id"), "user_id", names)
    named = replace(pairs, units=units)
    rows = named.keyed() if pairs.bins is None else named.keyed_bins()
    pq.write_table(rows, path, compression="zstd", row_group_size=_ROW_GROUP)
