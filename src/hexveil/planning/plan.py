"""A plan is data, made in public: a row per cell, a row per user, before any value is read.

For the mean, a cell's row says how many samples are kept of a user (t), the bounds and the noise.
The sensitivity of a (cell, user) pair is then a formula of its count m: U min(m, t) / N, and its
loss is min(m, t) / r, where r is the noise scale counted in records (scale = U r / N).

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Loss of a user: the sum over its cells of min(m, t) / r (ERRATA 3; proof in theory/loss.py).
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil import theory
from hexveil.exact import decimal_text, sums_up
from hexveil.planning.support import Support, assess

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from hexveil.facts import PublicFacts
    from hexveil.occupancy import Occupancy

LN20 = math.log(20.0)


@dataclass(frozen=True, eq=False)
class Plan:
    """How each cell's mean will be made and noised, and what that costs each user.

    Every array is public; value units unless said otherwise.

    Attributes
    ----------
    occupancy : Occupancy
    lower, upper : ndarray of float, shape (n_cells,)
        Bounds of each cell; a float means its shortest decimal text.
    kept : ndarray of int, shape (n_cells,)
        t: samples kept of a user; 0 publishes the middle of the bounds without reading a value.
    noise_records : ndarray of float, shape (n_cells,)
        r: Laplace scale of the sum, in records times span; 0 where nothing is kept.
    method, mechanism : str
    asked : Fraction
        The loss that the plan was asked to stay within.
    cell_epsilon : Fraction
        The loss of one cell planned alone.
    prior_miss : float
        What one constant for all cells is assumed to miss on average (public, from outside).
    facts : PublicFacts or None
        None for a bare occupancy, which can be planned but not released.
    statistics : tuple of str
    """

    occupancy: Occupancy
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    kept: NDArray[np.int64]
    noise_records: NDArray[np.float64]
    method: str
    mechanism: str
    asked: Fraction
    cell_epsilon: Fraction
    prior_miss: float
    facts: PublicFacts | None = None
    statistics: tuple[str, ...] = ("mean",)

    def __repr__(self) -> str:
        return (
            f"Plan(method={self.method!r}, mechanism={self.mechanism!r}, "
            f"n_cells={self.occupancy.n_cells}, n_users={self.occupancy.n_users}, "
            f"epsilon={float(self.epsilon):.6g}, mean_error={self.mean_error:.4g})"
        )

    @property
    def span(self) -> NDArray[np.float64]:
        """Width of each cell's bounds."""
        return self.upper - self.lower

    @cached_property
    def scale(self) -> NDArray[np.float64]:
        """Laplace scale of each cell's mean, which is also the expected |noise|; 0: a constant."""
        return self.span * self.noise_records / self.occupancy.records_per_cell

    @cached_property
    def bias(self) -> NDArray[np.float64]:
        """Worst-case bias of each cell: U Σ max(m - t, 0) / (2 N) (ERRATA 14)."""
        occupancy = self.occupancy
        cut = np.maximum(occupancy.n - self.kept[occupancy.cell], 0)
        total = np.bincount(occupancy.cell, weights=cut, minlength=occupancy.n_cells)
        return np.asarray(self.span * total / (2.0 * occupancy.records_per_cell))

    @property
    def error(self) -> NDArray[np.float64]:
        """Planning error of each cell: worst-case bias plus expected |noise|."""
        return self.bias + self.scale

    @property
    def bound95(self) -> NDArray[np.float64]:
        """Error of each cell not exceeded with probability 95 percent, whatever the values."""
        return self.bias + self.scale * LN20

    def losses(self) -> NDArray[np.float64]:
        """Loss of each user over all cells, in epsilon, rounded up; shape (n_users,)."""
        return self._losses.copy()

    @cached_property
    def _losses(self) -> NDArray[np.float64]:
        occupancy = self.occupancy
        kept = np.minimum(occupancy.n, self.kept[occupancy.cell]).astype(np.float64)
        noise = self.noise_records[occupancy.cell]
        terms = np.divide(kept, noise, out=np.zeros_like(noise), where=kept > 0)
        return sums_up(occupancy.user, terms, occupancy.n_users)

    @cached_property
    def epsilon(self) -> Fraction:
        """Loss of the most exposed user, rounded up: what the release costs."""
        return Fraction(float(self._losses.max(initial=0.0)))

    @cached_property
    def composed_epsilon(self) -> Fraction:
        """What counting cells would claim: the cell loss times the most cells of a user."""
        live = self.kept[self.occupancy.cell] > 0
        cells = np.bincount(self.occupancy.user[live], minlength=1)
        return self.cell_epsilon * int(cells.max(initial=0))

    @property
    def max_error(self) -> float:
        """Largest planning error of a cell."""
        return float(self.error.max(initial=0.0))

    @property
    def mean_error(self) -> float:
        """Average planning error over cells."""
        return float(self.error.mean()) if self.error.size else 0.0

    @cached_property
    def support(self) -> Support:
        """Whether the map would say more than one constant, by the public prior."""
        return assess(self)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One readable name per cell."""
        if self.facts is not None:
            return self.facts.cells.names()
        return tuple(str(i) for i in range(self.occupancy.n_cells))

    @cached_property
    def table(self) -> pa.Table:
        """A row per cell: public counts, what is kept, noise, and the errors to expect."""
        occupancy = self.occupancy
        return pa.table(
            {
                "cell": pa.array(self.names, type=pa.string()),
                "users": occupancy.users_per_cell,
                "records": occupancy.records_per_cell,
                "mechanism": pa.array([self.mechanism] * occupancy.n_cells, type=pa.string()),
                "lower": self.lower,
                "upper": self.upper,
                "kept": self.kept,
                "mean_scale": self.scale,
                "mean_bias": self.bias,
                "mean_error": self.error,
                "mean_bound95": self.bound95,
            }
        )

    @cached_property
    def users(self) -> pa.Table:
        """A row per user (by number): cells, records and loss."""
        occupancy = self.occupancy
        records = np.bincount(occupancy.user, weights=occupancy.n, minlength=occupancy.n_users)
        return pa.table(
            {
                "user": np.arange(occupancy.n_users),
                "cells": occupancy.cells_per_user,
                "records": records.astype(np.int64),
                "loss": self._losses,
            }
        )

    def identity(self) -> dict[str, str]:
        """Return the plan as canonical public text: equal plans, equal text."""
        return {
            "statistics": ",".join(self.statistics),
            "method": self.method,
            "mechanism": self.mechanism,
            "asked": decimal_text(self.asked),
            "occupancy": self.occupancy.fingerprint,
            "cells": _digest((self.lower, self.upper, self.kept, self.noise_records)),
        }


def _digest(arrays: Iterable[NDArray[np.float64] | NDArray[np.int64]]) -> str:
    rows = json.dumps([[repr(x) for x in array.tolist()] for array in arrays])
    return hashlib.sha256(rows.encode()).hexdigest()


def privacy_loss_of(plan: Plan) -> NDArray[np.float64]:
    """Return the same losses by the general formula of the theory; for checks."""
    occupancy = plan.occupancy
    span = plan.span[occupancy.cell]
    kept = np.minimum(occupancy.n, plan.kept[occupancy.cell])
    moved = span * kept / occupancy.records_per_cell[occupancy.cell]
    scale = np.where(plan.kept > 0, plan.scale, np.inf)
    return theory.privacy_loss(occupancy, scale, None, 1.0, mean_sensitivity=moved)
