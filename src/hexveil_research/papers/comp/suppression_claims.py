"""Claims of COMP on CLIP-USER's rules: which cell is taken, when it halts, by which error.

Source: COMP sections III-A, V and VI-A.3, with ERRATA 2 and 4, on draws of the synthetic setting.
Eq. (14) as printed stands here.
Symbols: G_1 the most cells of a user, K the same after CLIP-USER, E the largest error over cells,
Ē after the caps, ε the loss of one cell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, get_args

import numpy as np

from hexveil import theory
from hexveil.accounting.clip_user import ErrorKind
from hexveil.base.arrays import Floats
from hexveil_research.papers.comp.runs import (
    EPSILONS,
    GAMMAS,
    Run,
    column,
    exact_loss,
    kept_part,
    seeds,
    sensitivities,
)
from hexveil_research.papers.comp_setting import SPAN, comp_setting
from hexveil_research.papers.study import Claim, Setting

if TYPE_CHECKING:
    from hexveil import Occupancy

    Runs = tuple[tuple[Run, ...], ...]

CLOSE = 1e-9
"""Room for rounding in comparisons that are exact on paper."""
FEW_EPSILONS = EPSILONS[::5]
"""0.1, about 0.3, and 1."""
UNIT = 100.0
"""km/h in another unit of speed, in which the mean's error outweighs the variance's."""


def claims(setting: Setting, first_draws: dict[int, Occupancy], every: Runs) -> tuple[Claim, ...]:
    """Return the claims about CLIP-USER's rules.

    Parameters
    ----------
    setting : Setting
    first_draws : dict of int to Occupancy
        The first draw of each gamma.
    every : sequence of sequence of Run
        The runs on all draws of all gammas.
    """
    return (
        raised_claim(every),
        *choice_claims(every, setting),
        bound_claim(first_draws),
        unfinished_claim(first_draws),
        *unit_claims(first_draws),
        split_claim(first_draws),
        capped_claim(every),
    )


def raised_claim(every: Runs) -> Claim:
    """Return the remark that the errors of single cells may grow."""
    raised = column(every, "raised")
    return Claim(
        "COMP",
        "Section V-B.1",
        "CLIP-USER may raise the error of single cells, though never the largest above E",
        f"{raised.mean():.1f} of 12 cells on average",
        bool(raised.any()),
    )


def cell_error(kept_counts: list[int], counts: list[int], epsilon: float) -> float:
    """Return a cell's error after suppression: eq. (13), with ERRATA 1 and 4."""
    # A user of whom nothing is kept has no part in the sensitivity, but in the bias.
    live = [g for g in kept_counts if g]
    noise = theory.mean_sensitivity(live, SPAN) + theory.variance_sensitivity(live, SPAN)
    bias = theory.truncation_mean_bias(kept_counts, counts, SPAN)
    return bias + theory.truncation_variance_bias(kept_counts, counts, SPAN) + 2 * noise / epsilon


def first_stage(
    occupancy: Occupancy, epsilon: float, choose: Callable[[Floats], np.intp] = np.argmax
) -> bool:
    """Return whether CLIP-USER's first user may be suppressed, by this choice of the cell.

    The synthetic setting has one user of most cells; if its first suppression is above E the run
    halts with K = G_1. `np.argmax` is eq. (14) as printed, `np.argmin` what is meant.
    """
    mean, variance = sensitivities(occupancy, SPAN)
    initial = 2 * (mean + variance) / epsilon
    user = int(occupancy.cells_per_user.argmax())
    errors = np.empty(occupancy.n_cells)
    for g in range(occupancy.n_cells):
        pairs = slice(occupancy.start[g], occupancy.start[g + 1])
        counts = occupancy.n[pairs]
        # A step of the algorithm takes all records of the user out of one cell.
        kept_counts = np.where(occupancy.user[pairs] == user, 0, counts)
        errors[g] = cell_error(kept_counts.tolist(), counts.tolist(), epsilon)
    return bool(errors[choose(errors)] <= initial.max())


def choice_claims(every: Runs, setting: Setting) -> tuple[Claim, Claim]:
    """Return eq. (14) as printed and as meant (ERRATA 2)."""
    accepted = [
        first_stage(occupancy, float(epsilon))
        for occupancy in (comp_setting(GAMMAS[0], seed) for seed in seeds(setting))
        for epsilon in FEW_EPSILONS
    ]
    k, initial_cells = column(every, "degradation"), column(every, "cells")
    return (
        Claim(
            "COMP",
            "Eq. (14)",
            "Suppressing where the error would be largest, as printed, lowers the loss",
            f"the first suppression is above E, and the run halts with K = G_1, in "
            f"{len(accepted) - sum(accepted)} of {len(accepted)} runs at gamma = {GAMMAS[0]}",
            all(accepted),
        ),
        Claim(
            "COMP",
            "Eq. (14)",
            "Suppressing where the error would be least, as Algorithm 1 has it, lowers the loss "
            "(ERRATA 2)",
            f"K is {k.min():.0f} to {k.max():.0f} where G_1 = {initial_cells.max():.0f}, in "
            f"{k.size} runs",
            bool((k < initial_cells).all()),
            "corrected",
        ),
    )


