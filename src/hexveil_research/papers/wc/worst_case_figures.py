"""WC's figures: errors on the worst-case data set, and on simulated samples.

Source: WC sections IV-C and IV-D, with ERRATA 5 for the optimal error. What the paper leaves open
is in `count_collections`, and the collection of figure 1: the geometric one, M = 6. All errors are
drawn on a logarithmic axis, which the paper has in figure 3 alone: they lie far apart.
Ours in the same axes: Foresight, tuned on other sets but judged on these collections among others
(docs/how-to/own-mechanism.md), and Auto with its usual prior.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil import theory
from hexveil.mechanisms import AKMV, Auto, Baseline, Foresight, OptimalClipping
from hexveil.mechanisms.priors import Uniform
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.single_cell.cell_allocation import study_cell
from hexveil.mechanisms.single_cell.cell_plan import CellPlan
from hexveil_research.papers.study import Claim, Outcome, Panel, Study, line
from hexveil_research.papers.wc import clipping_claims, curve_claims, linear_program, thresholds
from hexveil_research.papers.wc.count_collections import (
    BOUNDS,
    ENDS,
    EPSILONS,
    SPAN,
    ProjectedNormal,
    ThresholdCurve,
    X,
    exactly,
    extreme,
    geometric,
    simulated,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.mechanisms import CellMechanism
    from hexveil.mechanisms.priors import ValueDistribution
    from hexveil_research.papers.study import Setting

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Curves = dict[str, ThresholdCurve]

LAPLACE, OPTIMAL, HALVES = Baseline(), OptimalClipping(), AKMV()
FORESIGHT, AUTO = Foresight(), Auto()
NAMES = {
    LAPLACE.name: "plain Laplace",
    OPTIMAL.name: "OPT-worst-case",
    HALVES.name: "AKMV",
    FORESIGHT.name: "Foresight",
    AUTO.name: "Auto",
}
CELL_LOSS = "privacy loss ε"
MIDDLE = SPAN / 2
"""The worst-case error of the constant U/2, which loses no privacy."""


def optimal_error(counts: Ints) -> Floats:
    """Return E^OPT at every ε: worst-case bias plus expected |noise| (Theorem III.1, ERRATA 5)."""
    return np.array([theory.optimal_clipping(counts, SPAN, e).worst_case_error for e in EPSILONS])


def akmv_error(counts: Ints, setting: Setting) -> ThresholdCurve:
    """Return E_AKMV on the data set of samples U, at every ε: section IV-C's estimate of it."""
    generator = np.random.default_rng([setting.seed, 2])
    # Where all samples are U, a user's sum is U m.
    reach, total = (SPAN * counts).astype(np.float64), counts.sum()
    estimates = []
    for epsilon in EPSILONS:
        cell = study_cell(counts, BOUNDS)
        allocation = HALVES.allocate_cell(cell, Fraction(epsilon))
        noise = SimulatedNoise(generator, max(2, setting.trials))
        outputs = CellPlan(allocation).outputs(cell.sums(np.full(counts.size, SPAN)), noise)
        top = allocation.range_sum.clipping.ends(outputs)[1] * float(cell.quantum)
        clipped_off = np.maximum(reach - top[:, None], 0).sum(axis=1)
        # Bias plus expected noise at each drawn threshold: the noise itself adds no scatter.
        per_release = (clipped_off + top / float(allocation.mean_epsilon)) / total
        estimates.append((per_release.mean(), per_release.std(ddof=1) / per_release.size**0.5))
    error, noise = np.array(estimates).T
    return ThresholdCurve(error, noise)


