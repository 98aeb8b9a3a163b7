"""What is kept of the records: public facts, and private sums that never show themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.errors import HexveilError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.facts import PublicFacts
    from hexveil.occupancy import Occupancy


@dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """PRIVATE. Sum of each (cell, user) pair's values, in quanta above the lower bound.

    Attributes
    ----------
    total : ndarray of int64, shape (n_pairs,)
        From 0 to n * steps, in the order of the occupancy.
    total_sq : ndarray of int64, shape (n_pairs,), or None
        Sum of squares in the same lattice, where it was asked for or given.
    """

    total: NDArray[np.int64]
    total_sq: NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        squares = "" if self.total_sq is None else ", with squares"
        return f"Sums(n_pairs={self.total.size}{squares}, private)"

    def __reduce__(self) -> tuple[object, ...]:
        raise HexveilError("private sums are not pickled; read the records where they are used.")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Records read once, into sums. `public` is all that a plan may see.

    Attributes
    ----------
    public : PublicFacts
    sums : Sums
        Private.
    """

    public: PublicFacts
    sums: Sums

    def __post_init__(self) -> None:
        n, steps = self.public.occupancy.n, self.public.scale.steps
        total = self.sums.total
        if total.shape != n.shape or total.dtype != np.int64:
            raise HexveilError("sums and occupancy do not belong together.")
        if ((total < 0) | (total > n * steps)).any():
            raise HexveilError("sums are outside the bounds of their counts.")

    @property
    def occupancy(self) -> Occupancy:
        """Who reported how often where. Public."""
        return self.public.occupancy

    def __repr__(self) -> str:
        facts = self.public
        return (
            f"Dataset({facts.value!r}, unit={facts.unit!r}, n_cells={facts.occupancy.n_cells}, "
            f"n_users={facts.occupancy.n_users}, n_pairs={facts.occupancy.n_pairs})"
        )
