"""IOT's figures 1 to 4: simulated errors on cells like the published one, and scaled.

Source: IOT section IV, with ERRATA 7 for the noise of WRAPAROUND. Cells and ε are in `iot_cells`.
As in the paper: BESTFIT but for figure 1, gamma = 0.2 of LEVY, the median as cap of
ARRAY-AVERAGING but for figure 4, where it is that of eq. (9).
Each figure has the exponential mechanism as printed beside permute-and-flip, which is released: but
for figure 1 in a panel of its own.
Ours in the same axes: Foresight, and Auto with its own prior, neither tuned to what is drawn here.
Auto is left out of figure 4, where its planning takes longest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from hexveil import theory
from hexveil.base.arrays import Floats
from hexveil.mechanisms import (
    ArrayAveraging,
    Auto,
    Baseline,
    CellMechanism,
    FixedQuantile,
    Levy,
    OptimizedQuantile,
)
from hexveil_research.mechanisms.foresight import Foresight
from hexveil_research.papers import itms
from hexveil_research.papers.exponential_mechanism import PRINTED, PrintedChoice
from hexveil_research.papers.iot import figure_claims
from hexveil_research.papers.iot.error_panels import (
    CHOOSING,
    choice_panel,
    curves_by_name,
    error_panel,
    scaled,
    subject,
)
from hexveil_research.papers.iot.iot_cells import (
    EPSILONS,
    ERROR,
    Cell,
    Curve,
    Curves,
    cells,
    ends,
    mixed_cell,
    seeds,
    simulated,
)
from hexveil_research.papers.study import CELL_LOSS, Claim, Outcome, Panel, Setting, Study

BASELINE, FORESIGHT, AUTO = Baseline(), Foresight(), Auto()
CLIPPING: dict[str, CellMechanism] = {
    "ARRAY-AVERAGING": ArrayAveraging(),
    "LEVY": Levy(),
    "FIXEDQUANTILE": FixedQuantile(),
    "OPTIMIZEDQUANTILE": OptimizedQuantile(),
}
"""The paper's algorithms that clip, by its names."""
GROUPED: dict[str, tuple[CellMechanism, CellMechanism]] = {
    "ARRAY-AVERAGING": (ArrayAveraging("wrap_around"), ArrayAveraging()),
    "LEVY": (Levy(grouping="wrap_around"), Levy()),
    "FIXEDQUANTILE": (FixedQuantile(grouping="wrap_around"), FixedQuantile()),
}
"""Under WRAPAROUND, and under BESTFIT."""
GROUPINGS = ("WRAPAROUND", "BESTFIT")
SHARES = (0.1, 0.5)
"""Parts of the variance between users that the claims of figures 1 and 2 are tried at, too."""


def printed_wrap(cell: Cell, epsilons: Sequence[str] | None = None) -> Floats:
    """Return ARRAY-AVERAGING's error under WRAPAROUND with the printed noise, at every ε.

    The noise has the scale b = 2U/(K ε) (IOT section III-C); what it errs by without noise, d,
    makes the mean absolute error |d| + b exp(-|d|/b).

    Parameters
    ----------
    cell : Cell
    epsilons : sequence of str, optional
    """
    arrays = theory.wrap_around(cell.counts, theory.median_cap(cell.counts)).n_arrays
    errors = []
    for epsilon in EPSILONS if epsilons is None else epsilons:
        plan = ArrayAveraging("wrap_around").plan(cell.counts, bounds=cell.bounds, epsilon=epsilon)
        quiet = plan.noiseless_estimates(plan.cell.sums(cell.means))
        d = abs(float(quiet[0]) - cell.truth)
        # The printed sensitivity, about twice what one user can move (ERRATA 7).
        b = 2 * float(cell.bounds[1] - cell.bounds[0]) / (arrays * float(epsilon))
        errors.append(d + b * np.exp(-d / b))
    return np.array(errors)


