"""Data sets with private presence: declared facts, and pairs out of reach of public code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from hexveil.base.errors import HexveilError
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.private_pairs import PairBlocks, PrivatePairs


class ReadingCounts:
    """PRIVATE. Numbers of records by rule, for the holder's eyes alone.

    Counts show whether a reading worked, and whether somebody is in the records. They are neither
    shown by the repr nor pickled; only `lines` shows them, marked as private.
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = dict(counts)

    @classmethod
    def of(cls, counts: Mapping[str, int], pairs: PairBlocks) -> ReadingCounts:
        """Return the counts of a reading, with those on the declared grid. PRIVATE."""
        records, units = pairs.total(_on_grid).tolist()
        on_grid = {"records on the declared grid": records, "units on the declared grid": units}
        return cls({**counts, **on_grid})

    def lines(self) -> list[str]:
        """Return the counts as text, each line marked. PRIVATE."""
        width = max(map(len, self._counts), default=0)
        return [f"PRIVATE  {rule:<{width}}  {n:>14,}" for rule, n in self._counts.items()]

    def __repr__(self) -> str:
        return "ReadingCounts(private)"

    def __reduce__(self) -> NoReturn:
        raise HexveilError("private counts are not pickled.")


def _on_grid(pairs: PrivatePairs) -> NDArray[np.int64]:
    # Saturated counts: exact below a million records of a unit in a cell.
    return np.array([pairs.records.sum(), pairs.begin.size], dtype=np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class PrivateDataset:
    """Records aggregated into pairs of private presence. A plan sees `public` alone.

    Attributes
    ----------
    public : DeclaredFacts
    pairs : PairBlocks
        Private.
    counts : ReadingCounts
        Private.
    """

    public: DeclaredFacts
    pairs: PairBlocks
    counts: ReadingCounts

    def close(self) -> None:
        """Release pairs that stayed in Spark; without any, do nothing."""
        self.pairs.close()

    def __repr__(self) -> str:
        facts = self.public
        return (
            f"PrivateDataset({facts.value!r}, privacy_unit={facts.privacy_unit!r}, "
            f"n_cells={facts.grid.n_cells} declared, records private)"
        )
