"""WC's figures: errors on the worst-case data set, and on simulated samples.

Source: WC sections IV-C and IV-D, with ERRATA 5 for the optimal error. What the paper leaves open
is in `count_collections`, and the collection of figure 1: the geometric one, M = 6. All errors are
drawn on a logarithmic axis, which the paper has in figure 3 alone: they lie far apart.
AKMV's threshold is chosen by permute-and-flip, and by the exponential mechanism as printed.
Ours in the same axes: Foresight, tuned on other sets but judged on these collections among others
(docs/how-to/own-mechanism.md), and Auto with its usual prior. No worst-case error of theirs is
proven; figure 1 has the largest of their errors on some data sets that are hard for them, which is
at most their worst (`hard_sets`).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from hexveil import theory
from hexveil.base.arrays import Floats, Ints
from hexveil.mechanisms import AKMV, Auto, Baseline, CellMechanism, OptimalClipping
from hexveil.mechanisms.priors import Uniform, ValueDistribution
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.single_cell import CellPlan, study_cell
from hexveil_research.mechanisms.foresight import Foresight
from hexveil_research.papers.exponential_mechanism import PRINTED, ExponentialNoise, PrintedChoice
from hexveil_research.papers.study import CELL_LOSS, Claim, Outcome, Panel, Setting, Study, line
from hexveil_research.papers.wc import clipping_claims, curve_claims, linear_program, thresholds
from hexveil_research.papers.wc.count_collections import (
    ENDS,
    EPSILONS,
    ProjectedNormal,
    ThresholdCurve,
    exactly,
    extreme,
    geometric,
    simulated,
)

Curves = dict[str, ThresholdCurve]

Usual = tuple[tuple[str, Callable[[float, float], ValueDistribution]], ...]

LAPLACE, OPTIMAL, HALVES = Baseline(), OptimalClipping(), AKMV()
FORESIGHT, AUTO = Foresight(), Auto()
PRINTED_AKMV = PrintedChoice(HALVES)
HARDEST = "hardest set tried"
NAMES = {
    LAPLACE.name: "plain Laplace",
    OPTIMAL.name: "OPT-worst-case",
    HALVES.name: "AKMV",
    PRINTED_AKMV.name: f"AKMV, {PRINTED}",
    FORESIGHT.name: "Foresight",
    AUTO.name: "Auto",
}


def optimal_error(counts: Ints, setting: Setting) -> Floats:
    """Return E^OPT at every ε: worst-case bias plus expected |noise| (Theorem III.1, ERRATA 5)."""
    clipped = (theory.optimal_clipping(counts, setting.span, e) for e in setting.losses(EPSILONS))
    return np.array([clipping.worst_case_error for clipping in clipped])


def axis(setting: Setting) -> Floats:
    """Return the values of ε."""
    return np.array(setting.losses(EPSILONS), dtype=float)


def akmv_error(
    counts: Ints, setting: Setting, choice: type[SimulatedNoise] = SimulatedNoise
) -> ThresholdCurve:
    """Return E_AKMV on the data set of samples U, at every ε: section IV-C's estimate of it.

    T is chosen by permute-and-flip, or by another noise's choice.
    """
    generator = np.random.default_rng([setting.seed, 2])
    # Where all samples are U, a user's sum is U m.
    reach, total = (setting.span * counts).astype(np.float64), counts.sum()
    highest = np.full(counts.size, float(setting.shown_bounds[1]))
    estimates = []
    for epsilon in setting.losses(EPSILONS):
        cell = study_cell(counts, setting.shown_bounds)
        allocation = HALVES.allocate_cell(cell, Fraction(epsilon))
        noise = choice(generator, max(2, setting.trials))
        outputs = CellPlan(allocation).outputs(cell.sums(highest), noise)
        top = allocation.range_sum.clipping.ends(outputs)[1] * float(cell.quantum)
        clipped_off = np.maximum(reach - top[:, None], 0).sum(axis=1)
        # Bias plus expected noise at each drawn threshold: the noise itself adds no scatter.
        per_release = (clipped_off + top / float(allocation.mean_epsilon)) / total
        estimates.append((per_release.mean(), per_release.std(ddof=1) / per_release.size**0.5))
    error, noise = np.array(estimates).T
    return ThresholdCurve(error, noise, axis(setting))


def hard_sets(counts: Ints, bounds: tuple[Fraction, Fraction]) -> Floats:
    """Return data sets that are hard for a prior or a private range, a row of user means each.

    All samples at U; and half of the samples at each bound, so that means have no middle: those of
    the largest users at U, those of the smallest, and those of every other user.
    """
    largest_first = np.argsort(-counts, kind="stable")
    orders = largest_first, largest_first[::-1], [*largest_first[::2], *largest_first[1::2]]
    high = [np.ones(counts.size, dtype=bool)]
    for order in orders:
        before = np.cumsum(counts[order]) - counts[order]
        high.append(np.zeros(counts.size, dtype=bool))
        high[-1][order] = 2 * before < counts.sum()
    return np.where(high, float(bounds[1]), float(bounds[0]))


def hardest(mechanisms: list[CellMechanism], setting: Setting, counts: Ints) -> Curves:
    """Return each mechanism's largest mean absolute error over `hard_sets`, at every ε."""
    found: Curves = {}
    sets = hard_sets(counts, setting.shown_bounds)
    for number, means in enumerate(sets):
        tell = partial(_tell_part, setting, number, len(sets))
        for name, curve in simulated(
            mechanisms, setting, tell, counts=counts, user_means=means
        ).items():
            found[name] = found[name].larger(curve) if name in found else curve
    return found


