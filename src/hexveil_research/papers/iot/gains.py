"""Claims of IOT in sections II and III: sensitivities, arrays, the gain of a cap, LEVY's width.

Source: IOT Theorem II.1, Proposition II.1, eq. (2) to (9), Lemmas III.1 and III.2 (RW sections II
and III, appendices A to C), with the median as in docs/understand/errata.md.
Symbols as in `lemmas`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hexveil import theory
from hexveil.mechanisms import ArrayAveraging, Baseline, Levy
from hexveil.mechanisms.single_cell import study_cell
from hexveil.mechanisms.single_cell.clipped_range_mean import ClippedRangeMean
from hexveil_research.papers import itms
from hexveil_research.papers.comp import tiny_cells
from hexveil_research.papers.iot.surrogate import (
    CLOSE,
    CapRule,
    Counts,
    caps_of,
    counts_text,
    few_caps,
    gain,
    kept_samples,
    largest_gain,
)
from hexveil_research.papers.study import Claim

GAMMA = 0.2
DELTAS = (0.5, 0.1, 0.01)
SURE = 4.5
"""Standard errors; a normal deviation is above once in a hundred thousand times."""
BLOCK = 200
"""Data sets drawn to see whether array means concentrate."""


def moved_claim(formula: Callable[[Counts, float], float] = theory.mean_sensitivity) -> Claim:
    """Return eq. (2), by search over small cells."""
    cells = tiny_cells.cells(5)
    differences = [
        abs(tiny_cells.largest_move(tiny_cells.means(counts), counts) - formula(counts, 1.0))
        for counts in cells
    ]
    return Claim(
        "IOT",
        "Section II-D, eq. (2)",
        "The mean of all samples has the user-level sensitivity U m*/N",
        f"search over all data sets on a grid differs by at most {max(differences):.1e} U in "
        f"{len(cells)} cells of up to five samples",
        max(differences) <= CLOSE,
    )


def private_claim(noise: float = 1.0) -> Claim:
    """Return Theorem II.1 on a cell like ITMS.

    Parameters
    ----------
    noise : float
        In parts of Δ/ε; for a test.
    """
    m = itms.counts()
    losses = []
    for epsilon in ("0.5", "1", "2"):
        plan = Baseline().plan(m, bounds=itms.BOUNDS, epsilon=epsilon)
        b, step = noise * plan.noise_scale, plan.sensitivity
        x = np.linspace(-5 * step, 5 * step, 1001)
        # Logarithm of the ratio of the densities of two estimates a sensitivity apart.
        losses.append(float(np.abs(np.abs(x - step) - np.abs(x)).max() / b) / float(plan.epsilon))
    return Claim(
        "IOT",
        "Theorem II.1",
        "Laplace noise of scale Δ/ε loses ε",
        f"largest log ratio of densities over ε, at ε = 0.5, 1, 2: "
        f"{', '.join(f'{loss:.4f}' for loss in losses)}",
        all(abs(loss - 1) <= CLOSE for loss in losses),
    )


def tail_claim(trials: int, seed: int, factor: float = 1.0) -> Claim:
    """Return Proposition II.1, by simulation.

    Parameters
    ----------
    trials, seed : int
    factor : float
        Of the noise; for a test.
    """
    plan = Baseline().plan(itms.counts(), bounds=itms.BOUNDS, epsilon=1)
    middle = np.full(itms.PUBLISHED.users, itms.MEAN)
    generator = np.random.default_rng([seed, 21])
    missed = factor * np.abs(plan.simulate(middle, generator, trials) - itms.MEAN)
    shares = [float((missed >= plan.noise_scale * np.log(1 / d)).mean()) for d in DELTAS]
    room = [SURE * (d * (1 - d) / trials) ** 0.5 for d in DELTAS]
    listing = ", ".join(f"{share:.4f} at δ = {d}" for share, d in zip(shares, DELTAS, strict=True))
    return Claim(
        "IOT",
        "Proposition II.1",
        "The error is at least Δ ln(1/δ)/ε with a chance of at most δ",
        f"share of {trials} simulated releases on a cell like ITMS: {listing}",
        all(s <= d + slack for s, d, slack in zip(shares, DELTAS, room, strict=True)),
    )


def arrays_claim(cells: Sequence[Counts]) -> Claim:
    """Return the claims of section III-A on the two grouping strategies."""
    fewest, fitted, wrapped = 0, 0, 0
    groupings = [(counts, cap) for counts in cells for cap in few_caps(counts)]
    for counts, cap in groupings:
        wrap, fit = theory.wrap_around(counts, cap), theory.best_fit(counts, cap)
        fewest = min(fewest, fit.n_arrays - wrap.n_arrays)
        fitted, wrapped = (
            max(most, int(np.bincount(made.piece_user).max()))
            for most, made in ((fitted, fit), (wrapped, wrap))
        )
    return Claim(
        "IOT",
        "Section III-A",
        "BESTFIT makes at least as many arrays as WRAPAROUND; a user has samples in one array "
        "under BESTFIT, in at most two under WRAPAROUND",
        f"{len(groupings)} groupings of {len(cells)} random cells: K̄ - K at least {fewest}, at "
        f"most {fitted} and {wrapped} arrays of a user",
        fewest >= 0 and fitted == 1 and wrapped <= 2,
    )


def proxy_claim(cells: Sequence[Counts]) -> Claim:
    """Return Lemma III.1."""
    smallest = min(gain(counts, cap) for counts in cells for cap in caps_of(counts))
    return Claim(
        "IOT",
        "Lemma III.1",
        "A cap of at most m* never raises the sensitivity: Δ >= Δ̃",
        f"the least Δ/Δ̃ over all whole caps of {len(cells)} random cells is {float(smallest):.4f}",
        smallest >= 1,
    )


def gain_claim(cells: Sequence[Counts]) -> Claim:
    """Return eq. (5), with where its two bounds are met."""
    above = elsewhere = 0
    for counts in cells:
        low, high, optimum = min(counts), max(counts), largest_gain(counts)
        for cap in caps_of(counts):
            ratio, alpha = gain(counts, cap), Fraction(high, cap)
            above += ratio > min(alpha, optimum)
            # Each bound must be met where the text says, and nowhere else.
            elsewhere += (ratio == alpha) != (cap == high) or (ratio == optimum) != (cap == low)
    return Claim(
        "IOT",
        "Section III-C, eq. (5)",
        "The gain Δ/Δ̃ is at most m*/m_UB, met at m* only, and at most OPT = m* L/N, met at m_* "
        "only",
        f"over all whole caps of {len(cells)} random cells: above a bound {above} times, a bound "
        f"met elsewhere or missed {elsewhere} times",
        not above and not elsewhere,
    )


def median_claim(cells: Sequence[Counts], rule: CapRule = theory.median_cap) -> Claim:
    """Return Lemma III.2."""
    shares = [gain(counts, rule(counts)) / largest_gain(counts) for counts in cells]
    m = tuple(itms.counts().tolist())
    on_itms = gain(m, rule(m)) / largest_gain(m)
    return Claim(
        "IOT",
        "Lemma III.2",
        "ARRAY-AVERAGING with the median cap has at least half the optimal gain",
        f"at least {float(min(shares)):.3f} of OPT in {len(cells)} random cells; "
        f"{float(on_itms):.3f} of it on a cell like ITMS",
        min(*shares, on_itms) >= Fraction(1, 2),
    )


def clipped_claim(cells: Sequence[Counts], rule: CapRule = theory.median_cap) -> Claim:
    """Return that the median cap errs less by clipping than m_*, which has the largest gain."""
    # Where the median is m_* the two caps are one, and there is nothing to compare.
    multivalued = [counts for counts in cells if theory.median_cap(counts) > min(counts)]
    n_wrong = 0
    for counts in multivalued:
        at_rule, at_least = _clipped(counts, rule(counts)), _clipped(counts, min(counts))
        n_wrong += at_rule[0] >= at_least[0] or at_rule[1] > at_least[1] + CLOSE
    m = tuple(itms.counts().tolist())
    at_median, at_smallest = (itms.SPAN * np.array(_clipped(m, cap)) for cap in (rule(m), min(m)))
    return Claim(
        "IOT",
        "Section III-C",
        "A cap of m_* errs more by clipping than the median does",
        f"worst-case bias on a cell like ITMS: {at_smallest[0]:.1f} km/h at m_*, "
        f"{at_median[0]:.1f} at the median if arrays were full, {at_smallest[1]:.1f} and "
        f"{at_median[1]:.1f} as BESTFIT fills them with user means; not so in {n_wrong} of "
        f"{len(multivalued)} random cells",
        not n_wrong and bool((at_median < at_smallest).all()),
    )


def _clipped(counts: Counts, cap: int) -> tuple[float, float]:
    """Return the worst-case bias of a cap for U = 1: of full arrays, and as BESTFIT fills them."""
    weights = theory.best_fit(counts, cap).weights
    full = float(1 - kept_samples(counts, cap) / sum(counts))
    return full, theory.linear_bias(weights, counts, 1.0)


def exact_median_claims(counts: Counts = (5, 5, 5)) -> tuple[Claim, Claim]:
    """Return whether a median exists as section II-A defines it, and its replacement."""
    half = -(-len(counts) // 2)
    # How many counts are not below a number changes at the counts and nowhere between.
    numbers = sorted({n + step for n in counts for step in (0, 1)})
    reached = {sum(m >= n for m in counts) for n in numbers}
    cap = theory.median_cap(counts)
    return (
        Claim(
            "IOT",
            "Section II-A",
            "Counts have a median: a number that exactly ⌈L/2⌉ of them are not below",
            f"counts {counts_text(counts)}: {half} are asked for, and "
            f"{' or '.join(map(str, sorted(reached)))} are not below a number",
            half in reached,
        ),
        Claim(
            "IOT",
            "Section II-A",
            "The ⌈L/2⌉-th largest count always exists, and Lemma III.2 holds with it "
            "(docs/understand/errata.md)",
            f"counts {counts_text(counts)}: it is {cap}, with a gain of "
            f"{float(gain(counts, cap)):.3f} where OPT is {float(largest_gain(counts)):.3f}",
            2 * gain(counts, cap) >= largest_gain(counts),
            "corrected",
        ),
    )


def _levy(counts: NDArray[np.int64]) -> ClippedRangeMean:
    """Return LEVY's allocation of a cell like ITMS at ε = 1."""
    return Levy(GAMMA).allocate_cell(study_cell(counts, itms.BOUNDS), Fraction(1))


