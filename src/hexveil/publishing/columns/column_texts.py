"""README.txt and the page of a release of several value columns: the values of their templates."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.publishing.markup import document
from hexveil.report.accuracy_text import describe_accuracy
from hexveil.report.content_security_policy import policy
from hexveil.report.manifest_view import format_heading, format_rounded_up
from hexveil.report.promise import delta_in_words
from hexveil.report.templates import render_template

if TYPE_CHECKING:
    from collections.abc import Sequence

    Json = dict[str, Any]

LOSSES = ("p99", "p90", "median", "mean")


def render_columns_readme(manifest: Json, columns: Sequence[Json]) -> str:
    """Return the text of README.txt.

    Parameters
    ----------
    manifest : dict
        Of the whole.
    columns : sequence of dict
        Manifest of each value column.
    """
    return document("columns/readme.md", _values(manifest, columns)).to_text() + "\n"


def render_columns_page(manifest: Json, columns: Sequence[Json]) -> str:
    """Return the page from which a reader chooses a value column.

    Parameters
    ----------
    manifest, columns
        As `render_columns_readme` has them.
    """
    style = render_template("archive/style.css", {})
    values = _values(manifest, columns)
    values |= {"style": style, "policy": policy([], style)}
    return render_template("columns/page.html", values)


def _values(manifest: Json, columns: Sequence[Json]) -> Json:
    losses = manifest["losses"]
    rounded = {key: format_rounded_up(losses[key], 4) for key in LOSSES}
    names = ", ".join(column["column"] for column in manifest["columns"])
    return {
        "title": manifest.get("title", ""),
        "subtitle": manifest.get("subtitle", ""),
        "heading": format_heading(manifest["statistics"], names),
        "dataset": manifest["dataset"]["name"],
        "guarantee": manifest["guarantee"],
        "meaning_of_delta": delta_in_words(manifest),
        "epsilon": format_rounded_up(float(Fraction(manifest["guarantee"]["epsilon_spent"])), 4),
        "losses": rounded | {"units": f"{losses['units']:,}"},
        "columns": [
            _column(stated, own) for stated, own in zip(manifest["columns"], columns, strict=True)
        ],
    }


def _column(stated: Json, own: Json) -> Json:
    """Return the facts about a value column, with its numbers formatted."""
    # Bins of a histogram each have their own statement, which is too many for a text.
    accuracy = [one for one in own["accuracy"] if not one["statistic"].startswith("histogram_")]
    texts = describe_accuracy(
        accuracy, stated["value_unit"], lambda n, unit: f"{n:.3g} {unit}".strip()
    )
    return {
        "name": stated["column"],
        "folder": stated["folder"],
        "value_unit": stated["value_unit"],
        "cells": stated["cells"],
        "users": f"{stated['users']:,}",
        "records": f"{stated['records']:,}",
        "epsilon": format_rounded_up(float(Fraction(stated["epsilon"])), 4),
        "accuracy": texts,
    }
