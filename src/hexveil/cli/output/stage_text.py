"""Lines of `hexveil plan` about stages: CLIP-USER's as printed, and those of a mechanism."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.cli.output import formatting
from hexveil.planning.allocation import CellMechanisms
from hexveil.planning.optimizers.printed_clip_user import printed_suppression
from hexveil.publishing.privacy_steps import privacy_steps

if TYPE_CHECKING:
    from hexveil.planning import Plan


def suppression_lines(plan: Plan) -> list[str]:
    """Return K and the stages of CLIP-USER as printed, and both accounts of its loss."""
    if plan.request.cell_epsilon is None:
        return []
    done = printed_suppression(plan.occupancy.local(), float(plan.span[0]), plan.request)
    stages = "; ".join(
        f"{stage.suppressed:,} of {stage.users:,} users of {stage.degree} cells lose one"
        for stage in done.stages
    )
    halted = "kept" if plan.request.unfinished_stage == "keep" else "undone"
    return formatting.wrapped(
        "CLIP-USER",
        f"as printed, K = {done.degradation} cells of "
        f"{formatting.number_text(float(plan.request.cell_epsilon))} each: the paper's loss is "
        f"{formatting.price(float(plan.l0_epsilon))}, the exact one "
        f"{formatting.price(float(plan.epsilon))}. Stages: {stages} (the last one was halted, and "
        f"is {halted}).",
    )


def mechanism_lines(plan: Plan) -> list[str]:
    """Return the stages of a mechanism of one cell with their cost, and how sure its errors are."""
    match plan.allocation.clipping:
        case CellMechanisms(cells=cells):
            step = privacy_steps(plan)[0] if plan.epsilon else {"stages": []}
        case _:
            return []
    stages = ", ".join(
        f"{stage['stage']} at {formatting.price(float(Fraction(stage['epsilon'])))}"
        for stage in step["stages"]
    )
    model = plan.error_models["mean"]
    n_proven = int(getattr(model, "proven", np.ones(len(cells.plans), dtype=bool)).sum())
    if n_proven == len(cells.plans):
        certainty = "The expected error is a proven worst case."
    else:
        where = "" if not n_proven else f" in {len(cells.plans) - n_proven:,} cells"
        certainty = (
            f"The expected error is a prediction{where}, for users whose values are uniform over "
            "an unknown range within the bounds, not a bound."
        )
    price = formatting.price(float(cells.cell_epsilon))
    loss = f", each cell by itself at epsilon {price}" if len(cells.plans) > 1 else ""
    return formatting.wrapped(
        "Mechanism",
        f"{plan.mechanism}{loss}. Stages and the most that each costs a "
        f"user: {stages}. {certainty}",
    )
