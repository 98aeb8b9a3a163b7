"""The entry of means and variances in a manifest, and the columns it states. Public facts only.

Each step that looks at values is stated with its largest cost to a user, rounded up, its share of
the total, and its released outputs: ranges, and a histogram. Outputs were drawn with noise, and are
public. Under a δ squares of μ add up, and each epsilon is that of one step alone; a choice is
purely private, and so is its epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.accounting.promise import of_amount
from hexveil.base.rational import decimal_text
from hexveil.ledger.unit_losses import PICO_EPSILON
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.allocation import grids_of
from hexveil.planning.distribution_component import DistributionComponent
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.request import Request
from hexveil.publishing.estimates.decoded_moments import smoothing_statement
from hexveil.publishing.estimates.table import STATISTICS, TODAY
from hexveil.publishing.kinds.guarantee import epsilon_text, loss_section
from hexveil.smoothing import Smoothed

if TYPE_CHECKING:
    Json = dict[str, Any]


def moment_entry(
    facts: PublicMetadata,
    plan: MomentComponent,
    smoothed: Mapping[str, Smoothed] | None = None,
    accuracy: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the entry of means and variances in a manifest.

    Parameters
    ----------
    facts : PublicMetadata
    plan : MomentComponent
    smoothed : mapping of str to Smoothed
        Estimates that were asked for beside the raw ones.
    accuracy : sequence of mapping
        An entry for each statistic (publishing/estimates/accuracy.py).
    """
    return {
        "l0_epsilon": epsilon_text(plan.l0_epsilon),
        "rules": dict(facts.rules),
        "plan": plan_section(plan, plan.with_lower_bound()),
        "losses": loss_section(plan),
        "cells": planned_cells(facts, plan),
        "accuracy": [dict(statement) for statement in accuracy],
        "cut_off": cut_off_section(plan, accuracy),
        "smoothing": smoothing_statement(
            plan,
            smoothed or {},
            posterior=any(statement["basis"] == "posterior" for statement in accuracy),
        ),
        **occupancy_sections(plan),
    }


def plan_section(plan: MomentComponent, bounded: MomentComponent) -> dict[str, Any]:
    """Return the section of a manifest about a plan.

    Parameters
    ----------
    plan : MomentComponent
    bounded : MomentComponent
        The same with the lower bound that is stated.
    """
    support = plan.support
    return {
        "method": plan.method,
        "mechanism": plan.mechanism,
        "statistics": list(plan.statistics),
        "request": _request(plan.request),
        "mean_error": plan.expected_error,
        "max_error": plan.worst_case_error,
        "certifies": plan.bound_kind,
        "lower_bound": bounded.lower_bound,
        "gap": bounded.gap,
        "baseline_error": support.baseline_error,
        "noise_floor": support.floor,
        "cells_better_than_constant": support.better,
        "privacy_steps": privacy_steps(plan),
    }


def _request(request: Request) -> dict[str, Any]:
    """Return the request: an epsilon, or targets by statistic with their smallest and largest."""
    return {
        "clipping_range": request.clipping_range,
        "epsilon": None if request.epsilon is None else decimal_text(request.epsilon),
        "targets": request.target_ranges,
        "objective": request.objective,
        "split": None if request.split is None else decimal_text(request.split),
        **({"history": list(request.history)} if request.history else {}),
    }


def occupancy_section(users: NDArray[Any], records: NDArray[Any]) -> dict[str, int]:
    """Return the section of a manifest about the sums of users and records over all cells."""
    return {"pairs": int(users.sum()), "records": int(records.sum())}


def occupancy_sections(plan: MomentComponent | DistributionComponent) -> dict[str, Any]:
    """Return the sections of a manifest about occupancy."""
    occupancy = plan.occupancy
    return {
        "occupancy": occupancy_section(occupancy.users_per_cell, occupancy.records_per_cell),
        "occupancy_fingerprint": occupancy.fingerprint,
    }


