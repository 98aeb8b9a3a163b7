"""Re-weighting and midpoints against dropping: worst-case bias, and the error after noise.

Goes past COMP sections III-B and IV (ERRATA 9 and 10), on counts like those of
IOT's cell (`itms`).
A cap keeps Γ = min(m, cap) of a user's m samples: COMP drops the rest, re-weighting gives each
user's mean of all samples the weight Γ/n, midpoints count the rest as U/2.
Planning error: worst-case bias plus expected |noise|, at the best of all whole caps for each ε,
which is the loss of the one statistic.
Counts only: everything here is public and costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from hexveil import theory
from hexveil.base.arrays import Floats, Ints
from hexveil_research.papers.beyond import reweighting_search
from hexveil_research.papers.itms import SPAN, counts
from hexveil_research.papers.study import Claim, Outcome, Panel, Setting, Study, Whose, line

Formula = Callable[[Ints, Ints, float], float]

SAME = 1e-9
X = np.geomspace(0.02, 1.0, 15)
"""ε of the planning errors; from 1 on hardly any cap pays on this cell."""
POINTS = 22
"""Caps that are drawn, at most; all are tried."""
DRAWN = 300
"""Drawn cells that the claims are tried on, beside IOT's."""
PLACE = "Past COMP, sections III-B and IV"


@dataclass(frozen=True)
class CappingMethod:
    """A way to take less of some users.

    Attributes
    ----------
    name : str
    whose : str
    bias, sensitivity : dict of str to callable
        For "mean" and "variance": of what is kept, the counts and U.
    """

    name: str
    whose: Whose
    bias: dict[str, Formula]
    sensitivity: dict[str, Formula]


def _largest(users: Callable[[Ints, Ints, float], Floats]) -> Formula:
    """Return the largest over users of a sensitivity per user."""
    return lambda kept_counts, m, span: float(users(kept_counts, m, span).max())


def _of_kept(formula: Callable[[Ints, float], float]) -> Formula:
    """Return a sensitivity of the kept samples alone, where a user of none does not count."""
    return lambda kept_counts, _, span: formula(kept_counts[kept_counts > 0], span)


DROPPING = CappingMethod(
    "dropping",
    "paper",
    {"mean": theory.truncation_mean_bias, "variance": theory.truncation_variance_bias},
    {"mean": _of_kept(theory.mean_sensitivity), "variance": _of_kept(theory.variance_sensitivity)},
)
REWEIGHTING = CappingMethod(
    "re-weighting",
    "ours",
    {"mean": theory.reweighted_mean_bias, "variance": theory.reweighted_variance_bias},
    {
        "mean": _largest(theory.user_reweighted_mean_sensitivity),
        "variance": _largest(theory.user_reweighted_variance_sensitivity),
    },
)
MIDPOINTS = CappingMethod(
    "midpoints",
    "ours",
    {"mean": theory.midpoint_mean_bias, "variance": theory.midpoint_variance_bias},
    {
        "mean": _largest(theory.user_midpoint_mean_sensitivity),
        "variance": _largest(theory.user_midpoint_variance_sensitivity),
    },
)
METHODS = (DROPPING, REWEIGHTING, MIDPOINTS)
FREE = {"mean": SPAN / 2, "variance": SPAN**2 / 8}
"""What the constants U/2 and U²/8 miss at most, at no loss."""
UNITS = {"mean": "km/h", "variance": "(km/h)²"}


@dataclass(frozen=True, eq=False)
class CapCurve:
    """Errors of a method at every cap of a cell; arrays have the shape (n_caps,).

    Attributes
    ----------
    caps : ndarray of int64
        Whole caps from 1 to the largest count.
    share : ndarray of float
        n/N: samples kept.
    bias, sensitivity : ndarray of float
        In value units for the mean, in squared ones for the variance.
    """

    caps: Ints
    share: Floats
    bias: Floats
    sensitivity: Floats

    def least_errors(self) -> Floats:
        """Return the least planning error over caps at each ε of `X`."""
        # The expected size of Laplace noise is its scale.
        errors = self.bias + self.sensitivity / X[:, None]
        return np.asarray(errors.min(axis=1))


