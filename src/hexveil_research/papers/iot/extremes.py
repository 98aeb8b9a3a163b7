"""Claims of IOT on QUANTILE's interval: the best extremes, and the cost of privacy.

Source: IOT sections III-E and IV-C (RW appendix D, section V-A). Errors with exact extremes are
computed: |d| + b exp(-|d|/b) is the mean of |d + Laplace noise of scale b|. Cells like ITMS only.
Symbols: x the array means of K̄ arrays, r a rank; the s-th smallest and r-th largest are the ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hexveil import theory
from hexveil.base.arrays import Floats
from hexveil.evaluation import evaluate
from hexveil.mechanisms import FixedQuantile, Levy, OptimizedQuantile
from hexveil.mechanisms.private_quantile import PrivateQuantile, RankCost
from hexveil.mechanisms.single_cell import study_cell
from hexveil_research.papers import itms
from hexveil_research.papers.iot.iot_cells import Cell, Curve, sample_scaled_cell
from hexveil_research.papers.simultaneous_tests import everywhere, judge
from hexveil_research.papers.study import Claim, Setting

Rank = Callable[[Fraction], int]

LOSSES = tuple(Fraction(text) for text in ("0.5", "0.7", "0.9", "1", "1.3", "1.5", "2", "5"))
"""For some of them 2/ε is whole, for others not; at 5 it is below 1."""
EPSILONS = ("0.5", "1", "1.5", "2")
CLOSE = 1e-9
SEEDS = 5
"""Cells whose array means are searched."""


def price(x: Floats, low: float, high: float, epsilon: Fraction) -> float:
    """Return noise plus absolute clipping errors of an interval, times the number of arrays.

    Examples
    --------
    >>> price(np.array([0.0, 1.0, 5.0]), 1.0, 3.0, Fraction(1))
    7.0
    """
    clipped = np.maximum(low - x, 0).sum() + np.maximum(x - high, 0).sum()
    return float(2 * (high - low) / float(epsilon) + clipped)


def extremes_claims(
    printed: Rank = lambda e: math.floor(2 / e), right: Rank = lambda e: math.ceil(2 / e)
) -> tuple[Claim, Claim]:
    """Return the extremes that minimise noise plus clipping: as printed, and corrected.

    Parameters
    ----------
    printed, right : callable
        Rank of the lower end at ε; others in a test.
    """
    samples = [_sorted_means(itms.counts(seed), seed) for seed in range(SEEDS)]
    worse = {}
    for name, rank in (("printed", printed), ("right", right)):
        verdicts = [(e, _missed(x, e, rank(e))) for x in samples for e in LOSSES]
        worse[name] = sorted({float(e) for e, missed in verdicts if missed})
    loss_list = ", ".join(f"{float(e):g}" for e in LOSSES)
    says = "smallest and the ⌈2/ε⌉-th largest array mean make noise plus absolute errors of "
    return (
        Claim(
            "IOT",
            "Section III-E, OPTIMIZEDQUANTILE",
            f"The ⌊2/ε⌋-th {says}clipping least",
            f"of ε = {loss_list}, another interval between array means is better, or there is no "
            f"such array, at {_list(worse['printed'])} ({SEEDS} cells like ITMS, all pairs)",
            not worse["printed"],
        ),
        Claim(
            "IOT",
            "Section III-E, OPTIMIZEDQUANTILE",
            f"The ⌈2/ε⌉-th {says}clipping least, as the mechanism here takes both ends",
            f"another interval is better at {_list(worse['right'])}",
            not worse["right"],
            "corrected",
        ),
    )


def _sorted_means(counts: NDArray[np.int64], seed: int) -> Floats:
    """Return the array means of a cell, the smallest first."""
    groups = theory.best_fit(counts, theory.sqrt_cap(counts))
    return np.sort(itms.array_means(groups, itms.mixed_means(counts, seed)))


def _missed(x: Floats, epsilon: Fraction, rank: int) -> bool:
    """Return whether an interval between array means is better than that of the ranks."""
    # Above ε = 2 the printed rank ⌊2/ε⌋ is 0, and names no array.
    if rank < 1:
        return True
    high = x[-math.ceil(2 / epsilon)]
    stated_price = price(x, float(x[rank - 1]), float(high), epsilon)
    # The price is a sum of one part for each end, so the best pair has the best of each.
    low_part = [price(x, float(a), float(high), epsilon) for a in x]
    best_low = float(x[int(np.argmin(low_part))])
    lowest = min(price(x, best_low, float(b), epsilon) for b in x)
    return stated_price > lowest + CLOSE * abs(lowest)


def exact_error(cell: Cell, mechanism: FixedQuantile | OptimizedQuantile, epsilon: str) -> float:
    """Return the mean |error| of QUANTILE if its ends were the exact quantiles, in value units.

    Parameters
    ----------
    cell : Cell
    mechanism : FixedQuantile or OptimizedQuantile
    epsilon : str
    """
    study = study_cell(cell.counts, itms.BOUNDS)
    allocation = mechanism.allocate_cell(study, Fraction(epsilon))
    groups, choice = allocation.groups, allocation.stages[0]
    assert groups is not None  # noqa: S101  as of all quantiles
    assert isinstance(choice, PrivateQuantile)  # noqa: S101
    x = np.sort(itms.array_means(groups, cell.means))
    low, high = (cost.target for cost in choice.costs if isinstance(cost, RankCost))
    ends = x[low - 1], x[min(high, x.size - 1)]
    missed = abs(float(np.clip(x, *ends).mean()) - cell.truth)
    sensitivity = groups.user_sensitivity(itms.SPAN, float(ends[1] - ends[0])).max()
    scale = float(sensitivity) / float(allocation.mean_epsilon)
    return missed + scale * math.exp(-missed / scale)


def private_quantiles_claim(
    setting: Setting,
    exactly: Callable[[Cell, FixedQuantile | OptimizedQuantile, str], float] = exact_error,
) -> Claim:
    """Return that QUANTILE would be the better one under sample scaling, were its ends exact.

    Parameters
    ----------
    setting : Setting
    exactly : callable
        Error with exact ends; another in a test.
    """
    cell = sample_scaled_cell(setting.seed)
    quantiles = FixedQuantile(), OptimizedQuantile()
    table = evaluate(
        [Levy(), *quantiles], counts=cell.counts, user_means=cell.means, bounds=itms.BOUNDS,
        epsilons=EPSILONS, trials=max(2, setting.trials), seed=setting.seed,
    )  # fmt: skip
    shape = 3, 1, len(EPSILONS)
    mae, noise = (np.asarray(table[name]).reshape(shape) for name in ("mae", "standard_error"))
    exact = np.array([[exactly(cell, mechanism, e) for e in EPSILONS] for mechanism in quantiles])
    levy, *private = (Curve(*both) for both in zip(mae, noise, strict=True))
    behind = [levy.below(rival) for rival in private]
    ahead = [Curve(e[None], 0 * e[None]).below(levy) for e in exact]
    claim = Claim(
        "IOT",
        "Section IV-C",
        "LEVY errs less than QUANTILE under sample scaling because the quantiles are estimated "
        "privately",
        f"of LEVY's error FIXEDQUANTILE and OPTIMIZEDQUANTILE have {_span(mae[1] / mae[0])} and "
        f"{_span(mae[2] / mae[0])}, with exact quantiles {_span(exact[0] / mae[0])} and "
        f"{_span(exact[1] / mae[0])}, at ε = {', '.join(EPSILONS)}; LEVY's is the smaller beyond "
        f"noise at {sum(margin.positive.sum() for margin in behind)} of {exact.size}, with exact "
        f"quantiles the larger at {sum(margin.positive.sum() for margin in ahead)}",
        None,
        basis="other records",
    )
    return judge(claim, everywhere(*behind, *ahead))


def _span(values: Floats) -> str:
    return f"{values.min():.2f} to {values.max():.2f}"


def _list(values: list[float]) -> str:
    return f"ε = {', '.join(f'{value:g}' for value in values)}" if values else "none (0)"
