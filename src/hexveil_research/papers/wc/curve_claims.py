"""Claims of WC on its figures, judged on curves that were simulated here.

Source: WC section IV-C and IV-D, and its abstract. A difference counts if it is beyond three
standard errors of the simulation. Words are made numbers: "much lower" is at most half, "a large
range" over half of the values of ε, "quite similar" within a factor of 1.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms import AKMV, Auto, Baseline, Foresight, OptimalClipping
from hexveil_research.papers.study import Claim
from hexveil_research.papers.wc.count_collections import SURE, ThresholdCurve, X, exactly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Curves = dict[str, ThresholdCurve]

MUCH = 0.5
SIMILAR = 1.5
LAPLACE, OPTIMAL, HALVES = (mechanism.name for mechanism in (Baseline(), OptimalClipping(), AKMV()))
OURS = tuple(mechanism.name for mechanism in (Foresight(), Auto()))


def worst_case_claims(
    optimal: ThresholdCurve, akmv: ThresholdCurve, real: Curves
) -> tuple[Claim, ...]:
    """Return the claims about figure 1.

    Parameters
    ----------
    optimal, akmv : Curve
        E^OPT, and the estimate of E_AKMV.
    real : dict of str to Curve
        Mean absolute errors on the same data set, by the mechanism's name.
    """
    ratio = optimal.error / akmv.error
    return (
        Claim(
            "WC",
            "Section IV-C, figure 1",
            "On the worst-case data set the optimal clipping errs much less than AKMV, for a large "
            "range of ε",
            f"E over AKMV's is {ratio.min():.2f} to {ratio.max():.2f}, at most {MUCH} at "
            f"{(ratio <= MUCH).sum()} of {ratio.size} ε, and below it at "
            f"{akmv.above(optimal).sum()}",
            bool((ratio <= MUCH).mean() > 1 / 2),
        ),
        _falls("the optimal worst-case error", optimal),
        _falls("the estimate of AKMV's error on the worst-case data set", akmv),
        _bounded(optimal, real[OPTIMAL]),
        *_ours("Section IV-C, figure 1", "all samples U, the worst case of clipping alone", real),
    )


def _falls(subject: str, curve: ThresholdCurve) -> Claim:
    """Return the claim that a curve falls with ε."""
    rises = curve.rises()
    return Claim(
        "WC",
        "Section IV-C, figure 1",
        f"As ε grows {subject} decreases",
        f"from {curve.error[0]:.3g} to {curve.error[-1]:.3g} km/h; it rises at "
        f"{_count_and_places(rises)} of {rises.size} steps of ε",
        not rises.any(),
    )


def _bounded(optimal: ThresholdCurve, real: ThresholdCurve) -> Claim:
    """Return the claim that E of eq. (3) bounds the mean absolute error."""
    return Claim(
        "WC",
        "Section II-D, eq. (3)",
        "Worst-case bias plus expected |noise| is an upper bound on the mean |error|",
        f"optimal clipping, all samples U: mean |error| {_span(real.error / optimal.error)} of E",
        not real.above(optimal).any(),
    )


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
    below, worse, better = akmv.above(exactly(optimal)), akmv.above(laplace), laplace.above(akmv)
    return (
        Claim(
            "WC",
            place,
            "The worst-case error of optimal clipping is significantly lower than even AKMV's "
            f"average error ({kind})",
            f"E is {_span(optimal / akmv.error)} of it, lower beyond noise at {below.sum()} of "
            f"{below.size} ε",
            _never_above(exactly(optimal), akmv),
        ),
        Claim(
            "WC",
            place,
            f"AKMV's average error is quite similar to that of plain Laplace ({kind})",
            f"{_span(ratio)} times as large",
            bool((ratio < SIMILAR).all() and (ratio > 1 / SIMILAR).all()),
        ),
        Claim(
            "WC",
            place,
            f"AKMV's average error is a little worse than that of plain Laplace ({kind})",
            f"{_mean(ratio):.2f} times as large on (geometric) average over ε; beyond noise it is "
            f"larger at {worse.sum()} of {worse.size} ε and smaller at {_count_and_places(better)}",
            _never_above(laplace, akmv),
        ),
        Claim(
            "WC",
            f"Abstract; {place}",
            f"Optimal clipping errs less than AKMV on average, too, for every ε ({kind})",
            f"its mean |error| is {_span(clipped.error / akmv.error)} of AKMV's, lower beyond "
            f"noise at {akmv.above(clipped).sum()} of {X.size} ε",
            _never_above(clipped, akmv),
        ),
        _not_monotonic(place, kind, curves),
        *_ours(place, kind, curves),
    )


def _not_monotonic(place: str, kind: str, curves: Curves) -> Claim:
    """Return the claim that jumps of T make average errors rise with ε."""
    clipped, akmv = curves[OPTIMAL].rises(), curves[HALVES].rises()
    return Claim(
        "WC",
        place,
        "As its threshold T jumps at some ε, the average error of optimal clipping is not "
        f"monotonic in ε ({kind})",
        f"it rises at {_count_and_places(clipped)} of {clipped.size} steps of ε; AKMV's at "
        f"{_count_and_places(akmv)}",
        bool(clipped.any()),
    )


def _ours(place: str, kind: str, curves: Curves) -> list[Claim]:
    """Return how our mechanisms do against the best of the paper's three, in hindsight."""
    best = _best([curves[name] for name in (LAPLACE, OPTIMAL, HALVES)])
    return [_our(place, kind, name, curves[name], best) for name in OURS]


