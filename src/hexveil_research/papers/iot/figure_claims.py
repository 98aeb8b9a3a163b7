"""Claims of IOT on its figures 1 to 4, judged on curves that were simulated here.

Source: IOT sections III-C and IV, with ERRATA 7. The records of the published cell are not public:
where the paper speaks of them, the claim is tried on cells like it.
Verdicts are those of `simultaneous_tests`; the draw of cells counts as noise. Words are made
numbers by one factor: "similar", "little difference" is an error, averaged over ε, within 1.25
times the other; "much better" is better at every ε and beyond that factor.
How much of the variance lies between the users of the published cell is not known. Claims about it
are tried at three parts; where a claim holds at one part and fails at another, it cannot be decided
without the records, and counts as not tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from operator import attrgetter

import numpy as np

from hexveil import theory
from hexveil.base.arrays import Floats, Ints
from hexveil.mechanisms import ArrayAveraging
from hexveil_research.papers import itms
from hexveil_research.papers.iot.iot_cells import Curve, Curves, X
from hexveil_research.papers.simultaneous_tests import (
    Evidence,
    all_of,
    at_least,
    everywhere,
    judge,
    on_average,
    supported_or_refuted,
)
from hexveil_research.papers.study import Claim, Reading

Pairs = Mapping[str, tuple[Curve, Curve]]

SIMILAR = 1.25
SAME = 1e-9
AS_MUCH = 0.05
"""Part by which an error may be larger and still count as no more."""
BASELINE_WITHIN = 0.05
"""Part by which BASELINE's simulated error may differ from its formula."""
FIGURE_1 = "Section IV-B, figure 1"
LIKE = "cells like ITMS"


def published_facts(drawn_facts: Sequence[itms.Facts]) -> Claim:
    """Return that one cell can have all published numbers, and how many were found here."""
    published, n_matching = itms.PUBLISHED, sum(drawn == itms.PUBLISHED for drawn in drawn_facts)
    sample = drawn_facts[0]
    return Claim(
        "IOT",
        "Section IV-B",
        f"L = {published.users}, m* = {published.largest}, m_* = {published.smallest}, "
        f"{published.samples} samples, median {published.median}; the cap of eq. (9) makes "
        f"{published.wrapped} arrays under WRAPAROUND and {published.fitted} under BESTFIT",
        f"counts made by search have all of it in {n_matching} of {len(drawn_facts)} cells (the "
        f"first: {sample.users}, {sample.largest}, {sample.smallest}, {sample.samples}, "
        f"{sample.median}, {sample.wrapped}, {sample.fitted})",
        n_matching == len(drawn_facts),
        basis="by construction",
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
        # 1 if the printed sensitivity is reached, 1/2 if ERRATA 7 is right.
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
    curves: Pairs, printed: Curve, by_share: Mapping[float, Pairs]
) -> tuple[Claim, ...]:
    """Return the claims about figure 1.

    Parameters
    ----------
    curves : mapping of str to pair of Curve
        Errors under WRAPAROUND and BESTFIT, by algorithm.
    printed : Curve
        ARRAY-AVERAGING under WRAPAROUND with the noise 2U/K.
    by_share : mapping of float to mapping
        The same as `curves`, where another part of the variance lies between users.
    """
    wrapped, fitted = curves["ARRAY-AVERAGING"]
    says = "ARRAY-AVERAGING errs about as much under both grouping strategies"
    return (
        _similar(f"{says}, with the printed noise 2U/K under WRAPAROUND", printed, fitted),
        _similar(
            f"{says}, with the noise that WRAPAROUND needs (ERRATA 7)", wrapped, fitted, "corrected"
        ),
        *(_much_better(name, curves, by_share) for name in ("LEVY", "FIXEDQUANTILE")),
    )


def _similar(says: str, wrapped: Curve, fitted: Curve, reading: Reading = "as printed") -> Claim:
    ratio = wrapped.level / fitted.level
    claim = Claim(
        "IOT",
        FIGURE_1,
        says,
        f"on {LIKE} WRAPAROUND errs {ratio:.2f} times as much, averaged over ε "
        f"({_span(wrapped.mean / fitted.mean)} over ε); similar is within {SIMILAR}",
        None,
        reading,
        "other records",
    )
    return judge(claim, _within(wrapped, fitted))