def worst_case(setting: Setting) -> Outcome:
    """Return WC figure 1: errors on the data set with all samples at U, or a worse one for ours."""
    counts = geometric() if setting.data is None else setting.data.counts
    x = axis(setting)
    optimal, akmv = exactly(optimal_error(counts, setting), x), akmv_error(counts, setting)
    ours = hardest([FORESIGHT, AUTO], setting, counts)
    compared: list[CellMechanism] = [LAPLACE, OPTIMAL, HALVES, FORESIGHT, AUTO]
    means = np.full(counts.size, float(setting.shown_bounds[1]))
    real = simulated(compared, setting, setting.tell, counts=counts, user_means=means)
    lines = (
        line("optimal clipping, E", x, optimal.error),
        akmv.line("AKMV, E"),
        akmv_error(counts, setting, ExponentialNoise).line(f"AKMV, E, {PRINTED}"),
        *(ours[name].line(f"{NAMES[name]}, {HARDEST}", "ours") for name in ours),
        line("the constant U/2", x, np.full(x.size, setting.span / 2), whose="reference"),
    )
    title = f"WC figure 1: worst case, {collected(setting, 'geometric collection, M = 6')}"
    label = f"bias + expected |noise|, or mean |error|, {setting.unit}"
    panel = Panel(title, CELL_LOSS, label, lines, log_y=True, ends=ENDS)
    if not setting.is_papers:
        return Outcome((panel,))
    return Outcome((panel,), curve_claims.worst_case_claims(optimal, akmv, real, ours))


def collected(setting: Setting, collection: str) -> str:
    """Return the counts of a figure in words: the paper's collection, or the setting's own."""
    return collection if setting.data is None else setting.data.name


def average_panel(title: str, setting: Setting, curves: Curves, optimal: Floats) -> Panel:
    """Return mean absolute errors over ε, beside the optimal worst-case error."""
    ours = {FORESIGHT.name, AUTO.name}
    lines = (
        *(
            curve.line(NAMES[name], "ours" if name in ours else "paper")
            for name, curve in curves.items()
        ),
        line("OPT-worst-case, E at worst", axis(setting), optimal, whose="reference"),
    )
    return Panel(title, CELL_LOSS, f"mean |error|, {setting.unit}", lines, log_y=True, ends=ENDS)


def average(setting: Setting, *, number: int, collection: str, cells: Usual) -> Outcome:
    """Return WC figure 2 or 3: errors on simulated samples, a panel for each kind of them."""
    own = setting.data
    counts = own.counts if own is not None else geometric() if number == 2 else extreme()
    optimal = optimal_error(counts, setting)
    compared: list[CellMechanism] = [LAPLACE, OPTIMAL, HALVES, PRINTED_AKMV, FORESIGHT, AUTO]
    panels: list[Panel] = []
    claims: list[Claim] = []
    for index, (kind, source) in enumerate(value_sources(setting, cells)):
        tell = partial(_tell_part, setting, index, len(cells))
        curves = simulated(compared, setting, tell, counts=counts, **source)
        title = f"WC figure {number}: {collected(setting, collection)}, {kind}"
        panels.append(average_panel(title, setting, curves, optimal))
        if not setting.is_papers:
            continue
        claims += curve_claims.average_claims(f"Figure {number}", kind, curves, optimal)
    return Outcome(tuple(panels), tuple(claims))


def value_sources(setting: Setting, usual: Usual) -> list[tuple[str, dict[str, Any]]]:
    """Return the kinds of samples of a figure: the setting's own values, or the paper's."""
    means = None if setting.data is None else setting.data.user_means
    if setting.values is not None:
        return [(f"{setting.values}", {"values": setting.values})]
    if means is not None:
        return [("their own values", {"user_means": means})]
    lower, span = float(setting.shown_bounds[0]), setting.span
    return [(kind, {"values": values(lower, span)}) for kind, values in usual]


def _projected(lower: float, span: float, sd: float) -> ProjectedNormal:
    return ProjectedNormal(lower + span / 2, sd, lower, lower + span)


def _tell_part(setting: Setting, finished: int, total: int, share: float) -> None:
    setting.tell((finished + share) / total)


def stated(setting: Setting) -> Outcome:
    """Return the claims of WC beside its figures."""
    on_clipping = (*clipping_claims.claims(), *linear_program.claims(setting.seed))
    setting.tell(0.5)
    return Outcome(claims=(*on_clipping, *thresholds.claims(setting)))


_UNIFORM: Usual = (("uniform samples", lambda _, __: Uniform()),)
# Both readings of the paper's N(U/2, U/4): `count_collections` says why.
_NORMAL: Usual = (
    (
        "normal samples, variance U/4",
        lambda lower, span: _projected(lower, span, (span / 4) ** 0.5),
    ),
    (
        "normal samples, standard deviation U/4",
        lambda lower, span: _projected(lower, span, span / 4),
    ),
)

STUDIES: tuple[Study, ...] = (
    Study(
        name="wc:fig1",
        place="WC, figure 1",
        title="Error on the worst-case data set",
        make=worst_case,
        seconds=9.0,
        altered=True,
    ),
    Study(
        name="wc:fig2",
        place="WC, figure 2",
        title="Average error, geometric collection, uniform samples",
        make=partial(average, number=2, collection="geometric collection", cells=_UNIFORM),
        seconds=4.0,
        altered=True,
        values=True,
    ),
    Study(
        name="wc:fig3",
        place="WC, figure 3",
        title="Average error, extreme-valued collection, projected normal samples",
        make=partial(average, number=3, collection="extreme-valued collection", cells=_NORMAL),
        seconds=7.0,
        altered=True,
        values=True,
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
