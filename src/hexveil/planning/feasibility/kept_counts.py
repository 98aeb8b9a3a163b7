"""Counts on other grids that are kept, in memory or in a temporary file."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base import scratch as scratch_folder
from hexveil.base.column_file import ColumnFile
from hexveil.model.occupancy import LocalOccupancy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.model.cells import Cells, Labels
    from hexveil.model.public_metadata import PublicMetadata, Recount, Unit

MOST_KEPT_PAIRS = 1 << 23
"""Pairs of all grids together that are kept in memory: 200 MB."""
_BLOCK = 1 << 20
"""Pairs that are written at once."""
_NOTHING = LocalOccupancy.from_coo([], [], [])


@dataclass(frozen=True, eq=False)
class KeptCounts:
    """Counts on other grids that are kept: the records are read once for each grid.

    Attributes
    ----------
    recount : Recount
        Counts the records.
    scratch : str or None
        Where pairs go that are too many for memory: see `hexveil.base.scratch`.
    """

    recount: Recount
    scratch: str | None = None
    _counted: dict[tuple[Cells | Labels, Unit], PublicMetadata | _FiledFacts | None] = field(
        default_factory=dict, repr=False
    )

    def __call__(
        self, grids: tuple[Cells | Labels, ...], privacy_unit: Unit
    ) -> Iterator[PublicMetadata | None]:
        """Yield the public facts on each grid: see `Recount`."""
        missing = tuple(
            grid for grid in dict.fromkeys(grids) if (grid, privacy_unit) not in self._counted
        )
        counted = iter(self.recount(missing, privacy_unit) if missing else ())
        for grid in grids:
            key = grid, privacy_unit
            if key not in self._counted:
                self._keep(key, next(counted))
            kept = self._counted[key]
            yield kept.load() if isinstance(kept, _FiledFacts) else kept

    def _keep(self, key: tuple[Cells | Labels, Unit], facts: PublicMetadata | None) -> None:
        """Keep the facts on a grid; in a file where memory has no room."""
        held = sum(
            one.occupancy.n_pairs
            for one in self._counted.values()
            # Pairs that stay elsewhere take no memory here.
            if one is not None and not isinstance(one, _FiledFacts) and one.occupancy.is_local
        )
        if (
            facts is None
            or not facts.occupancy.is_local
            or held + facts.occupancy.n_pairs <= MOST_KEPT_PAIRS
        ):
            self._counted[key] = facts
        else:
            self._counted[key] = _FiledFacts.of(facts, self.scratch)


@dataclass(frozen=True, eq=False, repr=False)
class _FiledFacts:
    """Public facts with their pairs in a temporary file."""

    facts: PublicMetadata
    file: ColumnFile
    sizes: tuple[int, int]
    n_blocks: int

    @classmethod
    def of(cls, facts: PublicMetadata, scratch: str | None) -> _FiledFacts:
        """Write the pairs to a file."""
        occupancy = facts.occupancy.local()
        with ExitStack() as opened:
            # Made private, and checked to be so, as for records; a file without a name outlives it.
            file = ColumnFile(opened.enter_context(scratch_folder.folder(scratch)))
        starts = range(0, occupancy.n_pairs, _BLOCK)
        for start in starts:
            rows = slice(start, start + _BLOCK)
            file.append((occupancy.cell[rows], occupancy.user[rows], occupancy.n[rows]))
        sizes = occupancy.n_cells, occupancy.n_users
        return cls(replace(facts, occupancy=_NOTHING), file, sizes, len(starts))

    def load(self) -> PublicMetadata:
        """Return the facts with their pairs."""
        blocks = [self.file.read(number) for number in range(self.n_blocks)]
        columns = [np.concatenate(column) for column in zip(*blocks, strict=True)]
        occupancy = LocalOccupancy(columns[0], columns[1], columns[2], *self.sizes)
        return replace(self.facts, occupancy=occupancy)