def _within(one: Curve, other: Curve) -> Evidence:
    """Return the evidence for two errors, averaged over ε, being within the factor `SIMILAR`."""
    return all_of([on_average(one.below(other, SIMILAR)), on_average(other.below(one, SIMILAR))])


def _much_less(one: Curve, rival: Curve) -> Evidence:
    """Return the evidence for an error below another at every ε, and by `SIMILAR` on average."""
    much = one.below(rival, 1 / SIMILAR)
    return all_of([everywhere(one.below(rival)), on_average(much)])


def _much_better(name: str, curves: Pairs, by_share: Mapping[float, Pairs]) -> Claim:
    """Return that an algorithm errs much less under BESTFIT."""
    by_any_share = {
        itms.SHARE: curves[name],
        **{share: curve_pairs[name] for share, curve_pairs in by_share.items()},
    }
    wrapped, fitted = curves[name]
    ratios = {share: a.level / b.level for share, (a, b) in by_any_share.items()}
    evidence = {share: _much_less(b, a) for share, (a, b) in by_any_share.items()}
    below = fitted.below(wrapped).positive
    claim = Claim(
        "IOT",
        FIGURE_1,
        f"{name} errs much less under BESTFIT than under WRAPAROUND",
        f"on {LIKE} WRAPAROUND errs {_span(wrapped.mean / fitted.mean)} times as much over ε, more "
        f"beyond noise at {below.sum()} of {X.size}; averaged over ε {_by_share(ratios)}; much is "
        f"above {SIMILAR}",
        None,
        basis="other records",
    )
    return _judge_by_share(claim, evidence)


def baseline_claim(baseline: Curve, scales: Sequence[float]) -> Claim:
    """Return that BASELINE's mean absolute error is Δ/ε.

    Parameters
    ----------
    baseline : Curve
    scales : sequence of float
        Δ of each cell.
    """
    stated = Curve(np.array(scales)[:, None] / X, np.zeros((len(scales), X.size)))
    margins = (
        baseline.below(stated, 1 + BASELINE_WITHIN),
        stated.below(baseline, 1 + BASELINE_WITHIN),
    )
    claim = Claim(
        "IOT",
        "Section IV-A",
        "The mean |error| of BASELINE is Δ/ε, Δ = U m*/N",
        f"simulated it is {_span(baseline.mean / stated.mean)} of it over ε, judged to within "
        f"{BASELINE_WITHIN:.0%}",
        None,
    )
    return judge(claim, everywhere(*margins))


def clipping_claim(
    place: str, subject: str, papers: Curves, by_share: Mapping[float, Curves] | None = None
) -> Claim:
    """Return that every clipping algorithm errs much less than BASELINE.

    Parameters
    ----------
    place, subject : str
    papers : dict of str to Curve
        BASELINE and the others.
    by_share : mapping of float to dict, optional
        The same where another part of the variance lies between users.
    """
    by_any_share = {itms.SHARE: papers, **(by_share or {})}
    ratios = {share: min(_over_baseline(curves).values()) for share, curves in by_any_share.items()}
    on_itms = _over_baseline(papers)
    closest = min(on_itms, key=lambda name: on_itms[name])
    below = np.array(
        [curve.below(papers["BASELINE"]).positive for curve in _clipped(papers).values()]
    )
    evidence = {
        share: all_of(
            [_much_less(curve, curves["BASELINE"]) for curve in _clipped(curves).values()]
        )
        for share, curves in by_any_share.items()
    }
    share_note = f"; the smallest ratio is {_by_share(ratios)}" if by_share else ""
    claim = Claim(
        "IOT",
        place,
        f"BASELINE errs much more than each algorithm that clips ({subject})",
        f"averaged over ε it errs {on_itms[closest]:.2f} ({closest}) to "
        f"{max(on_itms.values()):.2f} times as much; they err less beyond noise at {below.sum()} "
        f"of {below.size} ε{share_note}; much is above {SIMILAR}",
        None,
        basis="other records",
    )
    return _judge_by_share(claim, evidence)


def _clipped(papers: Curves) -> Curves:
    return {name: curve for name, curve in papers.items() if name != "BASELINE"}


def _over_baseline(papers: Curves) -> dict[str, float]:
    """Return how many times as much BASELINE errs as each of the others."""
    return {
        name: papers["BASELINE"].level / curve.level for name, curve in _clipped(papers).items()
    }