def narrow_claim(counts: Counts | None = None) -> Claim:
    """Return that LEVY's noise is below ARRAY-AVERAGING's exactly if its interval is below U/2."""
    m = itms.counts() if counts is None else np.array(counts)
    plans = []
    for scale in (1, 2, 3, 4, 6, 8, 10, 20):
        levy = _levy(scale * m)
        averaging = ArrayAveraging(cap="sqrt").plan(scale * m, bounds=itms.BOUNDS, epsilon=1)
        noise = levy.error(itms.SPAN).scale
        plans.append((scale, itms.SPAN * levy.widest, noise < averaging.noise_scale))
    narrow = [width < itms.SPAN / 2 for _, width, _ in plans]
    listing = ", ".join(f"{width:.1f} (λ = {scale})" for scale, width, _ in plans[:4])
    return Claim(
        "IOT",
        "Section III-D",
        "Where LEVY's interval is narrower than U/2, its noise is below ARRAY-AVERAGING's with "
        "the same arrays",
        f"on a cell like ITMS with λ times the samples it is {listing} km/h wide; noise is less at "
        f"{sum(quieter for *_, quieter in plans)} of {len(plans)} λ, narrower at {sum(narrow)}",
        any(narrow) and all(quieter for (*_, quieter), n in zip(plans, narrow, strict=True) if n),
    )


