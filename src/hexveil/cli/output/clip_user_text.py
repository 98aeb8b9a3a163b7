"""K, stages and both accounts of the loss of CLIP-USER as printed, as text and JSON data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hexveil.accounting.suppression.heavy_users import SuppressionSource
from hexveil.cli.output import formatting
from hexveil.planning.optimizers.printed_clip_user import printed_suppression

if TYPE_CHECKING:
    from hexveil.accounting.suppression.clip_user import Suppression
    from hexveil.accounting.suppression.suppression_stages import SuppressionStage
    from hexveil.planning import Plan

SHOWN_STAGES = 8
"""Longer runs are shown by their first and last stages; JSON data have all."""


def clip_user_lines(plan: Plan) -> list[str]:
    """Return lines about the paper's loss beside the exact one, and about the stages."""
    run, cell_epsilon = _suppression(plan), _cell_epsilon(plan)
    k, before = run.degradation, run.stages[0].degree
    return [
        *formatting.wrapped(
            "CLIP-USER",
            f"as printed: nobody contributes to more than K = {k} {_cells(k)}, instead of "
            f"{before}. The paper's loss is {formatting.price(float(plan.l0_epsilon))}, K times "
            f"{formatting.number_text(cell_epsilon)} (without suppression "
            f"{formatting.price(before * cell_epsilon)}); each user is charged its exact loss "
            f"instead, at most {formatting.price(float(plan.epsilon))}.",
        ),
        *formatting.wrapped("Stages", _stages_text(plan, run)),
    ]


def clip_user_json(plan: Plan) -> dict[str, Any]:
    """Return K, the stages and both accounts of the loss as JSON data; all of it is public."""
    run = _suppression(plan)
    return {
        "cell_epsilon": _cell_epsilon(plan),
        "unfinished_stage": plan.request.unfinished_stage,
        "exempt": plan.request.exempt,
        "degradation": run.degradation,
        "paper_epsilon": float(plan.l0_epsilon),
        "exact_epsilon": float(plan.epsilon),
        "stages": [asdict(stage) for stage in run.stages],
    }


def _suppression(plan: Plan) -> Suppression:
    source = SuppressionSource(plan.occupancy)
    return printed_suppression(source, float(plan.span[0]), plan.request)


def _cell_epsilon(plan: Plan) -> float:
    assert plan.request.cell_epsilon is not None  # noqa: S101  of the printed form
    return float(plan.request.cell_epsilon)


def _stages_text(plan: Plan, run: Suppression) -> str:
    """Return the quantity that each stage lowers, and the fate of the halted stage."""
    stages = [_stage_text(stage) for stage in run.stages]
    if len(stages) > SHOWN_STAGES:
        half = SHOWN_STAGES // 2
        stages = [*stages[:half], "...", *stages[-half:]]
    fate = "stay" if plan.request.unfinished_stage == "keep" else "are undone"
    last = f" Suppressions of the halted stage {fate}." if run.stages[-1].suppressed else ""
    untouched = (
        "No cell is exempt, as in Algorithm 1."
        if run.exempt is None
        else "Nobody is suppressed in the cell of smallest error beforehand, as in the paper's "
        'experiments; exempt = "none" is Algorithm 1 as printed.'
    )
    return f"{'; '.join(stages)}.{last} {untouched}"


def _stage_text(stage: SuppressionStage) -> str:
    lowered = f"to {stage.degree - 1}" if stage.finished else "halted"
    return (
        f"{stage.degree} {_cells(stage.degree)} {lowered} "
        f"({stage.suppressed:,} of {stage.users:,} users)"
    )


def _cells(number: int) -> str:
    return "cell" if number == 1 else "cells"
