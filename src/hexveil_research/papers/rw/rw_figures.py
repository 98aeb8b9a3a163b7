"""RW's studies: figure 1, figure 2 with its two panels, and the claims without a figure.

Source: RW section IV-B and appendix E, figures 1, 2a and 2b. RW's LEVY and OPT-ARRAY-AVERAGING are
options of ours (ERRATA 15); its ε-DEPENDENTQUANTILE is IOT's OPTIMIZEDQUANTILE. Cells, ε and what
counts as a difference are those of IOT's figures (`iot.iot_cells`, `iot.figure_claims`).
A further panel of each has the exponential mechanism as printed beside permute-and-flip.
RW describes OPT-ARRAY-AVERAGING and does not plot it; here it is in all axes.
Ours in the same axes: Foresight, and Auto with its own prior but for figure 2b, where its planning
takes longest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hexveil.mechanisms import (
    ArrayAveraging,
    Auto,
    Baseline,
    CellMechanism,
    FixedQuantile,
    Levy,
    OptArrayAveraging,
    OptimizedQuantile,
)
from hexveil_research.mechanisms.foresight import Foresight
from hexveil_research.papers import itms
from hexveil_research.papers.iot import figure_claims
from hexveil_research.papers.iot.error_panels import (
    choice_panel,
    curves_by_name,
    error_panel,
    scaled,
    subject,
)
from hexveil_research.papers.iot.iot_cells import Cell, Curve, Curves, X, cells, mixed_cell, seeds
from hexveil_research.papers.rw.rw_claims import of_rw, stated
from hexveil_research.papers.simultaneous_tests import everywhere, judge, opposite
from hexveil_research.papers.study import Claim, Outcome, Panel, Setting, Study

LIKE = "cell like ITMS"
CLIPPING: dict[str, CellMechanism] = {
    "ARRAY-AVERAGING": ArrayAveraging(),
    "LEVY": Levy(interval="unclamped", arrays="full"),
    "FIXEDQUANTILE": FixedQuantile(),
    "ε-DEPENDENTQUANTILE": OptimizedQuantile(),
}
"""The algorithms that RW plots beside BASELINE, by its names."""
OPTIMISED: dict[str, CellMechanism] = {
    "OPT-ARRAY-AVERAGING, eq. (4)": OptArrayAveraging("minimax_std"),
    "OPT-ARRAY-AVERAGING, Lemma VI.2": OptArrayAveraging("surrogate_printed"),
}
OURS: dict[str, CellMechanism] = {"Foresight": Foresight(), "Auto": Auto()}


def compared(
    setting: Setting,
    title: str,
    cell: Callable[[int], Cell],
    clipping: dict[str, CellMechanism],
    ours: dict[str, CellMechanism],
) -> tuple[Panel, Curves, Curves, Curves]:
    """Return the panel, and the curves of RW's mechanisms, OPT-ARRAY-AVERAGING and ours."""
    plotted = curves_by_name(setting, cell, {"BASELINE": Baseline(), **clipping})
    optimised = curves_by_name(setting, cell, OPTIMISED)
    mine = curves_by_name(setting, cell, ours)
    panel = error_panel(title, setting, plotted | optimised, mine)
    return panel, plotted, optimised, mine


def like_itms(setting: Setting) -> Outcome:
    """Return RW figure 1: all algorithms on cells like the published one."""
    shown = subject(setting, LIKE)
    panel, plotted, optimised, ours = compared(
        setting, f"RW figure 1: {shown}, BESTFIT", cells(setting), CLIPPING, OURS
    )
    choices = choice_panel(
        f"The private choice: {shown}", setting, cells(setting), CLIPPING, plotted
    )
    setting.tell(0.6)
    if not setting.is_papers:
        return Outcome((panel, choices))
    papers = {"BASELINE": Baseline(), **CLIPPING}
    by_share = {
        share: curves_by_name(setting, partial(mixed_cell, share=share), papers)
        for share in (0.1, 0.5)
    }
    place = "Appendix E, figure 1"
    drawn_facts = [itms.facts(itms.counts(seed)) for seed in seeds(setting)]
    # The same cells under IOT's reading, so that only the reading differs.
    like_iot = curves_by_name(setting, mixed_cell, {"LEVY": Levy()})["LEVY"]
    claims = (
        replace(figure_claims.published_facts(drawn_facts), place="Appendix E"),
        figure_claims.clipping_claim(place, LIKE, plotted, by_share),
        replace(figure_claims.little_difference(plotted, by_share), place=place),
        levy_claim(plotted["LEVY"], like_iot),
        not_typical(plotted, optimised),
        # Ours is also held against OPT-ARRAY-AVERAGING, which RW describes without plotting it.
        *figure_claims.ours_claims(place, LIKE, plotted | optimised, ours),
    )
    return Outcome((panel, choices), tuple(map(of_rw, claims)))