def bound_claim(first_draws: dict[int, Occupancy]) -> Claim:
    """Return footnote 3: any bound on the errors will do in place of E."""
    over, fewer, n_runs = 0.0, 0, 0
    for occupancy in first_draws.values():
        for epsilon in FEW_EPSILONS:
            usual = theory.clip_user(occupancy, SPAN, epsilon)
            bound = 2 * float((usual.mean_errors + usual.variance_errors).max())
            loose = theory.clip_user(occupancy, SPAN, epsilon, bound=bound)
            over = max(over, float((loose.mean_errors + loose.variance_errors).max()) / bound)
            fewer += loose.degradation < usual.degradation
            n_runs += 1
    return Claim(
        "COMP",
        "Section V-B, footnote 3",
        "CLIP-USER keeps any bound on the errors, and trades a larger one for a smaller K",
        f"with twice E the largest error is at most {over:.3f} of the bound, and K is smaller in "
        f"{fewer} of {n_runs} runs",
        over <= 1 + CLOSE and fewer > 0,
    )


def unfinished_claim(first_draws: dict[int, Occupancy]) -> Claim:
    """Return the claim about suppressions of the halted stage (ERRATA 2)."""
    ratios = np.array(
        [
            _unfinished(occupancy, epsilon)
            for occupancy in first_draws.values()
            for epsilon in FEW_EPSILONS
        ]
    )
    return Claim(
        "COMP",
        "Algorithm 1, lines 12 to 15",
        "Undoing the suppressions of the stage that is halted leaves K as it is (ERRATA 2)",
        f"K is the same in {(ratios[:, 0] == 1).sum()} of {len(ratios)} runs; kept, they would "
        f"leave {ratios[:, 1].mean():.2f} times the average error over cells and "
        f"{ratios[:, 2].mean():.2f} times the exact loss",
        bool((ratios[:, 0] == 1).all()),
        "ours",
    )


def _unfinished(occupancy: Occupancy, epsilon: str) -> tuple[float, float, float]:
    """Return K, the average error and the exact loss of keeping, over those of undoing."""
    keeping, undoing = (
        theory.clip_user(occupancy, SPAN, epsilon, unfinished_stage=kind)
        for kind in ("keep", "undo")
    )
    errors = [(result.mean_errors + result.variance_errors).mean() for result in (keeping, undoing)]
    losses = [
        exact_loss(kept_part(occupancy, result.contributions), SPAN, float(epsilon))
        for result in (keeping, undoing)
    ]
    return keeping.degradation / undoing.degradation, errors[0] / errors[1], losses[0] / losses[1]


def unit_claims(first_draws: dict[int, Occupancy]) -> tuple[Claim, Claim]:
    """Return eq. (11)'s sum of unlike units, and errors judged each on its own (ERRATA 4)."""
    changed = {
        kind: sum(
            _changes(occupancy, epsilon, kind)
            for occupancy in first_draws.values()
            for epsilon in FEW_EPSILONS
        )
        for kind in get_args(ErrorKind)
    }
    n_runs = len(first_draws) * len(FEW_EPSILONS)
    return (
        Claim(
            "COMP",
            "Eq. (11), (12)",
            "Which records CLIP-USER suppresses does not depend on the unit of speed",
            f"another choice in 100 km/h than in km/h in {changed['sum']} of {n_runs} runs: an "
            "error in the unit is added to one in its square (ERRATA 4)",
            not changed["sum"],
        ),
        Claim(
            "COMP",
            "Eq. (11), (12)",
            "With a target for each statistic it does not depend on the unit of speed",
            f"another choice in {changed['separate']} of {n_runs} runs",
            not changed["separate"],
            "corrected",
        ),
    )


def _changes(occupancy: Occupancy, epsilon: str, kind: ErrorKind) -> bool:
    """Return whether another unit of speed changes the suppression."""
    in_kmh, in_unit = (
        theory.clip_user(occupancy, span, epsilon, error=kind).contributions > 0
        # The same speeds in another unit: the width of the bounds is all that changes.
        for span in (SPAN, SPAN / UNIT)
    )
    return not np.array_equal(in_kmh, in_unit)


def split_claim(first_draws: dict[int, Occupancy]) -> Claim:
    """Return the remark that halves of ε are not the best split."""
    gains = []
    for occupancy in first_draws.values():
        mean, variance = sensitivities(occupancy, SPAN)
        # The least of a/p + b/(1 - p) over the parts p of ε is (√a + √b)².
        gains.append((2 * (mean + variance)).max() / ((mean**0.5 + variance**0.5) ** 2).max())
    return Claim(
        "COMP",
        "Section III-A",
        "Other parts of ε than a half for mean and variance lower the worst-case error",
        f"E falls to {1 / max(gains):.3f} to {1 / min(gains):.3f} of it with the best parts",
        min(gains) > 1,
    )


def capped_claim(every: Runs) -> Claim:
    """Return the claim of section V-B.3: caps lower errors, or leave them."""
    share = column(every, "capped") / column(every, "largest")
    return Claim(
        "COMP",
        "Section V-B.3",
        "The best cap of each cell never raises the worst-case error that CLIP-USER leaves",
        f"Ē is {share.min():.2f} to {share.max():.2f} of it in {share.size} releases",
        bool((share <= 1 + CLOSE).all()),
    )
