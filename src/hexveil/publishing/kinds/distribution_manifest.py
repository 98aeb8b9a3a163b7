"""The entry of quantiles, shares or histograms in a manifest. Public facts only.

It has the sections of means and variances, and of each part what its losses follow from: of means,
variances and mean scores the plan of every cell, of shapes and bins the noise scales and the public
weight of each cell.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.accounting.promise import PARTS, of_amount
from hexveil.base.rational import decimal_text
from hexveil.mechanisms.contract import DONE, NoisyTotals
from hexveil.mechanisms.distribution.pooled_shape import CELL_BINS, BinnedMap
from hexveil.mechanisms.stage_data import Outputs
from hexveil.planning.distribution.distribution_components import (
    MOMENTS,
    SCORE_LATTICE,
    SCORES,
    SHAPE,
    score_metadata,
)
from hexveil.publishing.components import EPSILONS
from hexveil.publishing.kinds.distribution_table import DecodedDistribution, describe_term
from hexveil.publishing.kinds.guarantee import epsilon_text, loss_section, square_section
from hexveil.publishing.kinds.moment_manifest import (
    cut_off_section,
    occupancy_sections,
    plan_section,
    planned_cells,
)
from hexveil.publishing.manifest import bounds_section

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.mechanisms.contract import StagedPlan
    from hexveil.mechanisms.distribution import Component
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.distribution.distribution_plan import DistributionComponent
    from hexveil.planning.moment_component import MomentComponent

    Json = dict[str, Any]


def distribution_entry(plan: DistributionComponent, decoded: DecodedDistribution) -> Json:
    """Return the entry of a plan of distributions in a manifest, by its released numbers."""
    facts, outputs, moments = plan.facts, decoded.outputs, decoded.moments
    sections = {} if moments is None else {MOMENTS: moment_section(moments.plan, moments.accuracy)}
    if decoded.scores is not None:
        sections[SCORES] = moment_section(decoded.scores, [])
    return {
        "rules": dict(facts.rules),
        "plan": {
            "statistics": list(plan.statistics),
            "estimator": plan.estimator,
            "weights": {name: decimal_text(one) for name, one in sorted(plan.weights.items())},
            "expected_error": plan.expected_error,
            "columns": {term.text: describe_term(term, facts.lattice) for term in plan.terms},
            "components": [_component(one, plan, outputs) for one in plan.stages().components],
        },
        **sections,
        "losses": loss_section(plan),
        "cells": _cells(plan, decoded),
        "accuracy": decoded.accuracy,
        **occupancy_sections(plan),
    }


def moment_section(plan: MomentComponent, accuracy: list[Json]) -> Json:
    """Return the sections of a manifest about means and variances, or mean scores."""
    return {
        "epsilon_requested": decimal_text(plan.requested_epsilon),
        "epsilon_spent": epsilon_text(plan.epsilon),
        "l0_epsilon": epsilon_text(plan.l0_epsilon),
        # Without a lower bound: it takes longer than the plan, and is of one component alone.
        "plan": plan_section(plan, plan) | {"lower_bound": None, "gap": None, "certifies": None},
        "losses": loss_section(plan),
        "accuracy": accuracy,
        "cut_off": cut_off_section(plan, accuracy) if accuracy else [],
    }


def _component(component: Component, plan: DistributionComponent, outputs: Outputs) -> Json:
    """Return a component with its largest and its average loss, and the noise of bins."""
    booked = component.plan.losses()
    losses = of_amount(plan.booked_limit, plan.delta).losses(booked)
    words = {
        MOMENTS: "means and variances",
        SCORES: "mean scores of every cell",
        SHAPE: "the distribution over all cells",
    }[component.name]
    if isinstance(component.plan, BinnedMap):
        words += ", and bins of every cell"
    return {
        "name": component.name,
        "releases": words,
        "epsilon": epsilon_text(Fraction(float(losses.max(initial=0.0)))),
        "mean_loss": float(losses.mean()),
        **square_section(booked, plan.delta),
        "stages": list(_stages(component, outputs)) if component.name == SHAPE else [],
    }


def _stages(component: Component, outputs: Outputs) -> Iterator[Json]:
    """Yield the noise of each stage of a shape, and the bins of all cells, or of each."""
    for stage in drawn_stages(component.plan, component.outputs(outputs)):
        bins = stage.n_noised
        if stage.name == CELL_BINS and isinstance(component.plan, BinnedMap):
            bins = component.plan.n_bins
        yield {"stage": stage.name, "bins": bins, "scale": stage.law.scale / PARTS}


def drawn_stages(plan: StagedPlan, outputs: Outputs) -> Iterator[NoisyTotals]:
    """Yield the stages of noisy totals that led to outputs."""
    earlier = Outputs()
    while (stage := plan.next_stage(earlier)) is not DONE:
        assert isinstance(stage, NoisyTotals)  # noqa: S101  as all of shapes and maps are
        yield stage
        earlier = earlier.extended(stage.name, stage.entries, outputs[stage.name])


def _cells(plan: DistributionComponent, decoded: DecodedDistribution) -> list[Json]:
    """Return the figures of each cell that determine the loss of each component."""
    rows: list[Json] = [{"cell": name} for name in plan.names]
    if decoded.moments is not None:
        _add(rows, MOMENTS, plan.facts, decoded.moments.plan)
    if decoded.scores is not None:
        _add(rows, SCORES, score_metadata(plan.facts), decoded.scores)
        return rows
    binned = plan.stages().component(SHAPE).plan
    assert isinstance(binned, BinnedMap)  # noqa: S101  see DistributionComponent
    figures = {"weight": binned.weights.totals() / PARTS}
    if plan.delta:
        figures["squared_weight"] = binned.weights.squares()
    for name, column in figures.items():
        for row, figure in zip(rows, column.tolist(), strict=True):
            row[name] = figure
    return rows


def _add(rows: list[Json], name: str, facts: PublicMetadata, plan: MomentComponent) -> None:
    for row, cell in zip(rows, planned_cells(facts, plan), strict=True):
        row[name] = {key: value for key, value in cell.items() if key != "cell"}


def nested_manifest(manifest: Json, name: str) -> Json:
    """Return the manifest that a component would have as a release of its own, for checks.

    Parameters
    ----------
    manifest : dict
    name : "moments" or "scores"
    """
    own = dict(manifest[name])
    epsilons = {key: own.pop(key) for key in EPSILONS}
    bounds = bounds_section(SCORE_LATTICE) if name == SCORES else manifest["bounds"]
    shared = ("schema_version", "software", "dataset", "grid", "rules", "selection")
    cells = [{"cell": row["cell"]} | row[name] for row in manifest["cells"]]
    last = ("occupancy_fingerprint", "request")
    return {
        **{key: manifest[key] for key in (*shared, *last)},
        **own,
        "guarantee": manifest["guarantee"] | epsilons,
        "bounds": bounds,
        "cells": cells,
        "smoothing": [],
        # A component of constants alone cost nothing, whatever the others did.
        "ledger": manifest["ledger"] if own["losses"]["max"] else None,
    }
