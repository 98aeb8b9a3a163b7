"""COMP's figures and claims: the studies, and figures 3 to 8 on the synthetic setting.

Source: COMP section VI (gamma = 3, 6, 9; q = 0.01; ten draws; U = 65), with ERRATA 1 to 4. What the
paper leaves open is in `runs`; figures 1 and 2 are in `busiest_hour`, claims without a figure in
`cell_claims` and `cap_claims` (one cell), `composition_claims` and
`suppression_claims` (many).
Counts only: everything here is public and costs no privacy.

Claims of COMP on the noise of one cell: enough for its ε, and how large it gets.

Source: COMP sections II-D (Theorem II.1, Proposition II.1), III-A (BASELINE) and eq. (12), with
ERRATA 4. The branch of Proposition III.1 that eq. (12) prints stands here.
Symbols: m* the largest count of a user, N all samples, ε the loss of the cell, half for each
statistic; U = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil import theory
from hexveil.base.arrays import Floats
from hexveil_research.papers.comp import (
    busiest_hour,
    cap_claims,
    cell_claims,
    composition_claims,
    tiny_cells,
)
from hexveil_research.papers.comp.axes import error_claims, error_panel, loss_claims, loss_panel
from hexveil_research.papers.comp.runs import (
    EPSILONS,
    GAMMAS,
    Run,
    column,
    occupancy_of,
    seeds,
    shown_gamma,
    synthetic_runs,
)
from hexveil_research.papers.comp.summed_errors import least_error, least_loss
from hexveil_research.papers.study import Claim, Outcome, Reading, Setting, Study

if TYPE_CHECKING:
    from hexveil import Occupancy

    Runs = tuple[tuple[Run, ...], ...]


def planned(
    setting: Setting, gamma: int, runs: Runs, solve: Callable[[Occupancy, Run], float]
) -> Floats:
    """Return a joint plan's number for each run; shape (n_draws, n_epsilons)."""
    solutions = np.empty((len(runs), len(runs[0])))
    for i, (seed, row) in enumerate(zip(seeds(setting), runs, strict=True)):
        occupancy = occupancy_of(setting, gamma, seed)
        # The same E or loss as CLIP-USER's, run by run, so that the curves compare point by point.
        solutions[i] = [solve(occupancy, clip_run) for clip_run in row]
        setting.tell((i + 1) / len(runs))
    return solutions


def loss_figure(setting: Setting, *, gamma: int, number: int) -> Outcome:
    """Return COMP figure 3, 4 or 5: privacy loss at no larger worst-case error."""
    gamma = shown_gamma(setting, gamma)
    runs = synthetic_runs(setting, gamma)
    joint = planned(setting, gamma, runs, lambda o, one: least_loss(o, setting.span, one.bound))
    title = f"COMP figure {number}: {drawn_from(setting, gamma)}"
    if not setting.is_papers:
        return Outcome((loss_panel(title, runs, joint),))
    place = f"Figure {number}"
    ours = loss_claims(place, f"gamma = {gamma}", runs, joint)
    return Outcome((loss_panel(title, runs, joint),), (lower_loss(place, gamma, runs), *ours))


def error_figure(setting: Setting, *, gamma: int, number: int) -> Outcome:
    """Return COMP figure 6, 7 or 8: worst-case error after CLIP-USER and the caps."""
    gamma, span = shown_gamma(setting, gamma), setting.span
    runs = synthetic_runs(setting, gamma)
    joint = planned(setting, gamma, runs, lambda o, one: least_error(o, span, one.claimed))
    title = f"COMP figure {number}: {drawn_from(setting, gamma)}"
    panels = (error_panel(title, span, runs, joint, setting.unit),)
    if not setting.is_papers:
        return Outcome(panels)
    place = f"Figure {number}"
    ours = error_claims(place, f"gamma = {gamma}", span, runs, joint)
    return Outcome(panels, (lower_error(place, gamma, runs), *ours))


def drawn_from(setting: Setting, gamma: int) -> str:
    """Return the counts of a figure in words."""
    data = setting.data
    if data is None:
        return f"gamma = {gamma}, q = {0.01 if setting.q is None else setting.q:g}"
    source = f"counts drawn from {data.name}" if data.occupancy.n_cells == 1 else data.name
    return f"{source}, {f'gamma = {gamma}' if gamma else 'as they are'}"


def lower_loss(place: str, gamma: int, runs: Runs) -> Claim:
    """Return the claims that figures 3 to 5 show."""
    k, cells = (column(runs, name) for name in ("degradation", "cells"))
    mean = k.mean(axis=0)
    return Claim(
        "COMP",
        place,
        "CLIP-USER lowers the loss from G ε to K ε at no larger worst-case error "
        f"(gamma = {gamma})",
        f"mean K over {len(runs)} draws is {mean.min():.1f} to {mean.max():.1f} over ε, "
        f"where G = {cells.max():.0f}",
        bool((k < cells).all()),
    )


def lower_error(place: str, gamma: int, runs: Runs) -> Claim:
    """Return the claims that figures 6 to 8 show."""
    bound, capped = (column(runs, name).mean(axis=0) for name in ("bound", "capped"))
    ratio = bound / capped
    return Claim(
        "COMP",
        place,
        f"Caps after CLIP-USER lower the worst-case error below E (gamma = {gamma})",
        f"mean E over the mean error after: {ratio[0]:.2f} at ε = {EPSILONS[0]}, "
        f"{ratio[-1]:.2f} at ε = {EPSILONS[-1]}, over {len(runs)} draws",
        bool((capped < bound).all()),
    )


def stated(setting: Setting) -> Outcome:
    """Return the claims that COMP states beside its figures."""
    one_cell = (*cell_claims.claims(), *claims(setting.seed), *cap_claims.claims())
    return Outcome(claims=(*one_cell, *composition_claims.claims(setting)))