def concentrated_claim(seed: int, radius: float = 1.0) -> Claim:
    """Return eq. (7): full arrays of i.i.d. samples are within τ with a chance of 1 - gamma.

    Parameters
    ----------
    seed : int
    radius : float
        In parts of τ; for a test.
    """
    levy = _levy(itms.counts())
    assert levy.groups is not None  # noqa: S101  as always of array means
    arrays, cap = levy.groups.n_arrays, levy.groups.cap
    tau = itms.SPAN * levy.relative_radius
    draw = np.random.default_rng([seed, 7])
    # Values at either bound, equally likely, spread most.
    means = itms.SPAN * draw.binomial(cap, 0.5, (BLOCK, arrays)) / cap
    out = float((np.abs(means - itms.SPAN / 2).max(axis=1) > radius * tau).mean())
    return Claim(
        "IOT",
        "Section III-D, eq. (7)",
        f"All means of full arrays of i.i.d. samples lie within τ of their expected value with a "
        f"chance of at least 1 - gamma = {1 - GAMMA}",
        f"{arrays} arrays of {cap} samples, each 0 or U: outside τ = {tau:.1f} km/h in "
        f"{out:.3f} of {BLOCK} draws",
        out <= GAMMA + SURE * (GAMMA * (1 - GAMMA) / BLOCK) ** 0.5,
    )


def root_claim(cells: Sequence[Counts], rule: CapRule = theory.sqrt_cap) -> Claim:
    """Return that eq. (9) is maximised at one of the counts, by search over all whole caps."""
    n_wrong = 0
    for counts in cells:
        # ΣΓ/√cap squared: roots would leave exact fractions.
        squared = {cap: Fraction(sum(min(m, cap) for m in counts) ** 2, cap) for cap in
                   caps_of(counts)}  # fmt: skip
        cap = rule(counts)
        n_wrong += squared[cap] < max(squared.values()) or cap not in counts
    return Claim(
        "IOT",
        "Section III-D, eq. (9)",
        "The cap of eq. (9) maximises ΣΓ/√m_UB, and trying the counts is enough to find it",
        f"a search over all whole caps of {len(cells)} random cells finds a larger value in "
        f"{n_wrong}",
        not n_wrong,
    )
