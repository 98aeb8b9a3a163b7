"""Claims of IOT on its figures 1 to 4, judged on curves that were simulated here.

Source: IOT sections III-C and IV, with ERRATA 7. The records of the published cell are not public:
where the paper speaks of them, the claim is tried on cells like it.
A difference counts if it is beyond three standard errors of the simulation and of the draw of
cells. Words are made numbers by one factor: "similar", "little difference" is an error, averaged
over ε, within 1.25 times the other; "much better" is better at every ε and beyond that factor.
How much of the variance lies between the users of the published cell is not known. Claims about it
are tried at three parts; where the factor is beyond 1.25 at one part and within it at another, the
claim cannot be decided without the records, and counts as not tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil import theory
from hexveil.mechanisms import ArrayAveraging
from hexveil_research.papers import itms
from hexveil_research.papers.iot.setting import SURE, Curve, X
from hexveil_research.papers.study import Claim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hexveil_research.papers.iot.setting import Curves
    from hexveil_research.papers.study import Reading

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Pairs = Mapping[str, tuple[Curve, Curve]]

SIMILAR = 1.25
SAME = 1e-9
AS_MUCH = 0.01
"""Part by which an error averaged over ε may be larger and still count as no more."""
FIGURE_1 = "Section IV-B, figure 1"
LIKE = "cells like ITMS"


def published_facts(found: Sequence[itms.Facts]) -> Claim:
    """Return that one cell can have all published numbers, and how many were found here."""
    want, right = itms.PUBLISHED, sum(one == itms.PUBLISHED for one in found)
    first = found[0]
    return Claim(
        "IOT",
        "Section IV-B",
        f"L = {want.users}, m* = {want.most}, m_* = {want.fewest}, {want.samples} samples, median "
        f"{want.median}; the cap of eq. (9) makes {want.wrapped} arrays under WRAPAROUND and "
        f"{want.fitted} under BESTFIT",
        f"counts made by search have all of it in {right} of {len(found)} cells (the first: "
        f"{first.users}, {first.most}, {first.fewest}, {first.samples}, {first.median}, "
        f"{first.wrapped}, {first.fitted})",
        right == len(found),
    )


def noise_claims(cells: Sequence[Ints]) -> tuple[Claim, Claim]:
    """Return whether BESTFIT halves the noise of ARRAY-AVERAGING: as printed, and the condition.

    Parameters
    ----------
    cells : sequence of ndarray of int64
        Counts of each cell.
    """
    printed, needed = [], []
    for counts in cells:
        wrapped, fitted = (
            ArrayAveraging(rule).plan(counts, bounds=itms.BOUNDS, epsilon=1)
            for rule in ("wrap_around", "best_fit")
        )
        arrays = theory.wrap_around(counts, theory.median_cap(counts)).n_arrays
        printed.append(wrapped.sensitivity / (2 * itms.SPAN / arrays))
        needed.append(fitted.sensitivity / wrapped.sensitivity)
    exact, ratio = np.array(printed), np.array(needed)
    return (
        Claim(
            "IOT",
            "Section III-C",
            "Under WRAPAROUND ARRAY-AVERAGING has the sensitivity 2U/K, so that BESTFIT lowers "
            "the noise's standard deviation by a factor of 2",
            f"on {LIKE} the largest move by one user is {_span(exact)} of 2U/K; the noise that "
            f"BESTFIT needs is {_span(ratio)} of what WRAPAROUND needs",
            bool((np.abs(exact - 1) < SAME).all() and (ratio < SIMILAR / 2).all()),
        ),
        Claim(
            "IOT",
            "Section III-C",
            "U/K is enough under WRAPAROUND, as a user has at most an array's length of samples, "
            "so that BESTFIT hardly lowers the noise (ERRATA 7)",
            f"the largest move by one user is {_span(2 * exact)} of U/K, the noise under BESTFIT "
            f"{_span(ratio)} of it",
            bool((2 * exact <= 1 + SAME).all() and (ratio > 1 / SIMILAR).all()),
            "corrected",
        ),
    )  # fmt: skip


def grouping_claims(
    curves: Pairs, printed: Curve, other: Mapping[float, Pairs]
) -> tuple[Claim, ...]:
    """Return the claims about figure 1.

    Parameters
    ----------
    curves : mapping of str to pair of Curve
        Errors under WRAPAROUND and BESTFIT, by algorithm.
    printed : Curve
        ARRAY-AVERAGING under WRAPAROUND with the noise 2U/K.
    other : mapping of float to mapping
        The same as `curves`, where another part of the variance lies between users.
    """
    wrapped, fitted = curves["ARRAY-AVERAGING"]
    says = "ARRAY-AVERAGING errs about as much under both grouping strategies"
    return (
        _similar(f"{says}, with the printed noise 2U/K under WRAPAROUND", printed, fitted),
        _similar(
            f"{says}, with the noise that WRAPAROUND needs (ERRATA 7)", wrapped, fitted, "corrected"
        ),
        *(_much_better(name, curves, other) for name in ("LEVY", "FIXEDQUANTILE")),
    )


def _similar(says: str, wrapped: Curve, fitted: Curve, reading: Reading = "as printed") -> Claim:
    ratio = wrapped.level / fitted.level
    return Claim(
        "IOT",
        FIGURE_1,
        says,
        f"on {LIKE} WRAPAROUND errs {ratio:.2f} times as much, averaged over ε "
        f"({_span(wrapped.mean / fitted.mean)} over ε); similar is within {SIMILAR}",
        1 / SIMILAR <= ratio <= SIMILAR,
        reading,
    )


def _much_better(name: str, curves: Pairs, other: Mapping[float, Pairs]) -> Claim:
    """Return that an algorithm errs much less under BESTFIT."""
    tried = {itms.SHARE: curves[name], **{share: one[name] for share, one in other.items()}}
    wrapped, fitted = curves[name]
    ratios = {share: a.level / b.level for share, (a, b) in tried.items()}
    below = fitted.below(wrapped)
    return Claim(
        "IOT",
        FIGURE_1,
        f"{name} errs much less under BESTFIT than under WRAPAROUND",
        f"on {LIKE} WRAPAROUND errs {_span(wrapped.mean / fitted.mean)} times as much over ε, more "
        f"beyond noise at {below.sum()} of {X.size}; averaged over ε {_by_share(ratios)}; much is "
        f"above {SIMILAR}",
        _beyond(ratios) if below.all() else False,
    )


def baseline_claim(baseline: Curve, scales: Sequence[float]) -> Claim:
    """Return that BASELINE's mean absolute error is Δ/ε.

    Parameters
    ----------
    baseline : Curve
    scales : sequence of float
        Δ of each cell.
    """
    stated = np.array(scales)[:, None] / X
    apart = np.abs(baseline.error - stated) / np.maximum(baseline.standard_error, 1e-12)
    return Claim(
        "IOT",
        "Section IV-A",
        "The mean |error| of BASELINE is Δ/ε, Δ = U m*/N",
        f"simulated it is {_span(baseline.mean / stated.mean(axis=0))} of it; at most "
        f"{apart.max():.1f} standard errors away in {apart.size} simulations",
        # Of 160 normal deviations the largest is above 4.5 once in a thousand times.
        bool(apart.max() < 1.5 * SURE),
    )


def clipping_claim(
    place: str, where: str, papers: Curves, other: Mapping[float, Curves] | None = None
) -> Claim:
    """Return that every clipping algorithm errs much less than BASELINE.

    Parameters
    ----------
    place, where : str
    papers : dict of str to Curve
        BASELINE and the others.
    other : mapping of float to dict, optional
        The same where another part of the variance lies between users.
    """
    tried = {itms.SHARE: papers, **(other or {})}
    ratios = {share: min(_over_baseline(one).values()) for share, one in tried.items()}
    here = _over_baseline(papers)
    closest = min(here, key=lambda name: here[name])
    below = np.array([one.below(papers["BASELINE"]) for one in _clipped(papers).values()])
    more = f"; the smallest ratio is {_by_share(ratios)}" if other else ""
    return Claim(
        "IOT",
        place,
        f"BASELINE errs much more than each algorithm that clips ({where})",
        f"averaged over ε it errs {here[closest]:.2f} ({closest}) to {max(here.values()):.2f} "
        f"times as much; they err less beyond noise at {below.sum()} of {below.size} ε{more}; "
        f"much is above {SIMILAR}",
        _beyond(ratios) if below.all() else False,
    )


def _clipped(papers: Curves) -> Curves:
    return {name: one for name, one in papers.items() if name != "BASELINE"}


def _over_baseline(papers: Curves) -> dict[str, float]:
    """Return how many times as much BASELINE errs as each of the others."""
    return {name: papers["BASELINE"].level / one.level for name, one in _clipped(papers).items()}


def little_difference(papers: Curves, other: Mapping[float, Curves]) -> Claim:
    """Return that the clipping algorithms err about as much as each other on the real cell."""
    ratios = {}
    for share, curves in {itms.SHARE: papers, **other}.items():
        levels = [one.level for one in _clipped(curves).values()]
        ratios[share] = max(levels) / min(levels)
    beyond = _beyond(ratios)
    levels_here = {name: one.level for name, one in _clipped(papers).items()}
    each = ", ".join(f"{name} {level:.3f}" for name, level in levels_here.items())
    return Claim(
        "IOT",
        "Section IV-B, figure 2",
        "There is little difference between the algorithms that clip",
        f"on {LIKE}, km/h averaged over ε: {each}; the largest over the smallest is "
        f"{_by_share(ratios)}; little is within {SIMILAR}",
        None if beyond is None else not beyond,
    )


def order_claim(place: str, says: str, papers: Curves, order: tuple[str, ...]) -> Claim:
    """Return that the last of `order` errs more than those before it and less than all others.

    Parameters
    ----------
    place, says : str
    papers : dict of str to Curve
    order : tuple of str
        The first algorithms in the order claimed, the best first.
    """
    name = order[-1]
    ahead = {one: papers[one].below(papers[name]) for one in order[:-1]}
    rest = {one: papers[name].below(papers[one]) for one in papers if one not in order}
    level = papers[name].level
    parts = [f"{one} {papers[one].level / level:.2f} ({flags.sum()})" for one, flags in
             {**ahead, **rest}.items()]  # fmt: skip
    return Claim(
        "IOT",
        place,
        says,
        f"mean |error| averaged over ε in parts of {name}'s {level:.3f} km/h, and at how many of "
        f"{X.size} ε the order is as claimed beyond noise: {', '.join(parts)}",
        all(bool(flags.all()) for flags in (*ahead.values(), *rest.values())),
    )


def ours_claims(place: str, where: str, papers: Curves, ours: Curves) -> list[Claim]:
    """Return how our mechanisms do against the best of the paper's at each ε, in hindsight."""
    names = list(papers)
    best = np.argmin([papers[name].mean for name in names], axis=0)
    at = np.arange(X.size)
    error, noise = (
        np.array([getattr(papers[name], part) for name in names])[best, :, at].T
        for part in ("error", "standard_error")
    )
    rival = Curve(error, noise)
    return [_no_more(place, name, where, one, rival) for name, one in ours.items()]