def levy_claim(free: Curve, clamped: Curve) -> Claim:
    """Return the differences of the two papers' forms of LEVY, as mean absolute errors."""
    ratio = free.mean / clamped.mean
    claim = Claim(
        "RW",
        "Appendix C",
        "RW's LEVY, whose interval may leave the bounds and whose τ takes K, errs about as much as "
        "IOT's (ERRATA 15)",
        f"on cells like ITMS {ratio.min():.3f} to {ratio.max():.3f} times as much over ε; similar "
        f"is within {figure_claims.SIMILAR}",
        None,
        "ours",
    )
    similar = free.below(clamped, figure_claims.SIMILAR), clamped.below(free, figure_claims.SIMILAR)
    return judge(claim, everywhere(*similar))


def not_typical(plotted: Curves, optimised: Curves) -> Claim:
    """Return RW's remark that a minimax choice need not be good on typical records."""
    name = next(iter(OPTIMISED))
    minimax, median = optimised[name], plotted["ARRAY-AVERAGING"]
    ratio = minimax.mean / median.mean
    better = minimax.below(median)
    claim = Claim(
        "RW",
        "Section VI",
        "The cap of eq. (4) is the best in the worst case, not necessarily on typical records",
        f"on cells like ITMS it errs {ratio.min():.2f} to {ratio.max():.2f} times as much as the "
        f"median cap, more beyond noise at {better.negative.sum()} of {X.size} ε",
        None,
        basis="other records",
    )
    # "Not necessarily": one ε at which it errs more is enough.
    return judge(claim, opposite(everywhere(better)))


def scaling(setting: Setting) -> Outcome:
    """Return RW figure 2: ten times the samples of each user, and ten times the users."""
    samples, users = (cells(setting, name) for name in ("samples", "users"))
    shown = [scaled(setting, name) for name in ("sample", "user")]
    by_samples = compared(setting, f"RW figure 2a: {shown[0]}", samples, CLIPPING, OURS)
    setting.tell(0.3)
    clipping = {**CLIPPING, "ARRAY-AVERAGING": ArrayAveraging(cap="sqrt")}
    by_users = compared(
        setting, f"RW figure 2b: {shown[1]}", users, clipping, {"Foresight": OURS["Foresight"]}
    )
    panels = (
        by_samples[0],
        by_users[0],
        choice_panel(f"The private choice: {shown[0]}", setting, samples, CLIPPING, by_samples[1]),
        choice_panel(f"The private choice: {shown[1]}", setting, users, clipping, by_users[1]),
    )
    if not setting.is_papers:
        return Outcome(panels)
    claims = (*sample_claims(*by_samples[1:]), *user_claims(*by_users[1:]))
    return Outcome(panels, tuple(map(of_rw, claims)))


def sample_claims(plotted: Curves, optimised: Curves, ours: Curves) -> tuple[Claim, ...]:
    """Return the claims about figure 2a."""
    place, subject = "Section IV-B, figure 2a", "sample scaling"
    return (
        figure_claims.clipping_claim(place, subject, plotted),
        figure_claims.order_claim(
            place, "LEVY errs less than all other algorithms", plotted, ("LEVY",)
        ),
        *figure_claims.ours_claims(place, subject, plotted | optimised, ours),
    )


def user_claims(plotted: Curves, optimised: Curves, ours: Curves) -> tuple[Claim, ...]:
    """Return the claims about figure 2b."""
    place, subject = "Section IV-B, figure 2b", "user scaling"
    best = ("FIXEDQUANTILE", "ARRAY-AVERAGING")
    return (
        figure_claims.order_claim(
            place, "FIXEDQUANTILE errs less than all other algorithms", plotted, best[:1]
        ),
        figure_claims.order_claim(
            place, "ARRAY-AVERAGING is second after FIXEDQUANTILE", plotted, best
        ),
        *figure_claims.ours_claims(place, subject, plotted | optimised, ours),
    )


STUDIES: tuple[Study, ...] = (
    Study(
        name="rw:fig1",
        place="RW, figure 1",
        title="RW's algorithms on a cell like the published one",
        make=like_itms,
        seconds=18.0,
        altered=True,
        values=True,
    ),
    Study(
        name="rw:fig2",
        place="RW, figure 2",
        title="RW's algorithms with ten times the samples, and ten times the users",
        make=scaling,
        seconds=50.0,
        altered=True,
        values=True,
    ),
    Study(
        name="rw:claims",
        place="RW, lemmas, propositions and remarks",
        title="What RW states beside its figures",
        make=stated,
        seconds=6.0,
    ),
)
"""What the catalogue lists."""
