"""COMP's figures and claims: the studies, and figures 3 to 8 on the synthetic setting.

Source: COMP section VI (gamma = 3, 6, 9; q = 0.01; ten draws; U = 65), with ERRATA 1 to 4. What the
paper leaves open is in `runs`; figures 1 and 2 are in `busiest_hour`, claims without a figure in
`cell_claims`, `noise_claims` and `cap_claims` (one cell), `composition_claims` and
`suppression_claims` (many).
Counts only: everything here is public and costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.arrays import Floats
from hexveil_research.papers.comp import (
    busiest_hour,
    cap_claims,
    cell_claims,
    composition_claims,
    noise_claims,
)
from hexveil_research.papers.comp.axes import (
    error_claims,
    error_panel,
    loss_claims,
    loss_panel,
)
from hexveil_research.papers.comp.runs import (
    EPSILONS,
    GAMMAS,
    Run,
    column,
    least_error,
    least_loss,
    occupancy_of,
    seeds,
    shown_gamma,
    synthetic_runs,
)
from hexveil_research.papers.study import Claim, Outcome, Setting, Study

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
    one_cell = (*cell_claims.claims(), *noise_claims.claims(setting.seed), *cap_claims.claims())
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
