"""PRIVATE. Sums of a data set, placed on a declared grid: the way into private presence.

Records outside the grid are dropped without a word: how many they were is private.

The data set itself was read with public occupancy, so its own counts and messages are for the
holder's eyes alone. Nothing of it reaches a map but through `PrivatePairs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.model.private_pairs import PrivatePairs

if TYPE_CHECKING:
    from hexveil.model.declared_grid import DeclaredGrid
    from hexveil.records.dataset import Dataset


def place_on_grid(dataset: Dataset, grid: DeclaredGrid) -> PrivatePairs:
    """Return the sums of each (cell, unit) pair on a declared grid. PRIVATE.

    Parameters
    ----------
    dataset : Dataset
        Read on cells of the same kind, without a choice of cells by their users or records.
    grid : DeclaredGrid

    Raises
    ------
    InputError
        If the records were read on another kind of cells.
    """
    if dataset.public.cells.grid != grid.table.grid:
        raise InputError(
            f"the records were read on {dataset.public.cells.grid}, the declared grid has "
            f"{grid.table.grid}; read them on the cells of the grid."
        )
    number = {name: cell for cell, name in enumerate(grid.table.names())}
    cells = np.array(
        [number.get(name, -1) for name in dataset.public.cells.names()], dtype=np.int64
    )
    occupancy = dataset.occupancy.local()
    return PrivatePairs(
        np.append(cells, -1)[occupancy.cell], occupancy.user, occupancy.n, dataset.sums.total
    )
