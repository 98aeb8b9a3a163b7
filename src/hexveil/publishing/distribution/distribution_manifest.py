"""Manifest of a release with quantiles, shares or histograms. Public facts only.

A kind of its own, beside the manifest of means and variances (`hexveil.publishing.manifest`).
"""

from __future__ import annotations

import importlib.metadata
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.rational import decimal_text
from hexveil.planning.distribution.distribution_plan import BinPlan, IndicatorPlan, RankPlan
from hexveil.publishing.distribution.distribution_table import describe_term
from hexveil.publishing.manifest import cell_sections, epsilon_text, guarantee_section
from hexveil.publishing.verification.verify import DISTRIBUTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.planning.distribution.distribution_plan import DistributionPlan

SCHEMA_VERSION = 1


def build_distribution_manifest(
    plan: DistributionPlan, dataset: str, request: str, ledger: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the manifest as it is written to `manifest.json`."""
    facts = plan.facts
    return {
        "kind": DISTRIBUTIONS,
        "schema_version": SCHEMA_VERSION,
        "software": {"hexveil": importlib.metadata.version("hexveil")},
        "dataset": {
            "name": dataset,
            "version": facts.identity.get("version"),
            "value": facts.value,
            "value_unit": facts.value_unit,
        },
        "guarantee": guarantee_section(facts, plan.requested_epsilon, plan.epsilon),
        "bounds": {
            "lower": decimal_text(facts.lattice.lower),
            "upper": decimal_text(facts.lattice.upper),
            "quantum": decimal_text(facts.lattice.quantum),
        },
        "rules": dict(facts.rules),
        **cell_sections(facts),
        "statistics": list(plan.statistics),
        "columns": {term.text: describe_term(term, facts.lattice) for term in plan.terms},
        "plan": {
            "estimator": plan.estimator,
            "components": _components(plan),
            "expected_error": plan.expected_error,
            "weights": {name: decimal_text(weight) for name, weight in plan.weights.items()},
        },
        "losses": _losses(plan),
        "cells": plan.occupancy.n_cells,
        "occupancy_fingerprint": plan.occupancy.fingerprint,
        "request": request,
        "ledger": dict(ledger),
    }


def _components(plan: DistributionPlan) -> list[dict[str, Any]]:
    """Return each component with the largest loss of a unit in it, rounded up."""
    words = {"moments": "means and variances", "shape": _shape_words(plan), "scores": "mean scores"}
    return [
        {
            "name": component.name,
            "releases": words[component.name],
            "epsilon": epsilon_text(Fraction(float(component.plan.losses().max(initial=0.0)))),
        }
        for component in plan.allocation().components
    ]


def _shape_words(plan: DistributionPlan) -> str:
    match plan.component:
        case BinPlan():
            return "the distribution over all cells, and bins of every cell"
        case RankPlan() | IndicatorPlan():
            return "the distribution over all cells"


def _losses(plan: DistributionPlan) -> dict[str, Any]:
    losses = plan.losses()
    return {
        "units": int(losses.size),
        "max": float(losses.max(initial=0.0)),
        "p90": float(np.quantile(losses, 0.9)),
        "median": float(np.median(losses)),
        "mean": float(losses.mean()),
    }
