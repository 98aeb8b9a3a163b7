"""Claims of WC on its figures, judged on curves that were simulated here.

Source: WC section IV-C and IV-D, and its abstract. Words are made numbers: "much lower" is at most
half, "a large range" over half of the values of ε, "quite similar" within a factor of 1.5, and
"errs less" at every ε. Verdicts are those of `simultaneous_tests`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hexveil.base.arrays import Bools, Floats
from hexveil.mechanisms import AKMV, Auto, Baseline, OptimalClipping
from hexveil_research.mechanisms.foresight import Foresight
from hexveil_research.papers.simultaneous_tests import (
    Evidence,
    at_least,
    everywhere,
    judge,
    on_average,
    opposite,
    supported_or_refuted,
)
from hexveil_research.papers.study import Claim
from hexveil_research.papers.wc.count_collections import ThresholdCurve, X, exactly

Curves = dict[str, ThresholdCurve]

MUCH = 0.5
SIMILAR = 1.5
TOLERANCE = 0.05
"""Part that an error may be above a bound it may reach; noise cannot tell less."""
LAPLACE, OPTIMAL, HALVES = (mechanism.name for mechanism in (Baseline(), OptimalClipping(), AKMV()))
OURS = tuple(mechanism.name for mechanism in (Foresight(), Auto()))


def worst_case_claims(
    optimal: ThresholdCurve, akmv: ThresholdCurve, real: Curves, hardest: Curves
) -> tuple[Claim, ...]:
    """Return the claims about figure 1.

    Parameters
    ----------
    optimal, akmv : Curve
        E^OPT, and the estimate of E_AKMV.
    real : dict of str to Curve
        Mean absolute errors on the same data set, by the mechanism's name.
    hardest : dict of str to Curve
        Ours on the hardest of several data sets.
    """
    ratio = optimal.error / akmv.error
    much = optimal.below(akmv, MUCH)
    claim = Claim(
        "WC",
        "Section IV-C, figure 1",
        "On the worst-case data set the optimal clipping errs much less than AKMV, for a large "
        "range of ε",
        f"E over AKMV's is {ratio.min():.2f} to {ratio.max():.2f}, at most {MUCH} at "
        f"{(ratio <= MUCH).sum()} of {ratio.size} ε, and below it at "
        f"{optimal.below(akmv).positive.sum()}",
        None,
    )
    return (
        judge(claim, at_least(ratio.size // 2 + 1, much)),
        _falls("the optimal worst-case error", optimal),
        _falls("the estimate of AKMV's error on the worst-case data set", akmv),
        _bounded(optimal, real[OPTIMAL]),
        *_ours("Section IV-C, figure 1", "all samples U, the worst case of clipping alone", real),
        *(_above_the_worst_case(name, hardest[name], optimal) for name in OURS),
    )


def _above_the_worst_case(name: str, ours: ThresholdCurve, optimal: ThresholdCurve) -> Claim:
    """Return that a choice by a prior has a larger worst-case error than the optimal clipping."""
    above = optimal.below(ours)
    claim = Claim(
        "WC",
        "Section IV-C, figure 1",
        f"For most ε {name} errs more on the hardest of four data sets than optimal clipping does "
        "at worst",
        f"{_span(ours.error / optimal.error)} times as much; more beyond noise at "
        f"{above.positive.sum()} of {above.estimate.size} ε",
        None,
        "ours",
    )
    return judge(claim, at_least(above.estimate.size // 2 + 1, above))


def _falls(subject: str, curve: ThresholdCurve) -> Claim:
    """Return the claim that a curve falls with ε."""
    falls = curve.falls()
    claim = Claim(
        "WC",
        "Section IV-C, figure 1",
        f"As ε grows {subject} decreases",
        f"from {curve.error[0]:.3g} to {curve.error[-1]:.3g} km/h; beyond noise it falls at "
        f"{falls.positive.sum()} and rises at {_count_and_places(falls.negative)} of "
        f"{falls.estimate.size} steps of ε",
        None,
    )
    return judge(claim, everywhere(falls))


def _bounded(optimal: ThresholdCurve, real: ThresholdCurve) -> Claim:
    """Return the claim that E of eq. (3) bounds the mean absolute error."""
    claim = Claim(
        "WC",
        "Section II-D, eq. (3)",
        "Worst-case bias plus expected |noise| is an upper bound on the mean |error|",
        f"optimal clipping, all samples U: mean |error| {_span(real.error / optimal.error)} of E, "
        f"judged to within {TOLERANCE:.0%}",
        None,
    )
    within = everywhere(real.below(optimal, 1 + TOLERANCE))
    return judge(claim, supported_or_refuted(within, at_least(1, optimal.below(real))))


def average_claims(place: str, kind: str, curves: Curves, optimal: Floats) -> tuple[Claim, ...]:
    """Return the claims about figures 2 and 3.

    Parameters
    ----------
    place : str
        As "Figure 2".
    kind : str
        Of samples, for the reader.
    curves : dict of str to Curve
        Mean absolute errors by the mechanism's name.
    optimal : ndarray of float, shape (n_epsilons,)
        E^OPT.
    """
    laplace, clipped, akmv = curves[LAPLACE], curves[OPTIMAL], curves[HALVES]
    place = f"Section IV-D, {place.lower()}"
    ratio = akmv.error / laplace.error
    at_worst, worse, better = exactly(optimal).below(akmv), laplace.below(akmv), clipped.below(akmv)
    similar = akmv.below(laplace, SIMILAR), laplace.below(akmv, SIMILAR)
    return (
        _claim(
            place,
            "The worst-case error of optimal clipping is significantly lower than even AKMV's "
            f"average error ({kind})",
            f"E is {_span(optimal / akmv.error)} of it, lower beyond noise at "
            f"{at_worst.positive.sum()} of {X.size} ε",
            everywhere(at_worst),
        ),
        _claim(
            place,
            f"AKMV's average error is quite similar to that of plain Laplace ({kind})",
            f"{_span(ratio)} times as large",
            everywhere(*similar),
        ),
        _claim(
            place,
            f"AKMV's average error is a little worse than that of plain Laplace ({kind})",
            f"{_mean(ratio):.2f} times as large on (geometric) average over ε; beyond noise it is "
            f"larger at {worse.positive.sum()} of {X.size} ε and smaller at "
            f"{_count_and_places(worse.negative)}",
            everywhere(worse),
        ),
        _claim(
            f"Abstract; {place}",
            f"Optimal clipping errs less than AKMV on average, too, for every ε ({kind})",
            f"its mean |error| is {_span(clipped.error / akmv.error)} of AKMV's, lower beyond "
            f"noise at {better.positive.sum()} of {X.size} ε and higher at "
            f"{_count_and_places(better.negative)}",
            everywhere(better),
        ),
        _not_monotonic(place, kind, curves),
        *_ours(place, kind, curves),
    )


def _claim(place: str, says: str, measured: str, evidence: Evidence) -> Claim:
    return judge(Claim("WC", place, says, measured, None), evidence)


def _not_monotonic(place: str, kind: str, curves: Curves) -> Claim:
    """Return the claim that jumps of T make average errors rise with ε."""
    clipped, akmv = curves[OPTIMAL].falls(), curves[HALVES].falls()
    claim = Claim(
        "WC",
        place,
        "As its threshold T jumps at some ε, the average error of optimal clipping is not "
        f"monotonic in ε ({kind})",
        f"beyond noise it rises at {_count_and_places(clipped.negative)} of "
        f"{clipped.estimate.size} steps of ε; AKMV's at {_count_and_places(akmv.negative)}",
        None,
    )
    return judge(claim, opposite(everywhere(clipped)))


def _ours(place: str, kind: str, curves: Curves) -> list[Claim]:
    """Return how our mechanisms do against the best of the paper's three, in hindsight."""
    rivals = [curves[name] for name in (LAPLACE, OPTIMAL, HALVES)]
    return [_our(place, kind, name, curves[name], rivals) for name in OURS]


