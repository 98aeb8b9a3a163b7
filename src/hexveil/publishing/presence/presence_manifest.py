"""Manifest of a release with private presence: declared facts, stages and their exact losses.

It holds no count of records, users or bad rows, no fingerprint of an occupancy, no per-unit loss:
under this model these are private. Everything in it was declared, or follows from noisy numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hexveil.accounting.gaussian_composition import square_epsilon, square_of_pure
from hexveil.accounting.noise_law import Gaussian, Laplace, NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.contract import DONE, GaussianNoise, LaplaceNoise, Outputs, Stage
from hexveil.mechanisms.pooled_law import PooledLaw
from hexveil.mechanisms.presence.any_unit import AnyUnit
from hexveil.mechanisms.presence.count_map import CountAllocation, CountedAllocation
from hexveil.mechanisms.presence.pooled_ranges import BeyondRange
from hexveil.mechanisms.presence.presence_allocation import RESIDUALS, PresenceAllocation
from hexveil.mechanisms.presence.presence_design import DeclaredCap, PrivateCap
from hexveil.mechanisms.presence.shape_allocation import ShapeAllocation
from hexveil.publishing.manifest import (
    SCHEMA_VERSION,
    cell_grid,
    guarantee_section,
    release_manifest,
    selection_section,
)
from hexveil.publishing.presence.presence_table import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hexveil.base.arrays import Ints
    from hexveil.mechanisms.presence.contribution import CellWindow
    from hexveil.model.declared_grid import DeclaredFacts
    from hexveil.planning.presence.presence_plan import PresencePart

MODEL: Literal["presence"] = "presence"
CHOICE, LAPLACE, GAUSSIAN = "permute and flip", "discrete Laplace", "discrete Gaussian"
LARGEST_LOSS = 1e9


def presence_manifest(
    dataset: str,
    plan: PresencePart,
    outputs: Outputs,
    request: str,
    ledger: Mapping[str, Any] | None,
    accuracy: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the manifest as it is written to `manifest.json`.

    Parameters
    ----------
    dataset : str
        Name of the data set in the ledger.
    plan : PresencePart
    outputs : Outputs
        Released numbers of all stages.
    request : str
        Fingerprint of the request.
    ledger : mapping or None
        Position of the release in the ledger.
    accuracy : sequence of mapping
        An entry for each column of estimates (`map_accuracy`).
    """
    facts = plan.facts
    guarantee = guarantee_section(
        facts, plan.epsilon, plan.epsilon, protect=MODEL, delta=plan.delta
    )
    sections = {
        **presence_sections(facts),
        "plan": _plan(plan, outputs),
        "accuracy": [dict(statement) for statement in accuracy],
    }
    marks, booking = {"schema_version": SCHEMA_VERSION, "model": MODEL}, (request, ledger)
    return release_manifest(marks, dataset, facts, guarantee, sections, booking)


def presence_sections(facts: DeclaredFacts) -> dict[str, Any]:
    """Return the sections of a manifest about cells, which are declared before a release."""
    grid = facts.grid
    return {
        "grid": cell_grid(grid.table.grid)
        | {"cells": grid.n_cells, "fingerprint": grid.fingerprint(), "in_use": grid.is_in_use},
        "selection": selection_section(facts),
    }


def _plan(plan: PresencePart, outputs: Outputs) -> dict[str, Any]:
    request, stages = plan.request, plan.request.allocation()
    fleet = request.fleet
    # Beside other statistics numbers of units add a stage and their cap; the map is as without.
    allocation = stages.statistics if isinstance(stages, CountedAllocation) else stages
    capped = stages.counts if isinstance(stages, CountedAllocation) else None
    counted = {} if capped is None else {"cell_cap": capped.cell_cap}
    return {
        "statistics": list(plan.statistics),
        "columns": list(columns_of(plan.statistics)),
        **({"bins": allocation.n_used(outputs)} if isinstance(allocation, ShapeAllocation) else {}),
        "fleet": {
            "units": fleet.units,
            "records_per_unit": fleet.records_per_unit,
            "cells_per_unit": fleet.cells_per_unit,
        },
        "form": allocation.kind,
        "user_cap": _user_cap(plan),
        **counted,
        "parts": PARTS,
        "scale": allocation.law.scale,
        **_histogram(allocation, outputs),
        "open_from": allocation.open_from(outputs),
        "false_openings": allocation.false_openings,
        "prediction": plan.figures(),
        "stages": list(_stages(stages, outputs)),
    }