def curve(method: CappingMethod, statistic: str, m: Ints) -> CapCurve:
    """Return a way's bias and sensitivity at every cap of a cell."""
    caps = np.arange(1, int(m.max()) + 1)
    capped_counts = [np.minimum(m, cap) for cap in caps]
    bias, sensitivity = (
        np.array([formula(kept_counts, m, SPAN) for kept_counts in capped_counts])
        for formula in (method.bias[statistic], method.sensitivity[statistic])
    )
    share = np.array([kept_counts.sum() for kept_counts in capped_counts]) / m.sum()
    return CapCurve(caps, share, bias, sensitivity)


@cache
def curves(statistic: str) -> tuple[CapCurve, ...]:
    """Return the curves of all ways on IOT's cell."""
    return tuple(curve(method, statistic, counts()) for method in METHODS)


def make(setting: Setting) -> Outcome:
    """Return the figure: bias against the cap, and planning error against ε."""
    panels = (*(bias_panel(statistic) for statistic in UNITS), error_panel())
    setting.tell(0.3)
    judged = (*cell_claims(), *drawn_claims(setting.seed))
    setting.tell(0.6)
    return Outcome(panels, (*judged, *reweighting_search.claims()))


def bias_panel(statistic: str) -> Panel:
    """Return worst-case bias against the cap."""
    cap_curves = curves(statistic)
    # Row k of a curve belongs to the cap k + 1.
    drawn_caps = (
        np.unique(np.geomspace(1, cap_curves[0].caps[-1], POINTS).round().astype(np.int64)) - 1
    )
    lines = tuple(
        line(
            method.name, cap_curve.caps[drawn_caps], cap_curve.bias[drawn_caps], whose=method.whose
        )
        for method, cap_curve in zip(METHODS, cap_curves, strict=True)
    )
    label = f"worst-case bias, {UNITS[statistic]}"
    return Panel(f"bias of the {statistic}", "cap, samples of a user", label, lines, log_x=True)


def error_panel() -> Panel:
    """Return the least planning error over caps as a share of dropping's, against ε."""
    lines = [line(DROPPING.name, X, np.ones(X.size))]
    for statistic in UNITS:
        dropping, *others = (cap_curve.least_errors() for cap_curve in curves(statistic))
        lines += [
            line(f"{method.name}, {statistic}", X, errors / dropping, whose=method.whose)
            for method, errors in zip(METHODS[1:], others, strict=True)
        ]
    label = "worst-case bias + noise, as a share of dropping's"
    title = "error, each at its best cap"
    return Panel(title, "privacy loss ε of the statistic", label, tuple(lines), log_x=True)


def cell_claims() -> tuple[Claim, ...]:
    """Return the claims about IOT's cell."""
    return tuple(
        claim
        for statistic in UNITS
        for claim in (
            bias_claim(statistic, *curves(statistic)),
            midpoint_claim(statistic, *curves(statistic)),
            error_claim(statistic, *curves(statistic)),
        )
    )


def bias_claim(statistic: str, dropping: CapCurve, reweighting: CapCurve, _: CapCurve) -> Claim:
    """Return that re-weighting biases less at every cap."""
    below = dropping.share < 1
    ratio = reweighting.bias[below] / dropping.bias[below]
    return Claim(
        "hexveil",
        PLACE,
        f"Re-weighting biases the {statistic} less than dropping, in the worst case, at every cap "
        "(IOT's cell)",
        f"{ratio.min():.2f} to {ratio.max():.2f} of dropping, mean {ratio.mean():.2f}, at "
        f"{ratio.size} caps",
        bool((ratio < 1 - SAME).all()),
        "ours",
    )


def midpoint_claim(statistic: str, dropping: CapCurve, _: CapCurve, midpoints: CapCurve) -> Claim:
    """Return that midpoints halve the bias at every cap."""
    below = dropping.share < 1
    ratio = midpoints.bias[below] / dropping.bias[below]
    return Claim(
        "hexveil",
        PLACE,
        f"Midpoints halve the worst-case bias of the {statistic} at every cap (IOT's cell)",
        f"{ratio.min():.6f} to {ratio.max():.6f} of dropping at {ratio.size} caps",
        bool(np.allclose(ratio, 0.5, atol=SAME)),
        "ours",
    )


