"""COMP's algorithms run on one occupancy at one ε, its true loss, and the joint plan beside it.

Source: COMP sections V-B and VI; the loss itself: ERRATA 3; what constants miss: ERRATA 4.
Symbols: U the width of the bounds, ε the loss of one cell (half for the mean, half for the
variance), G_1 the most cells of a user, K the same after CLIP-USER, E the largest error over cells
before it, Ē after it and the caps. Errors are COMP's sum of value units and squared ones.

What the paper leaves open: the values of ε; taken are eleven of equal ratio from 0.1 to 1, and
three more up to 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from hexveil import Occupancy, theory
from hexveil.accounting.sensitivity import variance_share
from hexveil.base.arrays import Floats, Ints
from hexveil_research.papers.comp.residual_cap import cap_after_suppression
from hexveil_research.papers.comp_setting import SPAN, comp_setting
from hexveil_research.papers.study import Setting

EPSILONS = tuple(f"{10 ** (-1 + step / 10):.3g}" for step in range(11))
"""0.1 to 1, for figures 3 to 8."""
WIDER = (*EPSILONS, "1.26", "1.58", "2")
"""0.1 to 2, for figures 1 and 2."""
DRAWS = 10
GAMMAS = (3, 6, 9)


@dataclass(frozen=True)
class Run:
    """Result of the paper's algorithms on one occupancy at one ε, with its real privacy loss.

    Attributes
    ----------
    epsilon : float
        ε.
    cells : int
        G_1.
    degradation : int
        K.
    bound : float
        E.
    largest : float
        Largest error over cells after CLIP-USER.
    raised : int
        Cells whose error is larger after CLIP-USER than before.
    capped : float
        Ē, where the suppressions of the halted stage are undone (ERRATA 2).
    capped_halted : float
        Ē, where the halted stage is kept as printed.
    plain_loss : float
        Loss of the most exposed user with nothing suppressed, by exact accounting.
    kept_loss : float
        The same after CLIP-USER.
    """

    epsilon: float
    cells: int
    degradation: int
    bound: float
    largest: float
    raised: int
    capped: float
    capped_halted: float
    plain_loss: float
    kept_loss: float

    @property
    def counted(self) -> float:
        """Loss by counting cells, before CLIP-USER: G_1 ε (Corollary II.1)."""
        return self.cells * self.epsilon

    @property
    def claimed(self) -> float:
        """Loss by counting cells, after CLIP-USER: K ε (Proposition V.1)."""
        return self.degradation * self.epsilon


def constants_error(span: float) -> float:
    """Return the largest error of the constants U/2 and U²/8: U/2 + U²/8, at no loss (ERRATA 4).

    Examples
    --------
    >>> constants_error(65.0)
    560.625
    """
    return span / 2 + span**2 / 8


def run(occupancy: Occupancy, span: float, epsilon: str) -> Run:
    """Return the result of CLIP-USER and subsequent caps on an occupancy.

    Parameters
    ----------
    occupancy : Occupancy
    span : float
        U, in value units.
    epsilon : str
        ε as decimal text.
    """
    suppression = theory.clip_user(occupancy, span, epsilon)
    halted = theory.clip_user(occupancy, span, epsilon, unfinished_stage="keep")
    initial = initial_errors(occupancy, span, float(epsilon))
    errors = suppression.mean_errors + suppression.variance_errors
    return Run(
        epsilon=float(epsilon),
        cells=int(occupancy.cells_per_user.max()),
        degradation=suppression.degradation,
        bound=float(initial.max()),
        largest=float(errors.max()),
        # Beyond rounding: a cell from which nothing is taken keeps its error.
        raised=int((errors > initial * (1 + 1e-9)).sum()),
        capped=cap_after_suppression(occupancy, suppression.contributions, span, epsilon).max_error,
        capped_halted=cap_after_suppression(
            occupancy, halted.contributions, span, epsilon
        ).max_error,
        plain_loss=exact_loss(occupancy, span, float(epsilon)),
        kept_loss=exact_loss(kept_part(occupancy, suppression.contributions), span, float(epsilon)),
    )


def kept_part(occupancy: Occupancy, kept_counts: Ints) -> Occupancy:
    """Return the occupancy of the kept samples; users without any are left out."""
    live = kept_counts > 0
    _, user = np.unique(occupancy.user[live], return_inverse=True)
    return Occupancy.from_coo(occupancy.cell[live], user, kept_counts[live])


def sensitivities(occupancy: Occupancy, span: float) -> tuple[Floats, Floats]:
    """Return each cell's sensitivity of the mean and of the variance (eq. (5), Prop. III.1)."""
    top, total = occupancy.kth_largest(1), occupancy.records_per_cell
    return span * top / total, span**2 * variance_share(top, total)


