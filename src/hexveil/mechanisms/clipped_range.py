"""Array means projected to an interval found privately: what LEVY and QUANTILE share.

Source: IOT sections III-D and III-E; sensitivity under WRAPAROUND as in ERRATA 7.
Part of ε finds an interval [a, b] from the array means, the rest pays for the noise of their
projected mean.
Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity, for the interval found: max over users of Σ min(b - a, U share)/K over the arrays the
user has samples in, its share of each; exact. At most (b - a)/K under BESTFIT and
min(2 (b - a), U)/K under WRAPAROUND.
Loss: ε in all, by composition: each choice loses its part whatever was chosen before, and for
every outcome of the choices the Laplace mechanism loses the rest. Ends are put in order and the
noise is fitted to the width by looking at the outcome alone. An interval of one point is
published as it is: nothing is read any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms.arrays import array_means
from hexveil.mechanisms.single_cell_plan import LN20, CellFacts

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from hexveil.accounting.pseudo_users import PseudoUsers
    from hexveil.mechanisms.cell_plan import NoiseSource

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class IntervalPlan(CellFacts, ABC):
    """The public plan of a projected mean of array means; every figure in value units.

    `sensitivity` and `noise_scale` are those of the widest interval that can be found; a release
    fits them to the interval it finds. The bias depends on the interval, which is random:
    `worst_case_bias` and `worst_case_error` are None.

    Attributes
    ----------
    groups : PseudoUsers
        Which samples share an array: `.cap`, `.n_arrays`.
    mean_epsilon : Fraction
        The part of ε that pays for the noise; the rest finds the interval.
    """

    groups: PseudoUsers
    mean_epsilon: Fraction

    @property
    @abstractmethod
    def widest(self) -> float:
        """Largest width of an interval that can be found."""

    @abstractmethod
    def interval(self, arrays: Floats, noise: NoiseSource) -> tuple[float, float]:
        """Return the ends of the interval, found privately."""

    @abstractmethod
    def simulate_interval(
        self, arrays: Floats, generator: np.random.Generator, trials: int
    ) -> tuple[Floats, Floats]:
        """Return ends of many intervals distributed as those of `interval`."""

    @property
    def sensitivity(self) -> float:
        """Largest change of the projected mean, for the widest interval that can be found."""
        return float(self.sensitivities(np.array([self.widest]))[0])

    @property
    def noise_scale(self) -> float:
        """Largest Laplace scale that can occur."""
        return self.sensitivity / float(self.mean_epsilon)

    @property
    def worst_case_bias(self) -> None:
        """None: it depends on an interval that is random."""

    @property
    def worst_case_error(self) -> None:
        """None: it depends on an interval that is random."""

    @property
    def bound95(self) -> float:
        """U plus 95 percent of the noise: holds for all values, and is far from tight.

        Projected mean and true mean both lie within the bounds. Where half of the array means are
        at either bound, every interval is as good as any other, so little less can be promised.
        """
        return self.span + self.noise_scale * LN20

    def sensitivities(self, widths: Floats) -> Floats:
        """Return the largest change of the projected mean for each width of the interval."""
        groups = self.groups
        if groups.most_arrays == 1:
            most = self.span * groups.piece_share.max()
            return np.asarray(np.minimum(widths, most) / groups.n_arrays, dtype=np.float64)
        distinct, which = np.unique(widths, return_inverse=True)
        each = [groups.user_sensitivity(self.span, float(w)).max() for w in distinct]
        return np.asarray(np.array(each)[which], dtype=np.float64)

    def release(self, user_means: ArrayLike, noise: NoiseSource) -> float:
        """Return one estimate, for study: see `CellPlan.release`."""
        arrays = array_means(self.groups, self.means(user_means))
        a, b = self.interval(arrays, noise)
        if a == b:
            return a
        scale = float(self.sensitivities(np.array([b - a]))[0]) / float(self.mean_epsilon)
        return float(np.clip(arrays, a, b).mean()) + noise.laplace(scale)

    def simulate(
        self, user_means: ArrayLike, generator: np.random.Generator, trials: int
    ) -> Floats:
        """Return many estimates distributed as those of `release`: see `CellPlan.simulate`."""
        arrays = array_means(self.groups, self.means(user_means, trials))
        a, b = self.simulate_interval(arrays, generator, trials)
        scales = self.sensitivities(b - a) / float(self.mean_epsilon)
        return projected_mean(arrays, a, b) + generator.laplace(0.0, 1.0, trials) * scales


def projected_mean(values: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return the mean of values projected to [lower, upper], one per interval.

    Parameters
    ----------
    values : ndarray of float, shape (n,) or (trials, n)
    lower, upper : ndarray of float, shape (trials,)

    Examples
    --------
    >>> projected_mean(np.array([0.0, 1.0, 5.0]), np.array([1.0, 0.0]), np.array([3.0, 6.0]))
    array([1.66666667, 2.        ])
    """
    if values.ndim == 2:
        inside = np.clip(values, lower[:, None], upper[:, None])
        return np.asarray(inside.mean(axis=1), dtype=np.float64)
    x = np.sort(values)
    sums = np.concatenate(([0.0], np.cumsum(x)))
    i, j = np.searchsorted(x, lower), np.searchsorted(x, upper)
    total = i * lower + (sums[j] - sums[i]) + (x.size - j) * upper
    return np.asarray(total / x.size, dtype=np.float64)
