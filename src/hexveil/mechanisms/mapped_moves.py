"""Sensitivity of the numbers of one draw, by the moves of pairs wherever these are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hexveil.accounting.moves import PairMoves, StatisticMoves, beyond, losses, squares
from hexveil.base.arrays import Floats
from hexveil.mechanisms.sensitivity_report import (
    GaussianNoise,
    LaplaceNoise,
    NoiseRequest,
    is_gaussian_sound,
)


@dataclass(frozen=True, eq=False)
class MappedMoves:
    """Sensitivity of the numbers of one draw, of pairs wherever they are.

    Attributes
    ----------
    moves : PairMoves
        Statistics in the order of the entries of the request.
    before : tuple of StatisticMoves
        What an earlier stage authorised for these cells, and what it spent of that; or nothing.
    """

    moves: PairMoves
    before: tuple[StatisticMoves, ...] = ()

    def loss_lower_bound(self, request: NoiseRequest, n_users: int) -> Floats:
        """Return each user's loss beyond the authorised one, rounded down."""
        # Anything else was never booked: the meter refuses an infinite loss.
        if not isinstance(request, LaplaceNoise) or not (request.scales > 0).all():
            return np.full(n_users, np.inf)
        moves = self._at(np.atleast_2d(request.scales)[0])
        if not self.before:
            return moves.per_user(losses, up=False)
        moves = replace(moves, statistics=(*moves.statistics, *self.before))
        return moves.per_user(beyond, up=False)

    def squares_lower_bound(self, request: GaussianNoise, n_users: int) -> Floats:
        """Return each user's charge as a square of μ, rounded down."""
        if not is_gaussian_sound(request):
            return np.full(n_users, np.inf)
        return self._at(request.deviations).per_user(squares, up=False)

    def _at(self, scales: Floats) -> PairMoves:
        """Return the moves in the noise of a request."""
        sizes = [int(np.isfinite(one.scale).sum()) for one in self.moves.statistics]
        return self.moves.at(np.split(scales, np.cumsum(sizes)[:-1]))
