"""Cells like IOT's, and simulated errors of mechanisms on them as curves over ε.

Source: IOT section IV. Public and simulated: there are no records here (see `itms`).
The paper has one cell, and draws each synthetic data set once. Here are up to ten cells, each with
counts of its own that agree with all that is published, and speeds of its own, drawn once and the
same in every trial: so a trend that hangs on one draw shows itself, and none is claimed from it.
A setting with data of its own has its cell in their place; without values of its own the published
speeds are stretched to its bounds. Scaled, a user of own values has the mean that it has.
What the paper leaves open: the values of ε between 0.5 and 2, taken as 0.5, 0.6, ..., 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.evaluation import evaluate
from hexveil.mechanisms import CellMechanism
from hexveil.mechanisms.priors import Normal, ValueDistribution, draw_user_means
from hexveil_research.papers import itms
from hexveil_research.papers.simultaneous_tests import Margins
from hexveil_research.papers.study import Line, Setting, Whose, line
from hexveil_research.papers.study_data import Bounds

Scaling = Literal["none", "samples", "users"]

EPSILONS = tuple(f"{step / 10:g}" for step in range(5, 21))
X = np.array([float(epsilon) for epsilon in EPSILONS])
ERROR = "mean |error|"
"""Label of an axis, before the unit."""
CELLS = 10
TRIALS_OF_A_CELL = 100
"""With fewer than ten times as many trials there are fewer cells."""
NORMAL = 1.96
"""Standard errors to each end of a 95% interval."""


@dataclass(frozen=True, eq=False, repr=False)
class Cell:
    """Counts and user means of a simulated cell.

    Attributes
    ----------
    counts : ndarray of int64, shape (n_users,)
    means : ndarray of float, shape (n_users,)
    bounds : pair of numbers
    """

    counts: Ints
    means: Floats
    bounds: Bounds | tuple[int, int] = itms.BOUNDS

    @property
    def truth(self) -> float:
        """The mean of all samples, in value units."""
        return float(self.counts @ self.means / self.counts.sum())


def seeds(setting: Setting) -> range:
    """Return the seeds of the cells: ten, or fewer where few trials are asked for."""
    start = setting.seed * CELLS
    # Own values are there once: there is nothing to draw again.
    drawn = setting.data is None or setting.values is not None or setting.data.means is None
    n_cells = min(CELLS, setting.trials // TRIALS_OF_A_CELL) if drawn else 1
    return range(start, start + max(1, n_cells))


def cells(setting: Setting, scaling: Scaling = "none") -> Callable[[int], Cell]:
    """Return the function that makes the cell of a seed, as it is or scaled by λ."""
    if setting.is_papers:
        makers = {"none": mixed_cell, "samples": sample_scaled_cell, "users": user_scaled_cell}
        return makers[scaling]
    return partial(altered_cell, setting, scaling)


def altered_cell(setting: Setting, scaling: Scaling, seed: int) -> Cell:
    """Return a cell of other data, bounds, values or scaling than the paper's."""
    data, bounds = setting.data, setting.shown_bounds
    counts = itms.counts(seed) if data is None else data.counts
    means = None if data is None or setting.values is not None else data.user_means
    factor = itms.SCALE if setting.scale is None else setting.scale
    if scaling == "samples":
        counts = itms.sample_scaled(counts, factor)
    elif scaling == "users":
        counts = itms.user_scaled(counts, factor)
        means = None if means is None else np.repeat(means, factor)
    if means is None:
        means = _drawn_means(setting, counts, scaling, seed)
    return Cell(counts, means, bounds)


def _drawn_means(setting: Setting, counts: Ints, scaling: Scaling, seed: int) -> Floats:
    """Return user means of the setting's values, or of speeds like the published ones."""
    lower, upper = map(float, setting.shown_bounds)
    if setting.values is not None:
        return _draw(setting.values, counts, (lower, upper), seed)
    if setting.data is None:
        # Other bounds leave the samples as they are: they are only projected.
        if scaling == "none":
            speeds = np.clip(itms.mixed_speeds(counts, seed), lower, upper)
            return np.asarray(np.add.reduceat(speeds, np.cumsum(counts) - counts) / counts)
        return _draw(Normal(itms.MEAN, itms.VARIANCE**0.5), counts, (lower, upper), seed)
    means = itms.mixed_means if scaling == "none" else itms.iid_means
    return lower + means(counts, seed) * (upper - lower) / itms.SPAN