def _best(curves: Sequence[ThresholdCurve]) -> ThresholdCurve:
    """Return the least error at each ε."""
    error = np.array([curve.error for curve in curves])
    noise = np.array([curve.standard_error for curve in curves])
    # The least of three noisy errors is biased low, in favour of the paper's mechanisms.
    lowest = error.argmin(axis=0)[None]
    return ThresholdCurve(
        np.take_along_axis(error, lowest, axis=0)[0], np.take_along_axis(noise, lowest, axis=0)[0]
    )


def _our(place: str, kind: str, name: str, ours: ThresholdCurve, best: ThresholdCurve) -> Claim:
    ratio = ours.error / best.error
    return Claim(
        "WC",
        place,
        f"{name} errs less, on average over ε, than the best at each ε of the paper's three "
        f"mechanisms ({kind})",
        f"its mean |error| is {_span(ratio)} of theirs, {_mean(ratio):.2f} on (geometric) "
        f"average; smaller beyond noise at {best.above(ours).sum()} of {ratio.size} ε, larger at "
        f"{ours.above(best).sum()}",
        _mean(ratio) < 1,
        "ours",
    )


def _mean(ratio: Floats) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(ratio).mean()))


def _never_above(low: ThresholdCurve, high: ThresholdCurve) -> bool:
    """Return whether a curve lies nowhere above another, and below it on average, beyond noise.

    The average is of the logarithm of their ratio, over ε.
    """
    noise = np.hypot(low.standard_error / low.error, high.standard_error / high.error)
    # Errors of the logarithms are relative errors; those of a mean add in quadrature.
    reach = SURE * float(np.sqrt((noise**2).sum())) / noise.size
    mean_log_ratio = float(np.log(high.error / low.error).mean())
    return mean_log_ratio > reach and not low.above(high).any()


def _span(values: Floats) -> str:
    """Return smallest and largest."""
    return f"{values.min():.2f} to {values.max():.2f}"


def _count_and_places(flags: Flags) -> str:
    """Return how many, and after which ε the first few are."""
    places = X[: flags.size][flags][:4]
    return f"{flags.sum()}" + (
        f" (ε = {', '.join(f'{x:g}' for x in places)})" if places.size else ""
    )