def _loss_study(number: int, gamma: int) -> Study:
    return Study(
        name=f"comp:fig{number}",
        place=f"COMP, figure {number}",
        title=f"Privacy loss after CLIP-USER, gamma = {gamma}",
        make=partial(loss_figure, gamma=gamma, number=number),
        seconds=3.0,
        altered=True,
    )


def _error_study(number: int, gamma: int) -> Study:
    return Study(
        name=f"comp:fig{number}",
        place=f"COMP, figure {number}",
        title=f"Worst-case error after CLIP-USER and caps, gamma = {gamma}",
        make=partial(error_figure, gamma=gamma, number=number),
        seconds=11.0,
        altered=True,
    )


STUDIES: tuple[Study, ...] = (
    *busiest_hour.STUDIES,
    *(_loss_study(number, gamma) for number, gamma in zip((3, 4, 5), GAMMAS, strict=True)),
    *(_error_study(number, gamma) for number, gamma in zip((6, 7, 8), GAMMAS, strict=True)),
    Study(
        name="comp:claims",
        place="COMP, theorems, lemmas and remarks",
        title="What COMP states beside its figures",
        make=stated,
        seconds=5.0,
    ),
)
"""What the catalogue lists."""


OfCell = Callable[[Sequence[int], float], float]

SAME = 1e-9


def claims(seed: int = 0) -> tuple[Claim, ...]:
    """Return the claims about noise; the seed is of the draws of Proposition II.1."""
    return (
        baseline_claim(theory.mean_sensitivity, theory.variance_sensitivity),
        _noise_claim(printed_variance_noise, "as printed", "as eq. (12) prints it"),
        _noise_claim(theory.variance_sensitivity, "corrected", "with all of it (ERRATA 4)"),
        *tail_claims(seed),
    )


def printed_variance_noise(counts: Sequence[int], span: float) -> float:
    """Return the sensitivity that eq. (12) puts into the noise: one branch of Prop. III.1.

    Examples
    --------
    >>> printed_variance_noise([3, 1], 1.0)
    0.1875
    """
    largest, total = max(counts), sum(counts)
    # The branch for N > 2 m* alone: too small where one user has more than half (ERRATA 4).
    return span**2 * largest * (total - largest) / total**2


def baseline_claim(mean: OfCell, variance: OfCell) -> Claim:
    """Return the claim that BASELINE with half of ε for each statistic loses at most ε."""
    losses = {
        counts: tiny_cells.loss(
            counts,
            2 * mean(counts, 1.0),
            # The variance of a single sample is 0: without noise, at an infinite scale, it loses
            # nothing.
            2 * variance(counts, 1.0) or math.inf,
        )
        for counts in tiny_cells.cells()
    }
    full = sum(loss > 1 - SAME for loss in losses.values())
    return Claim(
        "COMP",
        "Theorem II.1, section III-A",
        "BASELINE, Laplace noise of 2 Δ/ε for mean and variance each, loses at most ε",
        f"at most {max(losses.values()):.4f} ε over {len(losses)} cells, by search; ε itself in "
        f"{full}",
        max(losses.values()) <= 1 + SAME,
    )


def _noise_claim(formula: OfCell, reading: Reading, how: str) -> Claim:
    ratio = {
        counts: tiny_cells.largest_move(tiny_cells.variances(counts), counts) / formula(counts, 1.0)
        for counts in tiny_cells.cells(users=2)
    }
    worst = max((counts for counts in ratio if len(counts) == 2), key=lambda counts: ratio[counts])
    n_short = sum(factor > 1 + SAME for factor in ratio.values())
    return Claim(
        "COMP",
        "Eq. (12)",
        f"The variance's noise, from Proposition III.1 {how}, is enough for half of ε",
        f"too small in {n_short} of {len(ratio)} cells; counts (3, 1) lose {ratio[3, 1]:.2f} times "
        f"what is stated, counts {worst} {ratio[worst]:.2f} times",
        not n_short,
        reading,
    )


def tail_claims(seed: int, share: float = 0.05, draws: int = 100_000) -> tuple[Claim, Claim]:
    """Return Proposition II.1, for several numbers together and for one.

    Of d Laplace noises of scale 1 the sum of sizes is above t with probability
    e^-t (1 + t + ... + t^(d-1)/(d-1)!), here seen in draws.
    """
    sizes = np.abs(np.random.default_rng(seed).laplace(size=(draws, 4)))
    room = 4 * math.sqrt(share * (1 - share) / draws)  # four standard errors of a share
    summed = {d: (sizes[:, :d].sum(axis=1) > -math.log(share)).mean() for d in (1, 2, 4)}
    largest = {d: (sizes[:, :d].max(axis=1) > math.log(d / share)).mean() for d in (1, 2, 4)}
    return (
        Claim(
            "COMP",
            "Proposition II.1",
            "For any number d of released numbers, the sum of the noises' sizes is above "
            "(Δ/ε) ln(1/δ) with probability at most δ",
            f"δ = {share}, {draws} draws: {_by_number(summed)}",
            all(frequency <= share + room for frequency in summed.values()),
        ),
        Claim(
            "COMP",
            "Proposition II.1",
            "The largest of d noises is above (Δ/ε) ln(d/δ) with probability at most δ; for one "
            "number that is what is printed",
            f"δ = {share}, {draws} draws: {_by_number(largest)}",
            all(frequency <= share + room for frequency in largest.values()),
            "corrected",
        ),
    )


def _by_number(frequencies: dict[int, float]) -> str:
    return ", ".join(f"d = {d}: {p:.3f}" for d, p in frequencies.items())