def cut_off_section(
    plan: MomentComponent, accuracy: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return how many cells of each statistic a private range cut off; empty without a range."""
    if not plan.allocation.clipping.strategy:
        return []
    return [
        {"statistic": statement["statistic"], "cells": statement["grades"]["cut_off"]}
        for statement in accuracy
    ]


def _numbers_or_none(numbers: NDArray[np.float64]) -> list[float | None]:
    """Return numbers, with None where published means lie on a curve and on no grid."""
    return [number if math.isfinite(number) else None for number in numbers.tolist()]


def planned_cells(facts: PublicMetadata, plan: MomentComponent) -> list[dict[str, Any]]:
    """Return the plan of each cell, with an entry for each noised statistic."""
    thresholds = {"mean": plan.contribution_cap, "variance": plan.allocation.variance_cap}
    grids = grids_of(plan, facts.lattice)
    own = plan.allocation.clipping.cell_entries(plan)
    columns_by_statistic = [
        own
        | {
            "statistic": [name] * plan.occupancy.n_cells,
            "contribution_cap": thresholds[name].tolist(),
            "scale": statistic.scale.tolist(),
            "bias": statistic.bias.tolist(),
            "bound95": statistic.bound95.tolist(),
            "grid_start": _numbers_or_none(grids[name].start),
            "grid_step": _numbers_or_none(grids[name].step),
        }
        for name, statistic in plan.error_models.items()
    ]
    rows = zip(
        facts.cells.names(),
        plan.cell_mechanisms,
        plan.lower.tolist(),
        plan.upper.tolist(),
        strict=True,
    )
    return [
        {
            "cell": name,
            "mechanism": mechanism,
            "lower": lower,
            "upper": upper,
            "noised": [
                {key: column[g] for key, column in statistic.items()}
                for statistic in columns_by_statistic
            ],
        }
        for g, (name, mechanism, lower, upper) in enumerate(rows)
    ]


def privacy_steps(plan: MomentComponent) -> list[dict[str, Any]]:
    """Return each private step, its cost to the most exposed user, and its share."""
    if not plan.epsilon:
        return []
    total = of_amount(plan.booked_limit if plan.delta else plan.epsilon, plan.delta)
    made = []
    for step in plan.allocation.clipping.steps(plan, total.amount):
        epsilon, share = of_amount(step.cost, plan.delta).epsilon, float(step.cost / total.amount)
        square = {"squared_mu": float(step.cost)} if plan.delta else {}
        stated = (
            {"step": step.name, "epsilon": epsilon, "share": share} | square | dict(step.outputs)
        )
        made.append(_rounded_up(stated))
    return made


def _rounded_up(stated: Any) -> Any:  # noqa: ANN401  what a step states
    """Return the same with each epsilon as text, up to the ledger's precision: none too small."""
    if isinstance(stated, Fraction):
        return decimal_text(Fraction(math.ceil(stated * PICO_EPSILON), PICO_EPSILON))
    if isinstance(stated, dict):
        return {name: _rounded_up(one) for name, one in stated.items()}
    return [_rounded_up(one) for one in stated] if isinstance(stated, list) else stated


def typed_columns(manifest: Json) -> dict[str, pa.DataType]:
    """Return the columns of a release of means and variances, with their types."""
    return types_of(("users", "records", *moment_columns(manifest)))


def types_of(names: Iterable[str]) -> dict[str, pa.DataType]:
    """Return the types of columns where occupancy is public."""
    return {
        name: pa.int64() if name in ("users", "records")
        else pa.string() if name.endswith("_quality") else pa.float64()
        for name in names
    }  # fmt: skip


def moment_columns(manifest: Json) -> tuple[str, ...]:
    """Return the columns of means and variances that follow from the manifest, in order."""
    statistics = manifest["plan"]["statistics"]
    smoothed = {entry["statistic"] for entry in manifest["smoothing"]}
    has_posterior = any(entry["basis"] == "posterior" for entry in manifest["accuracy"])
    names: list[str] = []
    for statistic in statistics:
        keys = [*STATISTICS[statistic]]
        if statistic == "mean" and has_posterior:
            keys[keys.index("low") : keys.index("low")] = ["estimate", "expected_error"]
        if {"sd": "variance"}.get(statistic, statistic) in smoothed:
            keys.append("smoothed")
        names += [f"{statistic}_{key}" for key in keys]
        if statistic == "mean" and manifest.get("memory", {}).get("releases"):
            names += TODAY
    return tuple(names)