def worst_case(setting: Setting) -> Outcome:
    """Return WC figure 1: errors on the data set with all samples at U."""
    counts = geometric()
    optimal, akmv = exactly(optimal_error(counts)), akmv_error(counts, setting)
    compared: list[CellMechanism] = [LAPLACE, OPTIMAL, HALVES, FORESIGHT, AUTO]
    means = np.full(counts.size, SPAN)
    real = simulated(compared, setting, setting.tell, counts=counts, user_means=means)
    lines = (
        line("optimal clipping, E", X, optimal.error),
        akmv.line("AKMV, E"),
        real[FORESIGHT.name].line("Foresight, simulated", "ours"),
        real[AUTO.name].line("Auto, simulated", "ours"),
        line("the constant U/2", X, np.full(X.size, MIDDLE), whose="reference"),
    )
    title = "WC figure 1: all samples are U, geometric collection, M = 6"
    label = "bias + expected |noise|, or mean |error|, km/h"
    panel = Panel(title, CELL_LOSS, label, lines, log_y=True, ends=ENDS)
    return Outcome((panel,), curve_claims.worst_case_claims(optimal, akmv, real))


def average_panel(title: str, curves: Curves, optimal: Floats) -> Panel:
    """Return mean absolute errors over ε, beside the optimal worst-case error."""
    ours = {FORESIGHT.name, AUTO.name}
    lines = (
        *(
            curve.line(NAMES[name], "ours" if name in ours else "paper")
            for name, curve in curves.items()
        ),
        line("OPT-worst-case, E at worst", X, optimal, whose="reference"),
    )
    return Panel(title, CELL_LOSS, "mean |error|, km/h", lines, log_y=True, ends=ENDS)


def average(
    setting: Setting,
    *,
    number: int,
    collection: str,
    cells: tuple[tuple[str, ValueDistribution], ...],
) -> Outcome:
    """Return WC figure 2 or 3: errors on simulated samples, a panel for each kind of them."""
    counts = geometric() if number == 2 else extreme()
    optimal = optimal_error(counts)
    compared: list[CellMechanism] = [LAPLACE, OPTIMAL, HALVES, FORESIGHT, AUTO]
    panels: list[Panel] = []
    claims: list[Claim] = []
    for index, (kind, values) in enumerate(cells):
        tell = partial(_tell_part, setting, index, len(cells))
        curves = simulated(compared, setting, tell, counts=counts, values=values)
        panels.append(average_panel(f"WC figure {number}: {collection}, {kind}", curves, optimal))
        claims += curve_claims.average_claims(f"Figure {number}", kind, curves, optimal)
    return Outcome(tuple(panels), tuple(claims))


def _tell_part(setting: Setting, finished: int, total: int, share: float) -> None:
    setting.tell((finished + share) / total)


def stated(setting: Setting) -> Outcome:
    """Return the claims of WC beside its figures."""
    on_clipping = (*clipping_claims.claims(), *linear_program.claims(setting.seed))
    setting.tell(0.5)
    return Outcome(claims=(*on_clipping, *thresholds.claims(setting)))


_UNIFORM = (("uniform samples", Uniform()),)
# Both readings of the paper's N(U/2, U/4): `count_collections` says why.
_NORMAL = tuple(
    (f"normal samples, {word} U/4", ProjectedNormal(SPAN / 2, sd, 0.0, SPAN))
    for word, sd in (("variance", (SPAN / 4) ** 0.5), ("standard deviation", SPAN / 4))
)

STUDIES: tuple[Study, ...] = (
    Study(
        name="wc:fig1",
        place="WC, figure 1",
        title="Error on the worst-case data set",
        make=worst_case,
        seconds=2.0,
    ),
    Study(
        name="wc:fig2",
        place="WC, figure 2",
        title="Average error, geometric collection, uniform samples",
        make=partial(average, number=2, collection="geometric collection", cells=_UNIFORM),
        seconds=4.0,
    ),
    Study(
        name="wc:fig3",
        place="WC, figure 3",
        title="Average error, extreme-valued collection, projected normal samples",
        make=partial(average, number=3, collection="extreme-valued collection", cells=_NORMAL),
        seconds=7.0,
    ),
    Study(
        name="wc:claims",
        place="WC, theorems, lemmas and remarks",
        title="What WC states beside its figures",
        make=stated,
        seconds=3.0,
    ),
)
"""What the catalogue lists."""
