"""Noisy numbers of cells, and the public facts that their likelihood needs."""

from dataclasses import dataclass

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.model.occupancy import Pairs
from hexveil.model.pair_columns import Weights


@dataclass(frozen=True, eq=False)
class ClippedLook(ReadOnlyArrays):
    """A noisy weighted average of user means per cell, clipped to a range per cell.

    Attributes
    ----------
    noisy : ndarray of float, shape (n_cells,)
        Value units; not read where the scale is infinite.
    lower, upper : ndarray of float, shape (n_cells,)
        Ends of each cell's range, value units.
    scale : ndarray of float, shape (n_cells,)
        Scale of the Laplace noise, value units; infinite where the cell was not looked at.
    is_gaussian : bool
        Whether the noise is Gaussian, and `scale` its standard deviation.
    """

    noisy: Floats
    lower: Floats
    upper: Floats
    scale: Floats
    is_gaussian: bool = False


@dataclass(frozen=True, eq=False)
class CellDesign(ReadOnlyArrays):
    """Public facts of each cell: its users, and how far weights are from shares of records.

    Attributes
    ----------
    users : ndarray of int64, shape (n_cells,)
    weight_squares, share_squares : ndarray of float, shape (n_cells,)
        Σw² and Σp², both w and p adding up to one.
    difference_squares, difference : ndarray of float, shape (n_cells,)
        Σ(w - p)² and Σ|w - p|.
    """

    users: Ints
    weight_squares: Floats
    share_squares: Floats
    difference_squares: Floats
    difference: Floats

    @classmethod
    def of(cls, weight: Weights) -> "CellDesign":
        """Return the facts of cells in which pairs have whole weights.

        Parameters
        ----------
        weight : Weights
            At least one of each cell above 0.

        Examples
        --------
        >>> from hexveil.model.pair_columns import ListedWeights
        >>> from hexveil.model.occupancy import LocalOccupancy
        >>> crowd = LocalOccupancy.from_dense([[3], [1]])
        >>> CellDesign.of(ListedWeights(crowd, np.array([1, 1]))).difference
        array([0.5])
        """
        cells = (weight.occupancy.records_per_cell,)
        sums = weight.once("design", lambda: weight.map_cells(_design_sums, cells))
        return cls(weight.occupancy.users_per_cell, *sums)

    def rows(self, rows: slice) -> "CellDesign":
        """Return the facts of some of the cells."""
        return CellDesign(
            self.users[rows],
            self.weight_squares[rows],
            self.share_squares[rows],
            self.difference_squares[rows],
            self.difference[rows],
        )


def _design_sums(pairs: Pairs, weight: Ints, records: Ints) -> tuple[Floats, ...]:
    begin, cell = pairs.start[:-1], pairs.cell
    w, p = weight / np.add.reduceat(weight, begin)[cell], pairs.n / records[cell]
    return (
        np.add.reduceat(w * w, begin),
        np.add.reduceat(p * p, begin),
        np.add.reduceat((w - p) ** 2, begin),
        np.add.reduceat(np.abs(w - p), begin),
    )
