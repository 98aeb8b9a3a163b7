"""README.txt of a release, and of several value columns: values of templates/*/readme.md."""

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from hexveil.publishing.catalogue.release_description import find_coverage
from hexveil.publishing.markup import document
from hexveil.publishing.memory import stored_day
from hexveil.publishing.part_kinds import kind_of
from hexveil.report import accuracy_text
from hexveil.report.manifest_view import common_unit, describe_repeats, format_heading, spoken_value
from hexveil.report.origin import describe_origin
from hexveil.report.promise_wording import delta_in_words
from hexveil.report.templates import in_language

Json = dict[str, Any]


def render_readme(
    table: pa.Table, whole: Json, statements: Mapping[str, Json], names: Collection[str]
) -> str:
    """Return the text of README.txt.

    Parameters
    ----------
    table : pyarrow.Table
        The released table.
    whole : dict
        Statements of all value columns together.
    statements : mapping of str to dict
        Those of each value column.
    names : collection of str
        Files of the folder.
    """
    with in_language(whole):
        stated = {name: accuracy_text.translate_statements(own) for name, own in statements.items()}
        template, values = _values(table, accuracy_text.translate_statements(whole), stated, names)
        return document(template, values).to_text() + "\n"


def _values(
    table: pa.Table,
    whole: Mapping[str, Any],
    stated: Mapping[str, Mapping[str, Any]],
    names: Collection[str],
) -> tuple[str, Json]:
    """Return the template, and its values in the current language."""
    leading, private = next(iter(stated.values())), whole.get("model") == "presence"
    fields = [{b"unit": b"", **(field.metadata or {}), b"name": field.name.encode()}
              for field in table.schema]  # fmt: skip
    values = {
        **{key: whole.get(key, "") for key in ("title", "subtitle")},
        **{key: whole[key] for key in ("guarantee", "grid")},
        "origin": describe_origin(table, whole),
        "dataset": whole["dataset"]["name"],
        "losses": whole.get("losses", {}),
        "delta": whole["guarantee"].get("delta", ""),
        # Under private presence each column declares its fleet, and the whole has none.
        "meaning_of_delta": delta_in_words(leading if private else whole),
        "cells": table.num_rows,
        "hexagons": "hexagon" in table.column_names,
        "mapped": "cells.geojson" in names,
        "kept": stored_day.FILE in names,
        "dated": find_coverage(table, dict(whole)).start is not None,
        "table_columns": [
            {key.decode(): text.decode() for key, text in field.items()} for field in fields
        ],
    }
    if len(stated) == 1:
        template, own = _of_column(table, leading)
        return template, values | own
    entries = zip(whole["columns"], stated.values(), strict=True)
    columns = [entry | _accuracy(own) for entry, own in entries]
    of_all = {"heading": whole["heading"], "is_private": private, "columns": columns}
    return "columns/readme.md", values | of_all


def _of_column(table: pa.Table, stated: Mapping[str, Any]) -> tuple[str, Json]:
    """Return the template of a single value column, and its values."""
    dataset, plan = stated["dataset"], stated["plan"]
    statistics = plan["statistics"]
    values = {
        "heading": format_heading(statistics, spoken_value(dataset)),
        "value_unit": common_unit(statistics, dataset["value_unit"]),
        "plan": plan,
        "quantum": stated["bounds"]["quantum"],
        **_accuracy(stated),
    }
    if "is_open" in table.column_names:
        values["open_cells"] = sum(table["is_open"].to_pylist())
    if "privacy_steps" in plan:
        clipping = accuracy_text.clipping_values(stated, plan["privacy_steps"])
        values |= clipping | {
            "posterior": "mean_estimate" in table.column_names,
            "cut_off": accuracy_text.describe_cut_off(
                stated["accuracy"] if clipping["strategy"] else (), table.num_rows
            ),
            "smoothing": stated["smoothing"],
        }
    return kind_of(stated).readme, values


def _accuracy(manifest: Mapping[str, Any]) -> Json:
    """Return the sentences on repeated records and on the accuracy of one value column."""
    texts = accuracy_text.describe_one_number(manifest)
    if manifest.get("model") != "presence":
        texts += accuracy_text.describe_accuracy(manifest)
    return {"repeats": describe_repeats(manifest), "accuracy": texts}
