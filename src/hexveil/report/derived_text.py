"""Sentences about a roll-up or a comparison, which page, README.txt and command have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from hexveil.report.manifest_view import noun, unit_of_statistic
from hexveil.report.templates import render_sentence

TEXTS = "derived.txt"


def template_values(table: pa.Table, statement: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the sentences.

    Parameters
    ----------
    table : pyarrow.Table
    statement : mapping
    """
    kind, dataset = statement["kind"], statement["dataset"]
    unit = dataset["value_unit"] or ""
    roles = (
        {"First": "before", "Second": "after"} if kind == "comparison" else {"Release": "source"}
    )
    values: dict[str, Any] = {
        "heading": render_sentence(
            TEXTS, "heading", kind=kind, statistic=noun(statement["statistic"]),
            value=dataset["value"], of_units=statement["statistic"] == "users",
        ),
        "unit": unit_of_statistic(statement["statistic"], unit),
        "cells": table.num_rows,
        "cost": render_sentence(TEXTS, "cost", kind=kind),
        "covers": statement["covers"],
        "not_covered": statement.get("not_covered", ""),
        "sources": [
            render_sentence(TEXTS, "source", role=role, identity=statement[name])
            for role, name in roles.items()
        ],
        "origin": _origin([statement[name] for name in roles.values()], list(roles)),
        "verdicts": "",
        "discoveries": "",
        "pairing": "",
    }  # fmt: skip
    return values | (_comparison_values(statement) if kind == "comparison" else {})


def _origin(identities: Sequence[Mapping[str, Any]], roles: Sequence[str]) -> dict[str, str]:
    """Return the lines under the title: periods and publishers of the releases."""
    names = [f"{role}: " if len(roles) > 1 else "" for role in roles]
    periods = [
        f"{name}{identity['period']}" for name, identity in zip(names, identities, strict=True)
    ]
    publishers = dict.fromkeys(
        identity["publisher"] for identity in identities if identity["publisher"]
    )
    return {
        "period": "; ".join(periods),
        "brief_period": "",
        "publisher": "; ".join(publishers),
    }


def _comparison_values(statement: Mapping[str, Any]) -> dict[str, str]:
    counts, cells = statement["verdicts"], statement["cells"]
    return {
        "verdicts": render_sentence(
            TEXTS,
            "verdict_counts",
            higher=counts["higher"],
            lower=counts["lower"],
            unclear=counts["cannot be told"],
        ),
        "discoveries": render_sentence(
            TEXTS,
            "discoveries",
            procedure=statement["procedure"],
            rate=f"{100 * statement['false_discovery_rate']:.3g} percent",
        ),
        "pairing": render_sentence(
            TEXTS,
            "pairing",
            days=statement["days_between"],
            only_before=cells["only_before"],
            only_after=cells["only_after"],
            of_maps="model" in statement,
        ),
    }
