"""Manifest of a release with private presence, and its identity: declared facts alone, as text.

The manifest holds declared facts, stages and their exact losses; no count of records, users or bad
rows, no fingerprint of an occupancy, no per-unit loss: under this model these are private.
Everything in it was declared, or follows from noisy numbers.

The identity of a request with public occupancy names the occupancy. Here nothing of the records may
enter, so a holder names them: another edition of the records is another `source`, or another
version. Stages and shares of ε are part of it, and `STAGES_VERSION` stands for the constants and
the arithmetic of the mechanism: a version that plans or measures otherwise must not finish what
another began, since their stages together could lose more than was booked. No name of a module is.
"""

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.gaussian_composition import square_epsilon, square_of_pure
from hexveil.accounting.noise_law import Gaussian, Laplace, NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.mechanisms.pooled_law import BeyondRange, PooledLaw, nothing_beyond
from hexveil.mechanisms.presence import AnyUnit, AnyUnitPlan
from hexveil.mechanisms.presence.contribution import CellWindow
from hexveil.mechanisms.presence.count_map import CountedAllocation
from hexveil.mechanisms.presence.presence_allocation import RESIDUALS
from hexveil.mechanisms.stage_data import Outputs
from hexveil.planning.plan import Plan
from hexveil.planning.presence.presence_plan import PresenceComponent
from hexveil.planning.presence.presence_request import PresenceRequest
from hexveil.publishing.kinds.presence_table import columns_of
from hexveil.publishing.kinds.value_manifest import drawn_stages

LAPLACE, GAUSSIAN = "discrete Laplace", "discrete Gaussian"
LARGEST_LOSS = 1e9
STAGES_VERSION = "4"
"""To be raised when a constant or the arithmetic of a stage changes; a test compares constants."""
FORM = re.compile(r"(Form\((?:[^()]|\([^()]*\))*)\)")
"""The form of a map in the text of its stages."""