def little_difference(papers: Curves, by_share: Mapping[float, Curves]) -> Claim:
    """Return that the clipping algorithms err about as much as each other on the real cell."""
    ratios, evidence = {}, {}
    for share, curves in {itms.SHARE: papers, **by_share}.items():
        clipping = list(_clipped(curves).values())
        levels = [curve.level for curve in clipping]
        ratios[share] = max(levels) / min(levels)
        evidence[share] = all_of([_within(*pair) for pair in combinations(clipping, 2)])
    levels_here = {name: curve.level for name, curve in _clipped(papers).items()}
    listing = ", ".join(f"{name} {level:.3f}" for name, level in levels_here.items())
    claim = Claim(
        "IOT",
        "Section IV-B, figure 2",
        "There is little difference between the algorithms that clip",
        f"on {LIKE}, km/h averaged over ε: {listing}; the largest over the smallest is "
        f"{_by_share(ratios)}; little is within {SIMILAR}",
        None,
        basis="other records",
    )
    return _judge_by_share(claim, evidence)


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
    ahead = {rival: papers[rival].below(papers[name]) for rival in order[:-1]}
    behind = {rival: papers[name].below(papers[rival]) for rival in papers if rival not in order}
    level = papers[name].level
    listing = [
        f"{rival} {papers[rival].level / level:.2f} ({margin.positive.sum()})"
        for rival, margin in {**ahead, **behind}.items()
    ]
    claim = Claim(
        "IOT",
        place,
        says,
        f"mean |error| averaged over ε in parts of {name}'s {level:.3f} km/h, and at how many of "
        f"{X.size} ε the order is as claimed beyond noise: {', '.join(listing)}",
        None,
        basis="other records",
    )
    return judge(claim, everywhere(*ahead.values(), *behind.values()))


def ours_claims(place: str, subject: str, papers: Curves, ours: Curves) -> list[Claim]:
    """Return how our mechanisms do against the best of the paper's at each ε, in hindsight."""
    return [_no_more(place, name, subject, curve, papers) for name, curve in ours.items()]


def _no_more(place: str, name: str, subject: str, ours: Curve, papers: Curves) -> Claim:
    """Return the claim that ours errs no more than the best choice in hindsight at each ε."""
    best = np.min([rival.mean for rival in papers.values()], axis=0)
    margins = [ours.below(rival) for rival in papers.values()]
    within = [ours.below(rival, 1 + AS_MUCH) for rival in papers.values()]
    smaller = np.all([margin.positive for margin in margins], axis=0)
    larger = np.any([margin.negative for margin in margins], axis=0)
    claim = Claim(
        "IOT",
        place,
        f"{name} errs no more than the best of the paper's algorithms at each ε ({subject})",
        f"its mean |error| is {_span(ours.mean / best)} of theirs, averaged over ε "
        f"{ours.level / best.mean():.2f}; smaller beyond noise at {smaller.sum()} of {X.size} ε, "
        f"larger at {larger.sum()}; judged to within {AS_MUCH:.0%}",
        None,
        "ours",
    )
    more = at_least(1, *(rival.below(ours) for rival in papers.values()))
    return judge(claim, supported_or_refuted(everywhere(*within), more))


def _judge_by_share(claim: Claim, evidence: Mapping[float, Evidence]) -> Claim:
    """Return the verdict on a claim that was tried at several parts of the variance."""
    verdicts = {one.holds for one in evidence.values()}
    if {True, False} <= verdicts:
        note = ", so that the records themselves would have to decide"
        return replace(claim, measured=claim.measured + note)
    # The part is one of these, if unknown: the claim is decided if it is at each of them.
    holds = verdicts.pop() if len(verdicts) == 1 else None
    return replace(
        claim,
        measured=claim.measured + max(evidence.values(), key=attrgetter("visible")).note,
        holds=holds,
        within_noise=holds is None,
    )


def _span(values: Floats) -> str:
    """Return smallest and largest."""
    return f"{values.min():.2f} to {values.max():.2f}"


def _by_share(ratios: Mapping[float, float]) -> str:
    """Return a ratio, and its value if another part of the variance lies between users."""
    alternatives = ", ".join(
        f"{ratios[share]:.2f} if {share:g}" for share in ratios if share != itms.SHARE
    )
    assumed = f"{ratios[itms.SHARE]:.2f}"
    return (
        f"{assumed} ({alternatives} of the variance lies between users)"
        if alternatives
        else assumed
    )
