"""The entries of statistics of values in a manifest, and the columns they state. Public facts only.

**Means and variances.** Each step that looks at values is stated with its largest cost to a user,
rounded up, its share of the total, and its released outputs: ranges, and a histogram. Outputs were
drawn with noise, and are public. Under a δ squares of μ add up, and each epsilon is that of one
step alone; a choice is purely private, and so is its epsilon.

**Quantiles, shares and histograms** have the sections of means and variances, and of each part what
its losses follow from: of means, variances and mean scores the plan of every cell, of shapes and
bins the noise scales and the public weight of each cell.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from hexveil.accounting.promise import PARTS, of_amount
from hexveil.base.rational import decimal_text
from hexveil.ledger.unit_losses import PICO_EPSILON
from hexveil.mechanisms.contract import DONE, NoisyTotals, StagedPlan
from hexveil.mechanisms.distribution import Component
from hexveil.mechanisms.distribution.pooled_shape import CELL_BINS, BinnedMap
from hexveil.mechanisms.distribution.shape_statistics import SCORE_LATTICE
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.allocation import allocation_of
from hexveil.planning.distribution_component import DistributionComponent
from hexveil.planning.distribution_measures import MOMENTS, SCORES, SHAPE, score_metadata
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.request import Request
from hexveil.publishing.components import EPSILONS
from hexveil.publishing.estimates.decoded_moments import smoothing_statement
from hexveil.publishing.estimates.table import STATISTICS, TODAY
from hexveil.publishing.kinds.distribution_table import DecodedDistribution, describe_term
from hexveil.publishing.kinds.guarantee import epsilon_text, loss_section, square_section
from hexveil.publishing.manifest import bounds_section
from hexveil.smoothing.shrinkage import Smoothed

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
    has_posterior = any(statement["basis"] == "posterior" for statement in accuracy)
    return {
        "rules": dict(facts.rules),
        **_statements(plan, accuracy),
        "cells": planned_cells(facts, plan),
        "smoothing": smoothing_statement(plan, smoothed or {}, posterior=has_posterior),
        "occupancy": occupancy_of(plan),
    }


def _statements(plan: MomentComponent, accuracy: Sequence[Mapping[str, Any]]) -> Json:
    """Return the sections about plan, losses and accuracy, also of a part of a release."""
    return {
        "l0_epsilon": epsilon_text(plan.l0_epsilon),
        "plan": plan_section(plan),
        "losses": loss_section(plan),
        "accuracy": [dict(statement) for statement in accuracy],
    }


def plan_section(plan: MomentComponent) -> dict[str, Any]:
    """Return the section of a manifest about a plan."""
    return {
        "method": plan.method,
        "mechanism": plan.mechanism,
        "statistics": list(plan.statistics),
        "request": _request(plan.request),
        "mean_error": plan.expected_error,
        "max_error": plan.worst_case_error,
        "privacy_steps": privacy_steps(plan),
    }


def _request(request: Request) -> dict[str, Any]:
    """Return the request: an epsilon, or targets by statistic with their smallest and largest."""
    return {
        "clipping_range": request.clipping_range,
        "epsilon": None if request.epsilon is None else decimal_text(request.epsilon),
        "targets": request.target_ranges,
        "objective": request.objective,
        **({"history": list(request.history)} if request.history else {}),
    }


def occupancy_section(users: NDArray[Any], records: NDArray[Any]) -> dict[str, int]:
    """Return the section of a manifest about the sums of users and records over all cells."""
    return {"pairs": int(users.sum()), "records": int(records.sum())}


def occupancy_of(plan: MomentComponent | DistributionComponent) -> dict[str, int]:
    """Return the section of a manifest about the occupancy of a plan."""
    occupancy = plan.occupancy
    return occupancy_section(occupancy.users_per_cell, occupancy.records_per_cell)


def planned_cells(facts: PublicMetadata, plan: MomentComponent) -> list[dict[str, Any]]:
    """Return the plan of each cell, with an entry for each noised statistic."""
    caps = {"mean": plan.contribution_cap, "variance": plan.allocation.variance_cap}
    # Built anew from the released ranges: a grid read off the plan could differ from the draw.
    grids = allocation_of(plan, facts.lattice).grids(plan.error_models)
    own = plan.allocation.clipping.cell_entries(plan)
    noised = [
        own
        | {
            "statistic": [name] * plan.occupancy.n_cells,
            "contribution_cap": caps[name].tolist(),
            **{key: getattr(errors, key).tolist() for key in ("scale", "bias", "bound95")},
            # Nothing where published means lie on a curve and on no grid.
            **{
                f"grid_{key}": [one if math.isfinite(one) else None for one in column.tolist()]
                for key, column in (("start", grids[name].start), ("step", grids[name].step))
            },
        }
        for name, errors in plan.error_models.items()
    ]
    ends = plan.lower.tolist(), plan.upper.tolist()
    rows = zip(facts.cells.names(), plan.cell_mechanisms, *ends, strict=True)
    return [
        dict(zip(("cell", "mechanism", "lower", "upper"), row, strict=True))
        | {"noised": [{key: column[g] for key, column in one.items()} for one in noised]}
        for g, row in enumerate(rows)
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
        stated = {"step": step.name, "epsilon": epsilon, "share": share}
        made.append(_rounded_up(stated | square | dict(step.outputs)))
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


# ---- distributions ----


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
        "occupancy": occupancy_of(plan),
        **({} if decoded.memory is None else {"memory": decoded.memory}),
    }


def moment_section(plan: MomentComponent, accuracy: list[Json]) -> Json:
    """Return the sections of a manifest about means and variances, or mean scores."""
    epsilons = decimal_text(plan.requested_epsilon), epsilon_text(plan.epsilon)
    stated = {"epsilon_requested": epsilons[0], "epsilon_spent": epsilons[1]}
    return stated | _statements(plan, accuracy)


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
    parts = [] if decoded.moments is None else [(MOMENTS, plan.facts, decoded.moments.plan)]
    if decoded.scores is not None:
        parts.append((SCORES, score_metadata(plan.facts), decoded.scores))
    for name, facts, own in parts:
        for row, cell in zip(rows, planned_cells(facts, own), strict=True):
            row[name] = {key: value for key, value in cell.items() if key != "cell"}
    binned = None if decoded.scores else plan.stages().component(SHAPE).plan
    if isinstance(binned, BinnedMap):
        figures = {"weight": binned.weights.totals() / PARTS}
        if plan.delta:
            figures["squared_weight"] = binned.weights.squares()
        for name, column in figures.items():
            for row, figure in zip(rows, column.tolist(), strict=True):
                row[name] = figure
    return rows


def nested_manifest(manifest: Json, name: str) -> Json:
    """Return the manifest that a component would have as a release of its own, for checks.

    Parameters
    ----------
    manifest : dict
    name : "moments" or "scores"
    """
    own = dict(manifest[name])
    epsilons = {key: own.pop(key) for key in EPSILONS}
    # Scores are what is remembered, not the averages beside them.
    other = {"bounds": bounds_section(SCORE_LATTICE)} if name == SCORES else {"memory": {}}
    return {
        **manifest,
        **own,
        **other,
        "guarantee": manifest["guarantee"] | epsilons,
        "cells": [{"cell": row["cell"]} | row[name] for row in manifest["cells"]],
        "smoothing": [],
        # A component of constants alone cost nothing, whatever the others did.
        "ledger": manifest["ledger"] if own["losses"]["max"] else None,
    }