def _histogram(
    allocation: PresenceAllocation | CountAllocation | ShapeAllocation, outputs: Outputs
) -> dict[str, Any]:
    """Return the released histogram of a map of averages: what its ranges cut off follows."""
    if not isinstance(allocation, PresenceAllocation):
        return {}
    name, edges, votes = allocation.histogram(outputs)
    return {"histogram": {"stage": name, "edges": edges.tolist(), "votes": votes.tolist()}}


def stated_cut(plan: Mapping[str, Any], centres: Ints, window: CellWindow) -> BeyondRange | None:
    """Return what ranges cut off, by the histogram that `plan` in a manifest states.

    Parameters
    ----------
    plan : mapping
    centres : ndarray of int64
        What the ranges were chosen around.
    window : CellWindow

    Returns
    -------
    BeyondRange or None
        None of a histogram that no release has.
    """
    stated = plan["histogram"]
    edges, votes = (np.array(stated[name], dtype=np.int64) for name in ("edges", "votes"))
    stages = [stage for stage in plan["stages"] if stage["stage"] == stated["stage"]]
    is_sound = edges.size == votes.size + 1 and (np.diff(edges) > 0).all()
    if len(stages) != 1 or not is_sound:
        return None
    noise = law_of(stages[0]["noise"], stages[0]["scale"])
    origin = centres if stated["stage"] == RESIDUALS else np.zeros_like(centres)
    return BeyondRange.of(PooledLaw.of(edges / PARTS, votes, noise), origin, window)


def law_of(noise: str, scale: float) -> NoiseLaw:
    """Return the noise of a stage by its name in a manifest."""
    return Gaussian(scale) if noise == GAUSSIAN else Laplace(scale)


def _user_cap(plan: PresencePart) -> str:
    """Return the cap on users as text: none, private, or the declared records."""
    if not plan.request.has_map:
        return f"{plan.request.count_allocation().cell_cap} cells"
    # The cap that is used: without one of the caller's own it follows from the declarations.
    cap = plan.request.user_cap
    if isinstance(cap, DeclaredCap):
        return f"{cap.records} records"
    return "private" if isinstance(cap, PrivateCap) else "none"


def _stages(
    allocation: PresenceAllocation | CountAllocation | ShapeAllocation | CountedAllocation,
    outputs: Outputs,
) -> Iterator[dict[str, Any]]:
    """Yield each stage with its noise, its sensitivity and its loss, in order."""
    earlier = Outputs()
    while (stage := allocation.next_stage(earlier)) is not DONE:
        yield _stage(stage, earlier, allocation.delta)
        earlier = earlier.extended(stage.name, stage.entries, outputs[stage.name])


def _stage(stage: Stage, earlier: Outputs, delta: Fraction) -> dict[str, Any]:
    ((noise,), (report,)) = stage.noise(earlier), stage.sensitivity(earlier)
    if isinstance(noise, GaussianNoise):
        kind, scale = GAUSSIAN, float(noise.deviations.min())
    elif isinstance(noise, LaplaceNoise):
        kind, scale = LAPLACE, float(noise.scales.min())
    else:
        kind, scale = CHOICE, float(noise.scale)
    assert isinstance(report, AnyUnit)  # noqa: S101  of every stage of this model
    by = report.by if report.power == 1 else math.sqrt(report.by)
    stated = {"stage": stage.name, "noise": kind, "scale": scale, "sensitivity": by}
    return stated | stage_losses(kind, by, scale, delta)


TWICE = {CHOICE: 2}
"""A choice costs twice its sensitivity: some scores rise while others fall."""


def stage_losses(kind: str, by: float, scale: float, delta: Fraction) -> dict[str, float]:
    """Return the loss of a stage alone: ε, and its square of μ where a δ is promised.

    Parameters
    ----------
    kind : str
        Of its noise.
    by, scale : float
        Sensitivity and scale of the noise, in the same unit.
    delta : Fraction
        0 for a pure promise. ε of Gaussian noise is one at this δ.
    """
    # An enormous loss, which only a forged manifest states, is infinite here.
    if by > LARGEST_LOSS * scale:
        return {"epsilon": math.inf} | ({"squared_mu": math.inf} if delta else {})
    if kind == GAUSSIAN and delta:
        square = (by / scale) ** 2
        return {"epsilon": square_epsilon(Fraction(square), delta), "squared_mu": square}
    epsilon = TWICE.get(kind, 1) * by / scale
    return {"epsilon": epsilon} | ({"squared_mu": square_of_pure(epsilon)} if delta else {})