def _our(
    place: str, kind: str, name: str, ours: ThresholdCurve, rivals: Sequence[ThresholdCurve]
) -> Claim:
    ratio = ours.error / np.min([rival.error for rival in rivals], axis=0)
    margins = [ours.log_below(rival) for rival in rivals]
    smaller = np.all([margin.positive for margin in margins], axis=0)
    larger = np.any([margin.negative for margin in margins], axis=0)
    claim = Claim(
        "WC",
        place,
        f"{name} errs less, on average over ε, than the best at each ε of the paper's three "
        f"mechanisms ({kind})",
        f"its mean |error| is {_span(ratio)} of theirs, {_mean(ratio):.2f} on (geometric) "
        f"average; smaller beyond noise at {smaller.sum()} of {ratio.size} ε, larger at "
        f"{larger.sum()}",
        None,
        "ours",
    )
    return judge(claim, on_average(*margins))


def _mean(ratio: Floats) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(ratio).mean()))


def _span(values: Floats) -> str:
    """Return smallest and largest."""
    return f"{values.min():.2f} to {values.max():.2f}"


def _count_and_places(flags: Bools) -> str:
    """Return how many, and after which ε the first few are."""
    places = X[: flags.size][flags][:4]
    return f"{flags.sum()}" + (
        f" (ε = {', '.join(f'{x:g}' for x in places)})" if places.size else ""
    )
