"""Statistics of distributions over fine bins: means, quantiles, shares and histograms.

All are functions of one distribution, so they agree: quantiles rise with their level, shares lie
from 0 to 1 and fall with their threshold, a histogram adds up to 1. Post-processing, public.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms.distribution.tilted_shapes import quantiles
from hexveil.model.statistic_terms import Histogram, Quantile, Share, column_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.mechanisms.contract import Floats
    from hexveil.model.fine_bins import FineBins
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.model.statistic_terms import Term

MEAN = "mean"


@dataclass(frozen=True, eq=False)
class ShapeStatistics:
    """Statistics that are measured of each distribution.

    Attributes
    ----------
    bins : FineBins
    lattice : ValueLattice
    terms : tuple of Term
    has_mean : bool
        Whether means are measured too, as the first column.
    """

    bins: FineBins
    lattice: ValueLattice
    terms: tuple[Term, ...]
    has_mean: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order; a histogram has one for each bin, from the lowest."""
        names = [name for term in self.terms for name in column_names(term)]
        return (MEAN, *names) if self.has_mean else tuple(names)

    @property
    def is_share(self) -> NDArray[np.bool_]:
        """Which columns are shares of records, not values; shape (n_columns,)."""
        shares = [not isinstance(term, Quantile) for term in self.terms for _ in column_names(term)]
        return np.array([False, *shares] if self.has_mean else shares)

    @property
    def limits(self) -> Floats:
        """Least and largest value of each column, shape (n_columns, 2)."""
        bounds = (float(self.lattice.lower), float(self.lattice.upper))
        return np.where(self.is_share[:, None], (0.0, 1.0), bounds)

    def of(self, shares: Floats) -> Floats:
        """Return the statistics of distributions, shape (..., n_columns).

        Parameters
        ----------
        shares : ndarray of float, shape (..., n_fine_bins)
        """
        lower, quantum = float(self.lattice.lower), float(self.lattice.quantum)
        starts, ends = self.bins.starts, self.bins.ends
        columns: list[Floats] = []
        if self.has_mean:
            columns.append(lower + quantum * (shares @ ((starts + ends) / 2.0)))
        for term in self.terms:
            match term:
                case Quantile(level):
                    columns.append(lower + quantum * quantiles(shares, float(level), starts, ends))
                case Share():
                    above = shares[..., self.bins.above(term.edge(self.lattice))].sum(axis=-1)
                    columns.append(above if term.is_above else 1.0 - above)
                case Histogram():
                    place = np.searchsorted(term.edges(self.lattice), self.bins.edges)
                    gather = np.zeros((self.bins.n_bins, term.n_bins))
                    gather[np.arange(self.bins.n_bins), place] = 1.0
                    columns += list(np.moveaxis(shares @ gather, -1, 0))
        return np.stack(columns, axis=-1)
