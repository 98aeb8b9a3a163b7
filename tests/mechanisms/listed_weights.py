"""Weights of pairs at hand, one by one: any weights that a test needs."""

from dataclasses import dataclass

from hexveil.base.arrays import Ints
from hexveil.model.occupancy import Occupancy, PairColumn, Pairs
from hexveil.model.pair_columns import Weights


@dataclass(frozen=True, eq=False)
class ListedWeights(Weights):
    """Weights of pairs at hand.

    Attributes
    ----------
    occupancy : LocalOccupancy
    weight : ndarray of int64, shape (n_pairs,)
    """

    occupancy: Occupancy
    weight: Ints

    @property
    def column(self) -> PairColumn:
        """The weights as kernels take them: see `Weights.column`."""
        return _Listed(self.weight)

    def is_sound(self) -> bool:
        """Return whether every cell has a weight, and none is negative or too large."""
        return self._are_in_range()

    def fits(self, occupancy: Occupancy) -> bool:
        """Return whether there is a weight per pair."""
        return self.weight.size == occupancy.n_pairs


@dataclass(frozen=True, eq=False)
class _Listed:
    """Weights of pairs at hand, one by one."""

    weight: Ints

    def of(self, pairs: Pairs) -> Ints:
        """Return the weight of each pair."""
        return self.weight[pairs.rows]
