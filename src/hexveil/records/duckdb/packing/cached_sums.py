"""PRIVATE. The sum of all entries of a cached reading, from a pack where there is one.

A pack is made as soon as enough entries are beside the last one
(`hexveil.records.sources.merged_packs`), and written from the sum that was asked for. A folder that
cannot take one, or pairs that do not fit into memory, cost time and change nothing.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from hexveil.base.errors import StorageError
from hexveil.records.duckdb.packing.merged_entries import merge_entries
from hexveil.records.duckdb.packing.pack_table import write_rows
from hexveil.records.sources.merged_packs import MergedPack, closest_packs, is_due

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexveil.records.duckdb.aggregation import GroupKeys
    from hexveil.records.duckdb.packing.unpacking import PackedPairs
    from hexveil.records.duckdb.session import Session
    from hexveil.records.sources.cache import CacheEntry, CacheFolder


class CachedSums:
    """PRIVATE. Sums of the entries of one query in a cache folder.

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
        self._pack: MergedPack | None = None
        self._subtracted: list[CacheEntry] = []

    def __repr__(self) -> str:
        return "CachedSums(private)"

    def choose(self, entries: Sequence[CacheEntry], others: Sequence[CacheEntry]) -> set[str]:
        """Choose a whole pack; return the digests of the tables of entries that it sums.

        These tables need not be read, nor checked.

        Parameters
        ----------
        entries : sequence of CacheEntry
            To be added up.
        others : sequence of CacheEntry
            All of the folder: those that the pack sums beyond are taken away.
        """
        asked = [entry.digest for entry in entries if entry.table]
        by_digest = {entry.digest: entry for entry in others if entry.table}
        for pack in closest_packs(asked, self._store.packs(self._query), set(by_digest)):
            subtracted = [by_digest[one] for one in sorted(set(pack.members).difference(asked))]
            if self._store.is_intact(pack) and all(map(self._store.is_intact, subtracted)):
                self._pack, self._subtracted = pack, subtracted
                return set(pack.members).intersection(asked)
        return set()

    def forget_pack(self) -> None:
        """Read every entry's own table from now on."""
        self._pack, self._subtracted = None, []

    def added_up(
        self, entries: Sequence[CacheEntry], left_out: Mapping[int, int]
    ) -> PackedPairs | None:
        """Return the sum of these entries, and make a pack if it is due; None if it does not fit.

        Raises
        ------
        OSError, pyarrow.ArrowException
            If a table is gone or damaged.
        """
        loose = self._beside_pack(entries)
        # What lies across an end of dates is of use for these dates alone.
        lasting = [entry for entry in loose if not entry.window]
        digests = [entry.digest for entry in entries if not entry.window]
        # Two equal tables count twice, and their digests do not tell them apart.
        is_distinct = len(set(digests)) == len(digests)
        if not is_due(len(lasting) + len(self._subtracted)) or not is_distinct:
            return self._merged(loose, left_out)
        pairs = self._merged(lasting, left_out)
        if pairs is None:
            return None
        # A full disk: everything is there without the pack.
        with contextlib.suppress(StorageError):
            pack = MergedPack(self._query, tuple(digests))
            self._pack = self._store.put_pack(pack, partial(write_rows, pairs))
            self._subtracted, loose = [], [entry for entry in loose if entry.window]
        if len(loose) == len(lasting) or not loose:
            return pairs
        return self._merged(loose, left_out)

    def _beside_pack(self, entries: Sequence[CacheEntry]) -> list[CacheEntry]:
        """Return the entries that are not in what the pack sums once days are taken away."""
        members = () if self._pack is None else self._pack.members
        summed = set(members).difference(entry.digest for entry in self._subtracted)
        loose = []
        for entry in entries:
            # Once: a day that came may have a table equal to that of a day in the pack.
            if entry.digest in summed:
                summed.remove(entry.digest)
            else:
                loose.append(entry)
        return loose

    def _merged(
        self, entries: Sequence[CacheEntry], left_out: Mapping[int, int]
    ) -> PackedPairs | None:
        """Return the sum of the chosen pack and of some entries beside it."""
        return merge_entries(
            [self._store.table(entry) for entry in entries],
            self._keys,
            left_out,
            self._session.memory,
            self._n_bins,
            pack=None if self._pack is None else self._store.table(self._pack),
            subtracted=[self._store.table(entry) for entry in self._subtracted],
        )