def presence_entry(
    plan: PresenceComponent,
    outputs: Outputs,
    accuracy: Sequence[Mapping[str, Any]],
    memory: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the entry of a map with private presence in a manifest.

    Parameters
    ----------
    plan : PresenceComponent
    outputs : Outputs
        Released numbers of all stages.
    accuracy : sequence of mapping
        An entry for each column of estimates (`map_accuracy`).
    memory : mapping, optional
        Section of averages that later days will remember.
    """
    remembers = bool(memory and memory["releases"])
    request, stages = plan.request, plan.request.allocation()
    # Beside other statistics numbers of units add a stage and their cap; the map is as without.
    is_counted = isinstance(stages, CountedAllocation)
    allocation = stages.statistics if isinstance(stages, CountedAllocation) else stages
    cell_cap = request.count_allocation().cell_cap if is_counted or not request.has_map else 0
    stated = {
        "statistics": list(plan.statistics),
        "columns": list(columns_of(plan.statistics, remembers=remembers)),
        "fleet": dataclasses.asdict(request.fleet),
        "form": allocation.kind,
        "user_cap": "none" if request.has_map else f"{cell_cap} cells",
        **({"cell_cap": cell_cap} if is_counted else {}),
        "parts": PARTS,
        "scale": allocation.law.scale,
        **allocation.statement(outputs),
        "open_from": allocation.open_from(outputs),
        "false_openings": allocation.false_openings,
        "prediction": plan.figures(),
        "stages": list(_stages(stages, outputs)),
    }
    entry = {"plan": stated, "accuracy": [dict(statement) for statement in accuracy]}
    return entry | ({} if memory is None else {"memory": dict(memory)})


def stated_ranges(
    plan: Mapping[str, Any],
    numbers: Callable[[str], Floats],
    is_open: NDArray[np.bool_],
    bounds: tuple[float, float],
) -> tuple[CellWindow, Ints, BeyondRange]:
    """Return the ranges that a table states, their centres, and the excess beyond them.

    Parameters
    ----------
    plan : mapping
        Of a manifest: what is cut off follows from the histogram in it.
    numbers : callable
        Returns a column by its name.
    is_open : ndarray of bool, shape (n_cells,)
        Closed cells have the whole bounds.
    bounds : tuple of float

    Raises
    ------
    InputError
        Of ranges, or of a histogram, that no release has.
    """
    lower, span = bounds[0], bounds[1] - bounds[0]
    centres, low, high = (
        as_integers((numbers(name) - lower) / span * PARTS)
        for name in ("mean_centre", "mean_range_low", "mean_range_high")
    )
    low, high = np.where(is_open, low, 0), np.where(is_open, high, PARTS)
    if not ((low >= 0) & (low < high) & (high <= PARTS)).all():
        raise InputError("mean_range_low and mean_range_high are no range within the bounds.")
    window = CellWindow(is_open.astype(np.int64), low, high)
    if "within" in plan:
        return window, centres, nothing_beyond(is_open.size, plan["within"])
    stated = plan["histogram"]
    edges, votes = (np.array(stated[name], dtype=np.int64) for name in ("edges", "votes"))
    noise = stage_law(plan, stated["stage"])
    if noise is None or edges.size != votes.size + 1 or (np.diff(edges) <= 0).any():
        raise InputError("plan/histogram is not that of one of plan/stages.")
    origin = centres if stated["stage"] == RESIDUALS else np.zeros_like(centres)
    cut = BeyondRange.of(PooledLaw.of(edges / PARTS, votes, noise), origin, window.low, window.high)
    return window, centres, cut


def as_integers(numbers: NDArray[Any]) -> Ints:
    """Return whole numbers that stay so in every sum; 0 for those of closed cells."""
    integers: Ints = np.rint(np.clip(np.nan_to_num(numbers), -(2.0**60), 2.0**60)).astype(np.int64)
    return integers


def stage_law(plan: Mapping[str, Any], name: str = "") -> NoiseLaw | None:
    """Return the noise of the stage of a name, of the published map without one; None of none."""
    stages = [stage for stage in plan["stages"] if stage["stage"] == name]
    stages = stages if name else plan["stages"][-1:]
    if len(stages) != 1:
        return None
    return (Gaussian if stages[0]["noise"] == GAUSSIAN else Laplace)(float(stages[0]["scale"]))


def _stages(allocation: AnyUnitPlan, outputs: Outputs) -> Iterator[dict[str, Any]]:
    """Yield each stage with its noise, its sensitivity and its loss, in order."""
    for stage in drawn_stages(allocation, outputs):
        assert isinstance(stage.report, AnyUnit)  # noqa: S101  as of all in this model
        scale, by = stage.law.scale, stage.report.by
        kind, moved = (LAPLACE, by) if stage.law.power == 1 else (GAUSSIAN, math.sqrt(by))
        stated = {"stage": stage.name, "noise": kind, "scale": scale, "sensitivity": moved}
        yield stated | stage_losses(kind, moved, scale, allocation.delta)


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
    epsilon = by / scale
    return {"epsilon": epsilon} | ({"squared_mu": square_of_pure(epsilon)} if delta else {})


# ---- identity ----


def identify(
    request: PresenceRequest, source: str, declared: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the declared facts that make a request, in a fixed order.

    Parameters
    ----------
    request : PresenceRequest
    source : str
        Public name of the records.
    declared : mapping of str to str, optional
        The declared reading, without the names of files.

    Raises
    ------
    InputError
        If the source has no name.
    """
    if not source.strip():
        raise InputError("name the records (source), such as 'taxis, 2026-11'.")
    fleet = request.fleet
    # Of fractions and whole numbers: the same text on every processor. Requests keep the names that
    # they had when forms of maps could have a cap on records.
    plan = [STAGES_VERSION, FORM.sub(r"\1, cap=0)", repr(request.allocation()))]
    facts = {
        "model": "presence",
        "source": source,
        "cells": f"{request.grid.n_cells}",
        "grid": request.grid.fingerprint(),
        "in use": "declared" if request.grid.is_in_use else "tested",
        "fleet": f"{fleet.units} units, {fleet.records_per_unit} records and "
        f"{fleet.cells_per_unit} cells each",
        "epsilon": decimal_text(request.epsilon),
        **({"delta": decimal_text(request.delta)} if request.delta else {}),
        "plan": hashlib.sha256(json.dumps(plan).encode()).hexdigest(),
        # A moved or renamed file holds the same records.
        **{f"records.{k}": v for k, v in sorted((declared or {}).items()) if k != "source"},
    }
    if not request.has_map:
        return facts | {"statistics": "users"}
    lattice = request.lattice
    # Terms are texts without commas.
    return facts | {
        "statistics": ", ".join((*request.names, "weight")),
        "bounds": f"{decimal_text(lattice.lower)} to {decimal_text(lattice.upper)}",
        "quantum": decimal_text(lattice.quantum),
        "cap": "0",
    }


def request_name(facts: dict[str, str]) -> str:
    """Return the name by which the ledger knows a request.

    Examples
    --------
    >>> request_name({"model": "presence"})[:12]
    'be97503eb69a'
    """
    return hashlib.sha256(json.dumps(sorted(facts.items())).encode()).hexdigest()


def presence_request(dataset: str, plan: Plan) -> dict[str, str]:
    """Return the request in words: declared facts, so that equal requests replay."""
    requests = {}
    for name, component in plan.components.items():
        facts = component.facts
        identity = identify(component.request, dataset, facts.identity)
        edition = {} if component.edition is None else {"edition": component.edition}
        own = {"value": facts.value, "unit": facts.privacy_unit}
        requests[name] = identity | own | edition
    if plan.is_single:
        return next(iter(requests.values()))
    return {
        "model": "presence",
        "source": dataset,
        "epsilon": decimal_text(plan.epsilon),
        # In whichever order columns are named, the request is the same. Each has its part of ε.
        "columns": json.dumps(requests, sort_keys=True),
        "unit": plan.columns_facts.privacy_unit,
    }