def grouping_curves(setting: Setting, share: float | None = None) -> dict[str, tuple[Curve, Curve]]:
    """Return for each algorithm its errors under WRAPAROUND and under BESTFIT."""
    mechanisms = [mechanism for pair in GROUPED.values() for mechanism in pair]
    cell = cells(setting) if share is None else partial(mixed_cell, share=share)
    curves = simulated(mechanisms, setting, cell)
    return {name: (curves[a.name], curves[b.name]) for name, (a, b) in GROUPED.items()}


def grouping(setting: Setting) -> Outcome:
    """Return IOT figure 1: the two grouping strategies under three algorithms."""
    curves = grouping_curves(setting)
    setting.tell(0.3)
    cell, epsilons = cells(setting), setting.losses(EPSILONS)
    exact = np.array([printed_wrap(cell(seed), epsilons) for seed in seeds(setting)])
    # Computed from the law of the noise: there is no simulation error.
    printed = Curve(exact, np.zeros_like(exact), np.array(epsilons, dtype=float))
    choosing = {
        name: [PrintedChoice(form) for form in GROUPED[name]]
        for name in CHOOSING
        if name in GROUPED
    }
    others = [FORESIGHT, *(form for pair in choosing.values() for form in pair)]
    rivals = simulated(others, setting, cell, _progress(setting, 0.3, 0.7))
    panels = []
    for name, (wrapped, fitted) in curves.items():
        lines = [wrapped.line("WRAPAROUND"), fitted.line("BESTFIT")]
        if name == "ARRAY-AVERAGING":
            lines.insert(1, printed.line("WRAPAROUND, noise 2U/K as printed"))
        for grouping_name, form in zip(GROUPINGS, choosing.get(name, ()), strict=False):
            lines.append(rivals[form.name].line(f"{grouping_name}, {PRINTED}"))
        lines.append(rivals[FORESIGHT.name].line("Foresight", "ours"))
        title = f"IOT figure 1: {name}, {subject(setting, 'cell like ITMS')}"
        panels.append(
            Panel(title, CELL_LOSS, f"{ERROR}, {setting.unit}", tuple(lines), ends=ends(setting))
        )
    if not setting.is_papers:
        return Outcome(tuple(panels))
    # How much of the variance lies between users is not published: a claim must hold at any share.
    by_share = {share: grouping_curves(setting, share) for share in SHARES}
    setting.tell(1.0)
    claims = (
        figure_claims.published_facts([itms.facts(itms.counts(seed)) for seed in seeds(setting)]),
        *figure_claims.noise_claims([mixed_cell(seed).counts for seed in seeds(setting)]),
        *figure_claims.grouping_claims(curves, printed, by_share),
    )
    return Outcome(tuple(panels), claims)


def _progress(setting: Setting, start: float, end: float) -> Callable[[float], None]:
    """Return a progress callback for a part of the whole work."""
    return lambda share: setting.tell(start + (end - start) * share)


def compared(
    setting: Setting,
    title: str,
    cell: Callable[[int], Cell],
    clipping: dict[str, CellMechanism],
    ours: dict[str, CellMechanism],
) -> tuple[Panel, Curves, Curves]:
    """Return the panel of BASELINE, the clipping algorithms and ours, with both their curves."""
    papers = curves_by_name(
        setting, cell, {"BASELINE": BASELINE, **clipping}, _progress(setting, 0.0, 0.2)
    )
    own_curves = curves_by_name(setting, cell, ours, _progress(setting, 0.2, 1.0))
    return error_panel(title, setting, papers, own_curves), papers, own_curves