def _no_more(place: str, name: str, where: str, ours: Curve, rival: Curve) -> Claim:
    """Return the claim that ours errs no more than the best choice in hindsight at each ε."""
    worse = rival.below(ours)
    return Claim(
        "IOT",
        place,
        f"{name} errs no more than the best of the paper's algorithms at each ε ({where})",
        f"its mean |error| is {_span(ours.mean / rival.mean)} of theirs, averaged over ε "
        f"{ours.level / rival.level:.2f}; smaller beyond noise at {ours.below(rival).sum()} of "
        f"{X.size} ε, larger at {worse.sum()}",
        bool(not worse.any() and ours.level <= rival.level * (1 + AS_MUCH)),
        "ours",
    )


def _span(values: Floats) -> str:
    """Return smallest and largest."""
    return f"{values.min():.2f} to {values.max():.2f}"


def _beyond(ratios: Mapping[float, float]) -> bool | None:
    """Return whether a ratio is beyond "similar" at all parts, or None if at some of them only."""
    verdicts = {ratio > SIMILAR for ratio in ratios.values()}
    return verdicts.pop() if len(verdicts) == 1 else None


def _by_share(ratios: Mapping[float, float]) -> str:
    """Return a ratio, and its value if another part of the variance lies between users."""
    rest = ", ".join(f"{ratios[share]:.2f} if {share:g}" for share in ratios if share != itms.SHARE)
    here = f"{ratios[itms.SHARE]:.2f}"
    text = f"{here} ({rest} of the variance lies between users)" if rest else here
    undecided = ", so that the records themselves would have to decide"
    return text + undecided if _beyond(ratios) is None else text