def mixed_cell(seed: int, share: float = itms.SHARE) -> Cell:
    """Return a cell with the published figures and heterogeneous users, to replace the real one."""
    counts = itms.counts(seed)
    return Cell(counts, itms.mixed_means(counts, seed, share))


def sample_scaled_cell(seed: int) -> Cell:
    """Return a cell in which every user has ten times the samples, i.i.d. (IOT section IV-C)."""
    counts = itms.sample_scaled(itms.counts(seed))
    return Cell(counts, itms.iid_means(counts, seed))


def user_scaled_cell(seed: int) -> Cell:
    """Return a cell of ten times the users, samples i.i.d. (IOT section IV-C)."""
    counts = itms.user_scaled(itms.counts(seed))
    return Cell(counts, itms.iid_means(counts, seed))


def _draw(
    values: ValueDistribution, counts: Ints, bounds: tuple[float, float], seed: int
) -> Floats:
    # The stream of `itms.iid_means`: the same seed draws the same speeds there and here.
    generator = np.random.default_rng([seed, 115])
    return np.asarray(draw_user_means(values, counts, bounds, generator, 1)[0])


@dataclass(frozen=True, eq=False)
class Curve:
    """A mean absolute error at every ε, in several cells.

    Attributes
    ----------
    error, standard_error : ndarray of float, shape (n_cells, n_epsilons)
        In value units; the standard error is that of the simulation, 0 if it was computed.
    x : ndarray of float, shape (n_epsilons,)
        Values of ε.
    """

    error: Floats
    standard_error: Floats
    x: Floats = field(default_factory=lambda: X)

    @property
    def mean(self) -> Floats:
        """Mean over the cells, at every ε."""
        return np.asarray(self.error.mean(axis=0))

    @property
    def level(self) -> float:
        """Mean over the cells and over ε: the area under the curve."""
        return float(self.error.mean())

    def line(self, name: str, whose: Whose = "paper") -> Line:
        """Return it as a line of a figure, with the ends that `ends` tells of."""
        # With several cells the band is their range, beside which the simulation's error is small.
        reach = NORMAL * self.standard_error if len(self.error) == 1 else 0 * self.error
        low, high = (self.error - reach).min(axis=0), (self.error + reach).max(axis=0)
        return line(name, self.x, self.mean, low=np.maximum(low, 0), high=high, whose=whose)

    def below(self, rival: Curve, factor: float = 1.0) -> Margins:
        """Return by how much its mean lies below `factor` times another's, at each ε."""
        gaps = factor * rival.error - self.error
        n = len(gaps)
        simulated = (self.standard_error**2 + (factor * rival.standard_error) ** 2).sum(axis=0)
        drawn = gaps.var(axis=0, ddof=1) / n if n > 1 else np.zeros(gaps.shape[1])
        # The variance over cells includes the simulation's, but estimated from ten cells it may be
        # less.
        noise = np.sqrt(np.maximum(simulated / n**2, drawn))
        return Margins(gaps.mean(axis=0), noise, rival.mean, n - 1 if n > 1 else np.inf)


Curves = dict[str, Curve]


def ends(setting: Setting) -> str:
    """Return the meaning of the ends of a curve's line."""
    n = len(seeds(setting))
    return f"smallest and largest of {n} cells" if n > 1 else "95% interval of the simulation"


def simulated(
    mechanisms: Sequence[CellMechanism],
    setting: Setting,
    cell: Callable[[int], Cell],
    tell: Callable[[float], None] = lambda _: None,
) -> Curves:
    """Return each mechanism's mean absolute error in every cell at every ε, by its name.

    Parameters
    ----------
    mechanisms : sequence of CellMechanism
    setting : Setting
    cell : callable
        Makes the cell of a seed.
    tell : callable, optional
        Is told which share is done.
    """
    epsilons = setting.losses(EPSILONS)
    shape = len(mechanisms), len(epsilons)
    mae, error = np.empty((2, len(seeds(setting)), *shape))
    for i, seed in enumerate(seeds(setting)):
        drawn_cell = cell(seed)
        table = evaluate(
            mechanisms, counts=drawn_cell.counts, user_means=drawn_cell.means,
            bounds=drawn_cell.bounds, epsilons=epsilons, trials=max(2, setting.trials), seed=seed,
        )  # fmt: skip
        mae[i] = np.asarray(table["mae"]).reshape(shape)
        error[i] = np.asarray(table["standard_error"]).reshape(shape)
        tell((i + 1) / len(mae))
    x = np.array(epsilons, dtype=float)
    return {m.name: Curve(mae[:, k], error[:, k], x) for k, m in enumerate(mechanisms)}
