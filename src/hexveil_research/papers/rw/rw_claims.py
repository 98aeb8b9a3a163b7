"""Claims of RW beside its figures, in the order of the paper.

RW's lemmas are mostly IOT's under other numbers, and are tried by the same checks (`iot.gains`,
`iot.choices`, `iot.extremes`, `iot.scaling`, `iot.lengths`, `iot.surrogate`); what RW alone states
is here. RW counts the standard deviation of the noise where IOT counts its mean (ERRATA 15).
Symbols as in `iot.lemmas`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from hexveil import theory
from hexveil.accounting.pseudo_user_caps import NOISE_WEIGHT, Noise
from hexveil_research.papers import itms
from hexveil_research.papers.iot import choices, extremes, gains, lengths, scaling, surrogate
from hexveil_research.papers.iot.surrogate import CLOSE, Counts, instances
from hexveil_research.papers.study import Claim, Outcome, Setting

Cells = tuple[Counts, ...]

CapRule = Callable[[ArrayLike, str, Noise], int]

EPSILONS = ("0.5", "1", "1.5", "2", "5")
SPAN = Fraction(65)
WORDS = {
    "eq. (9)": "eq. (8)",
    "eq. (15)": "eq. (4)",
    "Eq. (15)": "Eq. (4)",
    "figure 4": "figure 2b",
    "Lemma III.2": "Lemma B.1",
    "OPTIMIZEDQUANTILE": "ε-DEPENDENTQUANTILE",
}
"""What IOT's numbers and names are in RW."""


def stated(setting: Setting) -> Outcome:
    """Return the claims of RW beside its figures."""
    cells = instances(setting.seed)
    on_algorithms = (*algorithms(setting, cells), *scaled(setting, cells))
    setting.tell(0.5)
    return Outcome(claims=(*on_algorithms, *optimised(cells)))


def of_rw(claim: Claim) -> Claim:
    """Return a claim that IOT's checks judged as one of RW, in RW's words."""
    says, measured = claim.says, claim.measured
    for theirs, ours in WORDS.items():
        says, measured = says.replace(theirs, ours), measured.replace(theirs, ours)
    # A claim that RW alone states is its own already, and needs its words only.
    restates = "" if claim.paper == "RW" else claim.says
    return replace(claim, paper="RW", says=says, measured=measured, restates=restates)