def error_claim(statistic: str, dropping: CapCurve, *others: CapCurve) -> Claim:
    """Return that neither has more worst-case bias plus noise, each at its best cap."""
    base = dropping.least_errors()
    # Where dropping is best not done at all, there is nothing to win.
    pays = base < dropping.bias[-1] + dropping.sensitivity[-1] / X - SAME
    reweighting, midpoints = (cap_curve.least_errors() / base for cap_curve in others)
    midpoints_win = midpoints < np.minimum(reweighting, 1) - SAME
    return Claim(
        "hexveil",
        PLACE,
        f"At their best caps neither re-weighting nor midpoints have more worst-case error of the "
        f"{statistic} than dropping, and midpoints have the least wherever dropping pays (IOT's "
        "cell)",
        f"share of dropping, ε from {X[0]:g} to {X[-1]:g}: re-weighting {_range(reweighting)}, "
        f"midpoints {_range(midpoints)}; dropping pays at {pays.sum()} of {X.size} ε, at "
        f"{(base > FREE[statistic]).sum()} of which a constant is better than it",
        bool((reweighting <= 1 + SAME).all() and (midpoints <= 1 + SAME).all())
        and bool(midpoints_win[pays].all() and pays.any()),
        "ours",
    )


def drawn_claims(seed: int) -> tuple[Claim, ...]:
    """Return that no drawn cell, whatever is kept of whom, is an exception."""
    cells = [_drawn(np.random.default_rng([seed, number])) for number in range(DRAWN)]
    return tuple(claim for statistic in UNITS for claim in drawn_claim(statistic, cells, *METHODS))


def drawn_claim(
    statistic: str,
    cells: list[tuple[Ints, Ints]],
    dropping: CappingMethod,
    reweighting: CappingMethod,
    midpoints: CappingMethod,
) -> tuple[Claim, Claim]:
    """Return both claims about bias on cells with any contribution caps.

    Parameters
    ----------
    statistic : str
    cells : list of pair of ndarray
        What is kept, and the counts.
    dropping, reweighting, midpoints : Way
    """
    base, weighed, middle = (
        np.array([method.bias[statistic](kept_counts, m, 1.0) for kept_counts, m in cells])
        for method in (dropping, reweighting, midpoints)
    )
    total = np.array([m.sum() for _, m in cells])
    # The bound on a re-weighted variance does not know that odd totals have no equal halves.
    room = 1 / (4 * total**2) if statistic == "variance" else np.zeros(total.size)
    but = " (but for U²/(4N²), which its bound gives away)" if room.any() else ""
    ratio, half = weighed / base, middle / base
    return (
        Claim(
            "hexveil",
            PLACE,
            f"Whatever is kept of whom, re-weighting's worst-case bias of the {statistic} is at "
            f"most that of dropping{but}",
            f"at most {ratio.max():.6f} of it, mean {ratio.mean():.2f}, in {len(cells)} drawn "
            "cells",
            bool((weighed <= base + room + SAME).all()),
            "ours",
        ),
        Claim(
            "hexveil",
            PLACE,
            f"Whatever is kept of whom, midpoints have half of dropping's worst-case bias of the "
            f"{statistic}",
            f"{half.min():.6f} to {half.max():.6f} of it in {len(cells)} drawn cells",
            bool(np.allclose(half, 0.5, atol=SAME)),
            "ours",
        ),
    )


def _drawn(draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Return partial contribution caps and heavy-tailed counts of a cell."""
    m = np.minimum(1 + draw.pareto(1.1, draw.integers(2, 60)) * 4, 400).astype(np.int64)
    # At least two samples, so that this user can keep one and lose one.
    m[0] += 1
    kept_counts = draw.integers(0, m + 1)
    kept_counts[0] = draw.integers(1, m[0])
    return kept_counts, m


def _range(share: Floats) -> str:
    return f"{share.min():.2f} to {share.max():.2f}"


STUDY = Study(
    name="beyond:capping",
    place="Past COMP, sections III-B and IV",
    title="Taking less of some users: dropping, re-weighting, midpoints",
    make=make,
    seconds=1.0,
)
