"""CLIP-USER as printed: a loss per cell, and suppressed users left out of its averages.

Source: COMP Algorithm 1, section V-B.3 and eq. (6)-(8), with ERRATA 1, 2, 4 and 9. Every cell has
the loss ε, half of it for each statistic. Sums are divided by n, what contributes, and not by all
records. Where a cap keeps Γ of a user's m samples, the user's mean has the weight Γ/n; the
variance's sensitivity is then that of weights, w (1 - w), and not COMP Proposition III.1.

The stated loss is never above K ε: a user with the largest Γ in each of K cells loses exactly K ε
in exact numbers, and what is booked is rounded up. So noise is scaled for a little less than ε.
Rounding a user's loss up takes eight ulps of each pair, K + 4 ulps of the sum and half an ulp of
each of its K additions; a pair itself is off by less than eight. That is less than 2 K + 32 ulps.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.clip_user import Suppression, clip_user
from hexveil.accounting.heavy_users import SuppressionSource
from hexveil.accounting.privacy_loss import VARIANCE_LATTICE, KeptRecords, contributes_wholly
from hexveil.accounting.residual_cap import caps_of_remaining
from hexveil.accounting.sensitivity import variance_sensitivity_bound, variance_share
from hexveil.base.errors import InputError
from hexveil.base.rational import ULP
from hexveil.mechanisms.looks.bounds import ContributedSamples
from hexveil.planning.allocation import PlanAllocation
from hexveil.planning.plan_rows import PlanningProblem, full_factors
from hexveil.planning.request import Request

if TYPE_CHECKING:
    from hexveil.planning.plan_data import MomentFigures

LOSSES_PER_CELL = 24
"""Losses of one cell that are tried from ε down, before the best is refined."""
DIGITS = 3
"""Digits of a loss per cell that is searched for: enough to spend ε, and few enough to type."""


def printed_suppression(source: SuppressionSource, span: float, request: Request) -> Suppression:
    """Return the stages of CLIP-USER, and K, for a request of the printed form."""
    assert request.cell_epsilon is not None  # noqa: S101  checked with the request
    return clip_user(
        source,
        span,
        request.cell_epsilon,
        unfinished_stage=request.unfinished_stage,
        exempt=request.exempt,
    )


def allocate_printed(source: SuppressionSource, span: float, request: Request) -> PlanAllocation:
    """Return CLIP-USER's suppressions and caps, with the noise of a loss per cell.

    Raises
    ------
    InputError
        If the loss per cell is too small for the lattice of its variance.
    """
    cell_epsilon = request.cell_epsilon
    assert cell_epsilon is not None  # noqa: S101  checked with the request
    occupancy, suppression = source.occupancy, printed_suppression(source, span, request)
    # What is booked is rounded up, and must stay within K ε (module head).
    half = float(cell_epsilon / 2) * (1.0 - (2 * suppression.degradation + 32) * ULP)
    # A user is charged the lattice of each published variance beside its noise.
    if half <= 2 * VARIANCE_LATTICE:
        raise InputError(
            f"cell_epsilon {float(cell_epsilon):.3g} is too small to publish a variance; ask for "
            f"more than {4 * VARIANCE_LATTICE:.3g}."
        )
    suppressed = suppression.suppressed
    caps, total = caps_of_remaining(occupancy, suppressed, span, cell_epsilon)
    kept = KeptRecords(caps, full_factors(occupancy), np.zeros(caps.size), suppressed)
    moved = np.where(
        occupancy.map_cells(partial(contributes_wholly, kept=kept)),
        variance_share(caps, total),
        variance_sensitivity_bound(caps / total),
    )
    variance_noise = moved / (half - VARIANCE_LATTICE)
    return PlanAllocation(
        mechanism="CLIP-USER as printed",
        contribution_cap=caps,
        noise_scale_records=np.nextafter(caps / half, np.inf),
        variance_cap=caps,
        # The variance of one contributed sample is 0: it is published so.
        variance_noise=np.where(moved > 0, np.nextafter(variance_noise, np.inf), 0.0),
        contribution_factor=kept.factor,
        suppressed_pairs=suppressed,
        cell_epsilon=Fraction(cell_epsilon),
        clipping=ContributedSamples(),
    )


def cell_epsilon_within(problem: PlanningProblem, epsilon: Fraction) -> Fraction:
    """Return the largest loss of one cell found with an exact loss over all cells within ε.

    With the loss of one cell the suppressions change, so that the exact loss jumps, up or down:
    losses are tried from ε down, and the first that fits is refined.
    """
    source, span = SuppressionSource(problem.occupancy), float(problem.span[0])

    def fits(cell_epsilon: Fraction) -> bool:
        printed = replace(problem, request=problem.request.at_cell_epsilon(cell_epsilon))
        allocation = allocate_printed(source, span, printed.request)
        return allocation.most_booked(printed) <= epsilon

    # A user of all records in a cell loses ε there, and nobody more than K ε.
    largest = int(problem.occupancy.cells_per_user.max())
    tried = [
        _in_few_digits(float(epsilon) * largest ** (-step / LOSSES_PER_CELL))
        for step in range(LOSSES_PER_CELL + 1)
    ]
    best = next((index for index, cell_epsilon in enumerate(tried) if fits(cell_epsilon)), -1)
    low, high = tried[best], tried[max(best - 1, 0)]
    while low < (middle := _in_few_digits(math.sqrt(low * high))) < high:
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _in_few_digits(number: float) -> Fraction:
    """Return a number rounded down to `DIGITS` digits."""
    return Fraction(Context(prec=DIGITS, rounding=ROUND_DOWN).create_decimal(Decimal(number)))


# ---- of a plan ----


def suppression_of(plan: MomentFigures) -> Suppression:
    """Return the stages of a plan by CLIP-USER as printed."""
    source = SuppressionSource(plan.occupancy)
    return printed_suppression(source, float(plan.span[0]), plan.request)


def loss_per_cell(plan: MomentFigures) -> float:
    """Return the loss of one cell that such a plan was asked for."""
    assert plan.request.cell_epsilon is not None  # noqa: S101  of the printed form
    return float(plan.request.cell_epsilon)


def clip_user_json(plan: MomentFigures) -> dict[str, Any] | None:
    """Return K, the stages and both accounts of the loss as JSON data; None of other forms."""
    if plan.request.clip_user != "printed":
        return None
    run = suppression_of(plan)
    return {
        "cell_epsilon": loss_per_cell(plan),
        "unfinished_stage": plan.request.unfinished_stage,
        "exempt": plan.request.exempt,
        "degradation": run.degradation,
        "paper_epsilon": float(plan.l0_epsilon),
        "exact_epsilon": float(plan.epsilon),
        "stages": [asdict(stage) for stage in run.stages],
    }