def like_itms(setting: Setting) -> Outcome:
    """Return IOT figure 2: all algorithms on a cell like the published one."""
    shown = subject(setting, "cell like ITMS")
    title = f"IOT figure 2: {shown}, BESTFIT"
    panel, papers, ours = compared(setting, title, cells(setting), CLIPPING, {
        "Foresight": FORESIGHT, "Auto": AUTO,
    })  # fmt: skip
    choices = choice_panel(
        f"The private choice: {shown}", setting, cells(setting), CLIPPING, papers
    )
    panels = (panel, choices)
    if not setting.is_papers:
        return Outcome(panels)
    by_share = {
        share: curves_by_name(
            setting, partial(mixed_cell, share=share), {"BASELINE": BASELINE, **CLIPPING}
        )
        for share in SHARES
    }
    noise = [
        # At ε = 1 the noise scale is the sensitivity Δ.
        Baseline().plan(mixed_cell(seed).counts, bounds=itms.BOUNDS, epsilon=1).noise_scale
        for seed in seeds(setting)
    ]
    claims = (
        figure_claims.baseline_claim(papers["BASELINE"], noise),
        figure_claims.clipping_claim("Section IV-B, figure 2", "cell like ITMS", papers, by_share),
        figure_claims.little_difference(papers, by_share),
        *figure_claims.ours_claims("Figure 2", "cell like ITMS", papers, ours),
    )
    return Outcome(panels, claims)


def sample_scaling(setting: Setting) -> Outcome:
    """Return IOT figure 3: ten times as many samples of each user."""
    shown, cell = scaled(setting, "sample"), cells(setting, "samples")
    panel, papers, ours = compared(setting, f"IOT figure 3: {shown}", cell, CLIPPING, {
        "Foresight": FORESIGHT, "Auto": AUTO,
    })  # fmt: skip
    panels = panel, choice_panel(f"The private choice: {shown}", setting, cell, CLIPPING, papers)
    if not setting.is_papers:
        return Outcome(panels)
    place = "Section IV-C, figure 3"
    claims: tuple[Claim, ...] = (
        figure_claims.clipping_claim(place, "sample scaling", papers),
        figure_claims.order_claim(
            place, "LEVY errs less than all other algorithms", papers, ("LEVY",)
        ),
        *figure_claims.ours_claims("Figure 3", "sample scaling", papers, ours),
    )
    return Outcome(panels, claims)


def user_scaling(setting: Setting) -> Outcome:
    """Return IOT figure 4: ten times as many users."""
    shown, cell = scaled(setting, "user"), cells(setting, "users")
    clipping = {**CLIPPING, "ARRAY-AVERAGING": ArrayAveraging(cap="sqrt")}
    panel, papers, ours = compared(
        setting, f"IOT figure 4: {shown}", cell, clipping, {"Foresight": FORESIGHT}
    )
    panels = panel, choice_panel(f"The private choice: {shown}", setting, cell, clipping, papers)
    if not setting.is_papers:
        return Outcome(panels)
    place = "Section IV-C, figure 4"
    claims: tuple[Claim, ...] = (
        figure_claims.clipping_claim(place, "user scaling", papers),
        figure_claims.order_claim(
            place, "FIXEDQUANTILE errs less than all other algorithms", papers, ("FIXEDQUANTILE",)
        ),
        figure_claims.order_claim(
            place, "ARRAY-AVERAGING is second after FIXEDQUANTILE", papers,
            ("FIXEDQUANTILE", "ARRAY-AVERAGING"),
        ),
        *figure_claims.ours_claims("Figure 4", "user scaling", papers, ours),
    )  # fmt: skip
    return Outcome(panels, claims)


STUDIES: tuple[Study, ...] = (
    Study(
        name="iot:fig1",
        place="IOT, figure 1",
        title="WRAPAROUND and BESTFIT under three algorithms",
        make=grouping,
        seconds=26.0,
        altered=True,
        values=True,
    ),
    Study(
        name="iot:fig2",
        place="IOT, figure 2",
        title="All algorithms on a cell like the published one",
        make=like_itms,
        seconds=15.0,
        altered=True,
        values=True,
    ),
    Study(
        name="iot:fig3",
        place="IOT, figure 3",
        title="Ten times as many samples of each user",
        make=sample_scaling,
        seconds=13.0,
        altered=True,
        values=True,
    ),
    Study(
        name="iot:fig4",
        place="IOT, figure 4",
        title="Ten times as many users",
        make=user_scaling,
        seconds=28.0,
        altered=True,
        values=True,
    ),
)
"""Figures 1 to 4."""
