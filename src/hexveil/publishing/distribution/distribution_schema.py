"""JSON Schema of manifests with quantiles, shares or histograms, composed of that of all others."""

from __future__ import annotations

import copy
from typing import Any

from hexveil.planning.distribution.distribution_components import MOMENTS, SCORES, SHAPE
from hexveil.publishing.distribution.distribution_manifest import EPSILONS, KIND
from hexveil.publishing.manifest import schema

Json = dict[str, Any]

_NUMBER = {"type": "number", "minimum": 0}
_STAGE_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "stage": {"type": "string"},
        "bins": {"type": "integer", "minimum": 1},
        "scale": {"type": "number", "exclusiveMinimum": 0},
    },
    "required": ["stage", "bins", "scale"],
    "additionalProperties": False,
}
_COMPONENT_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "name": {"enum": [MOMENTS, SHAPE, SCORES]},
        "releases": {"type": "string"},
        "epsilon": {"type": "string", "pattern": "^[0-9]{1,400}(\\.[0-9]{1,400})?$"},
        "mean_loss": _NUMBER,
        "squared_mu": {
            "type": "object",
            "properties": {"max": _NUMBER, "mean": _NUMBER},
            "required": ["max", "mean"],
            "additionalProperties": False,
        },
        "stages": {"type": "array", "maxItems": 10, "items": _STAGE_SCHEMA},
    },
    "required": ["name", "releases", "epsilon", "mean_loss", "stages"],
    "additionalProperties": False,
}
_PLAN_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "statistics": {"type": "array", "minItems": 1, "maxItems": 43, "items": {"type": "string"}},
        "estimator": {"enum": ["indicator", "ranks", "bins"]},
        "weights": {"type": "object", "additionalProperties": {"type": "string"}},
        "expected_error": {
            "type": "object",
            "required": ["share"],
            "additionalProperties": _NUMBER,
        },
        "columns": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
        "components": {"type": "array", "minItems": 1, "maxItems": 3, "items": _COMPONENT_SCHEMA},
    },
    "required": ["statistics", "estimator", "weights", "expected_error", "columns", "components"],
    "additionalProperties": False,
}


def distribution_schema() -> Json:
    """Return the JSON Schema of a manifest of this kind, composed of that of every manifest."""
    of_moments = schema()
    parts = of_moments["properties"]
    guarantee, accuracy = copy.deepcopy(parts["guarantee"]), copy.deepcopy(parts["accuracy"])
    guarantee["required"].remove("l0_epsilon")
    accuracy["items"]["properties"]["statistic"] = {"type": "string"}
    section = _section_schema(parts)
    same = (
        *("schema_version", "software", "dataset", "bounds", "grid", "rules", "selection"),
        *("title", "subtitle", "catalogue", "columns_together", "losses"),
        *("occupancy", "occupancy_fingerprint", "request", "ledger"),
    )
    properties = {name: parts[name] for name in same} | {
        "kind": {"const": KIND},
        "guarantee": guarantee,
        "plan": _PLAN_SCHEMA,
        MOMENTS: section,
        SCORES: section,
        "cells": _cells_schema(parts),
        "accuracy": accuracy,
    }
    optional = {"title", "subtitle", "catalogue", "columns_together", "occupancy", MOMENTS, SCORES}
    return {
        "$schema": of_moments["$schema"],
        "title": "Manifest of a hexveil release with quantiles, shares or histograms",
        "type": "object",
        "properties": properties,
        "required": sorted(properties.keys() - optional),
        "additionalProperties": False,
    }


def _section_schema(parts: Json) -> Json:
    """Return the schema of means and variances, or mean scores, in such a manifest."""
    same = ("plan", "losses", "accuracy", "cut_off")
    epsilons = {name: parts["guarantee"]["properties"][name] for name in EPSILONS}
    return {
        "type": "object",
        "properties": epsilons | {name: parts[name] for name in same},
        "required": [*EPSILONS, *same],
        "additionalProperties": False,
    }


def _cells_schema(parts: Json) -> Json:
    """Return the schema of the figures of each cell that determine losses."""
    cell = copy.deepcopy(parts["cells"]["items"])
    del cell["properties"]["cell"]
    cell["required"] = [name for name in cell["required"] if name != "cell"]
    properties = {
        "cell": {"type": "string"},
        MOMENTS: cell,
        SCORES: cell,
        "weight": {"type": "number", "minimum": 0},
        "squared_weight": {"type": "number", "minimum": 0},
    }
    return {
        "type": "array",
        "items": {
            "type": "object",
            "properties": properties,
            "required": ["cell"],
            "additionalProperties": False,
        },
    }