def initial_errors(occupancy: Occupancy, span: float, epsilon: float) -> Floats:
    """Return each cell's error with nothing suppressed: eq. (12) with all of Prop. III.1."""
    mean, variance = sensitivities(occupancy, span)
    return 2.0 * (mean + variance) / epsilon


def exact_loss(occupancy: Occupancy, span: float, epsilon: float) -> float:
    """Return the most exposed user's loss under the noise of BASELINE (ERRATA 3).

    The scales are 2 Δ/ε; a variance of one record is 0 and needs no noise.
    """
    mean, variance = (
        np.where(sensitivity > 0, 2.0 * sensitivity / epsilon, np.inf)
        for sensitivity in sensitivities(occupancy, span)
    )
    return float(theory.privacy_loss(occupancy, mean, variance, span).max())


@cache
def synthetic_run(gamma: int, seed: int, epsilon: str) -> Run:
    """Return the run on one draw of the synthetic setting; made once, used by several studies."""
    return run(comp_setting(gamma, seed), SPAN, epsilon)


def seeds(setting: Setting) -> range:
    """Return the seeds of the draws: ten, or fewer where fewer trials are asked for."""
    start, data = setting.seed * DRAWS, setting.data
    # Counts of several cells are there once: there is nothing to draw again.
    drawn = data is None or data.occupancy.n_cells == 1
    return range(start, start + (max(1, min(DRAWS, setting.trials)) if drawn else 1))


def occupancy_of(setting: Setting, gamma: int, seed: int) -> Occupancy:
    """Return a draw of the synthetic setting, or the counts of other data.

    The largest count of each cell is multiplied by 1 + gamma. Counts of one cell take the place of
    the geometric ones, drawn with replacement.
    """
    q = 0.01 if setting.q is None else setting.q
    data = setting.data
    if data is None:
        return comp_setting(gamma, seed, q)
    if data.occupancy.n_cells == 1:
        return comp_setting(gamma, seed, counts=data.counts)
    return with_heavy_hitters(data.occupancy, gamma)


def with_heavy_hitters(occupancy: Occupancy, gamma: int) -> Occupancy:
    """Return an occupancy with the first largest counts of cells multiplied by 1 + gamma.

    Examples
    --------
    >>> with_heavy_hitters(Occupancy.from_dense([[3, 1], [3, 2]]), 1).n.tolist()
    [6, 3, 1, 4]
    """
    n = occupancy.n.copy()
    for begin, end in pairwise(occupancy.start.tolist()):
        n[begin + int(n[begin:end].argmax())] *= 1 + gamma
    return Occupancy.from_coo(occupancy.cell, occupancy.user, n)


def shown_gamma(setting: Setting, usual: int) -> int:
    """Return gamma: the given one, or the figure's; 0 leaves counts of other data as they are."""
    return usual if setting.gamma is None else setting.gamma


def synthetic_runs(setting: Setting, gamma: int) -> tuple[tuple[Run, ...], ...]:
    """Return the runs on all draws, a row each, at every ε of `EPSILONS` or the setting's."""
    if not setting.is_papers:
        epsilons = setting.losses(EPSILONS)
        draws = (occupancy_of(setting, gamma, seed) for seed in seeds(setting))
        return tuple(tuple(run(o, setting.span, epsilon) for epsilon in epsilons) for o in draws)
    return tuple(
        tuple(synthetic_run(gamma, seed, epsilon) for epsilon in EPSILONS)
        for seed in seeds(setting)
    )


def column(runs: Sequence[Sequence[Run]], name: str) -> Floats:
    """Return a number of each run by its name; shape (n_draws, n_epsilons)."""
    return np.array([[float(getattr(clip_run, name)) for clip_run in row] for row in runs])