def placed(place: str, claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Return claims of IOT as claims of RW at another place."""
    return tuple(replace(of_rw(claim), place=place) for claim in claims)


def algorithms(setting: Setting, cells: Cells) -> tuple[Claim, ...]:
    """Return those of sections II and III and of appendices A to D."""
    return (
        *placed("Section II-D", [gains.moved_claim()]),
        *placed("Theorem II.1", [gains.private_claim()]),
        *placed("Lemma III.1", [gains.proxy_claim(cells)]),
        *placed("Section III-B, eq. (1)", [gains.gain_claim(cells)]),
        *placed("Appendix A", [gains.arrays_claim(cells)]),
        *placed("Appendix B", gains.exact_median_claims()),
        *placed("Appendix B", [gains.clipped_claim(cells)]),
        *placed("Lemma B.1", [gains.median_claim(cells)]),
        *placed("Appendix C", [gains.narrow_claim()]),
        *placed("Appendix C, eq. (7)", [gains.concentrated_claim(setting.seed)]),
        *placed("Appendix C, eq. (8)", [gains.root_claim(cells)]),
        *placed("Appendix D, Algorithm 2 of [17]", choices.quantile_claims()),
        *placed("Appendix D", extremes.extremes_claims()),
    )


def scaled(setting: Setting, cells: Cells) -> tuple[Claim, ...]:
    """Return those of section V and appendix F."""
    return (
        *placed("Lemma V.1", [scaling.samples_claim(cells)]),
        *placed("Proposition V.1", [scaling.same_noise_claim(cells)]),
        *placed("Proposition V.1", scaling.levy_claims(cells)),
        *placed("Section V-A", [extremes.private_quantiles_claim(setting)]),
        *placed("Lemma V.2", scaling.users_claims(cells)),
        *placed("Proposition V.2", [scaling.levy_limit_claim()]),
        *placed("Proposition V.2", [scaling.quantile_limit_claim(setting.seed)]),
        *placed("Proposition V.2", scaling.figure_claims(setting.seed)),
        *placed(
            "Section V-B", [scaling.fixed_width_claim(setting.seed, max(2, setting.trials))]
        ),
    )  # fmt: skip


def optimised(cells: Cells) -> tuple[Claim, ...]:
    """Return those of section VI and appendices G to I."""
    return (
        *placed("Lemma VI.1", [lengths.full_claim(cells)]),
        *placed("Lemma VI.1", lengths.filled_claims(cells)),
        *placed("Section VI, eq. (2) to (4)", lengths.best_cap_claims("std")),
        *placed("Section VI, eq. (2) to (4)", [lengths.order_claim(cells, "std")]),
        *better_claims(cells),
        noise_claim(),
        *placed("Lemma H.1, appendix H", lengths.concave_claims(cells)),
        *placed("Section VI, appendix H", [lengths.convex_claim(cells)]),
        *placed("Lemma VI.2", surrogate.stationary_claims(cells)),
        *placed("Section VI, procedure after Lemma VI.2", surrogate.rule_claims(cells)),
        *end_claims(),
        *placed("Section VI, remark", [surrogate.undecided_claim(cells)]),
    )


def true_error(counts: Sequence[int], cap: int, epsilon: str) -> float:
    """Return a cap's worst-case bias plus the noise's standard deviation, in parts of U."""
    # A standard deviation is √2 times the mean size of the noise: IOT's error at ε/√2.
    loss = Fraction(epsilon) / NOISE_WEIGHT["std"]
    return theory.linear_error(theory.best_fit(counts, cap).weights, counts, 1.0, loss)


def better_claims(cells: Cells, rule: CapRule = theory.minimax_cap) -> tuple[Claim, Claim]:
    """Return whether eq. (4) improves on the median cap in the worst case, and a cap that does."""
    cases = [(counts, e) for counts in (*cells, tuple(itms.counts().tolist())) for e in EPSILONS]
    by_rule = np.array([true_error(m, rule(m, e, "std"), e) for m, e in cases])
    best = np.array([true_error(m, theory.exact_cap(m, e, "std"), e) for m, e in cases])
    median = np.array([true_error(m, theory.median_cap(m), e) for m, e in cases])
    worse = by_rule > median * (1 + CLOSE)
    # The cell like ITMS stands last among the cases.
    on_itms = slice(-len(EPSILONS), None)
    ratio = by_rule[on_itms] / median[on_itms]
    return (
        Claim(
            "RW",
            "Section VI, eq. (3)",
            "OPT-ARRAY-AVERAGING's worst-case total error is at most that with the median cap",
            f"with the arrays as BESTFIT fills them it is larger in {worse.sum()} of {len(cases)} "
            f"cases, by up to {by_rule[worse].max(initial=0):.2f} U for "
            f"{median[worse].max(initial=0):.2f} U; on a cell like ITMS {ratio.min():.2f} to "
            f"{ratio.max():.2f} times as large",
            not worse.any(),
        ),
        Claim(
            "RW",
            "Section VI, eq. (3)",
            "With the cap chosen for the arrays as they are filled it is (ERRATA 8)",
            f"larger in {(best > median * (1 + CLOSE)).sum()} of {len(cases)} cases; on a cell "
            f"like ITMS {(best[on_itms] / median[on_itms]).min():.2f} to "
            f"{(best[on_itms] / median[on_itms]).max():.2f} times as large",
            bool((best <= median * (1 + CLOSE)).all()),
            "corrected",
        ),
    )


def noise_claim(rule: CapRule = theory.minimax_cap) -> Claim:
    """Return how RW's cap goes with IOT's (ERRATA 15)."""
    m = itms.counts()
    losses = [f"{e:.4g}" for e in np.geomspace(0.01, 20, 60)]
    ours = [rule(m, e, "std") for e in losses]
    rescaled = [theory.minimax_cap(m, Fraction(e) / NOISE_WEIGHT["std"]) for e in losses]
    same = sum(rule(m, e, "mean") == cap for e, cap in zip(losses, ours, strict=True))
    return Claim(
        "RW",
        "Section VI, eq. (4)",
        "RW's cap at ε is that of IOT at ε/√2, as it counts √2 times the noise (ERRATA 15)",
        f"so at {sum(a == b for a, b in zip(ours, rescaled, strict=True))} of {len(losses)} ε from "
        f"0.01 to 20 on a cell like ITMS; at the same ε the two caps are alike at {same}",
        ours == rescaled,
        "corrected",
    )


def end_claims() -> tuple[Claim, Claim]:
    """Return RW's remark on Ē(m_*), which has a factor U too many, and its correction."""
    m = itms.counts()
    low, total = int(m.min()), int(m.sum())
    # Without U: the printed remark multiplies this term alone by it, and not the second.
    clipped = 1 - Fraction(low * m.size, total)
    mean = Fraction(total, m.size * int(m.max()))
    true = theory.surrogate_objective(m, Fraction(low))
    top = theory.surrogate_objective(m, Fraction(int(m.max())))
    return (
        Claim(
            "RW",
            "Section VI, remark",
            "Ē(m_*) = U(1 - ΣΓ/N) + m̄/m*",
            f"on a cell like ITMS it is {float(true):.4f}; with the factor U = {SPAN} "
            f"{float(SPAN * clipped + mean):.4f}",
            true == SPAN * clipped + mean,
        ),
        Claim(
            "RW",
            "Section VI, remark",
            "Ē(m*) = 1, and Ē(m_*) is without the factor U (docs/understand/errata.md)",
            f"{float(top):.4f} and {float(clipped + mean):.4f} on a cell like ITMS",
            top == 1 and true == clipped + mean,
            "corrected",
        ),
    )
