"""Components of a manifest, and value columns of a table: of each, and of all together.

A manifest has what all value columns share, and a component for each. Checks, page, README.txt and
dossier look at one value column with what it shares: at its *statements*. A release of one value
column is the statements of that one. A table of several has a row per cell of any column, and
prefixed columns of each.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.model.declared_grid import ColumnFacts, DeclaredColumns
from hexveil.publishing.kinds.guarantee import PRESENCE, is_private, promise_section
from hexveil.report.manifest_view import format_heading

Json = dict[str, Any]

EPSILONS = ("epsilon_requested", "epsilon_spent", "l0_epsilon")
"""Fields of a component about its loss."""
_NOT_SHARED = ("components", "losses", "dataset", "guarantee")


def epsilon_spent(manifest: Mapping[str, Any]) -> Fraction:
    """Return the loss of the most exposed unit, or of any unit under private presence."""
    if "losses" in manifest:
        # Verification compares the stated losses with the noise scales of the table.
        return Fraction(float(manifest["losses"]["max"]))
    return Fraction(manifest["guarantee"]["epsilon_spent"])


def column_names(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of the value columns, in order."""
    return [component["dataset"]["value"] for component in manifest["components"]]


def statements(manifest: Json) -> dict[str, Json]:
    """Return the statements of each value column, by its name."""
    return {
        column: _statements(alone)
        for column, alone in zip(column_names(manifest), each_alone(manifest), strict=True)
    }


def each_alone(manifest: Json) -> list[Json]:
    """Return the manifest of each value column as one of its own, which names the whole."""
    if len(manifest["components"]) == 1:
        return [manifest]
    return [_alone(manifest, component) for component in manifest["components"]]


def _alone(manifest: Json, component: Json) -> Json:
    guarantee, spent = manifest["guarantee"], component["epsilon_spent"]
    together = {
        "columns": column_names(manifest),
        "epsilon_spent": decimal_text(Fraction(guarantee["epsilon_spent"])),
    }
    promise = promise_section(
        guarantee["privacy_unit"], component["epsilon_requested"], spent,
        dropped=component["selection"].get("drop_values", "none"), protect=guarantee["protect"],
        delta=Fraction(guarantee.get("delta", 0)), together=together,
    )  # fmt: skip
    changed = {name: component[name] for name in ("losses",) if name in component}
    if "title" in manifest:
        changed["title"] = f"{manifest['title']}: {component['dataset']['value']}"
    return manifest | changed | {
        "guarantee": promise,
        "columns_together": together,
        "components": [{key: value for key, value in component.items() if key != "weight"}],
        # A column of constants alone cost nothing, whatever the others did.
        "ledger": manifest["ledger"] if Fraction(spent) else None,
    }  # fmt: skip


def _statements(alone: Json) -> Json:
    """Return the statements of the only value column of a manifest."""
    (component,) = alone["components"]
    epsilons = {key: component[key] for key in EPSILONS if key in component}
    shared = {key: value for key, value in alone.items() if key not in _NOT_SHARED}
    fields = {key: value for key, value in component.items() if key not in EPSILONS}
    model = {"model": PRESENCE} if is_private(alone) else {}
    dataset, guarantee = alone["dataset"] | component["dataset"], alone["guarantee"] | epsilons
    return model | shared | fields | {"dataset": dataset, "guarantee": guarantee}


def statements_of_whole(manifest: Json) -> Json:
    """Return the statements of all value columns together, for page and descriptions.

    `columns` has an entry for each of several.
    """
    stated = statements(manifest)
    leading = next(iter(stated.values()))
    if len(stated) == 1:
        return leading
    prefixes, names = column_prefixes([*stated]), ", ".join(stated)
    identities = [component["dataset"] for component in manifest["components"]]
    versions, units = ({entry[key] for entry in identities} for key in ("version", "value_unit"))
    dataset = {
        "version": versions.pop() if len(versions) == 1 else None,
        "sources": [
            *dict.fromkeys(source for identity in identities for source in identity["sources"])
        ],
        "value": names,
        "value_unit": units.pop() if len(units) == 1 else "",
    }
    statistics = leading["plan"]["statistics"]
    shared = {key: value for key, value in manifest.items() if key != "components"}
    return shared | {
        **({"model": PRESENCE} if is_private(manifest) else {}),
        "selection": leading["selection"],
        "dataset": manifest["dataset"] | dataset,
        "plan": {"statistics": statistics},
        "heading": format_heading(statistics, names),
        "columns": [_entry(prefixes[name], statement) for name, statement in stated.items()],
    }


def _entry(prefix: str, stated: Json) -> Json:
    """Return the facts about one of several value columns, in a line."""
    counts = {"cells": stated["grid"].get("cells")}
    if "losses" in stated:
        counts = {
            "users": stated["losses"]["units"],
            "records": stated["occupancy"]["records"],
            "cells": len(stated["cells"]),
        }
    return {
        "column": stated["dataset"]["value"],
        "prefix": prefix,
        "value_unit": stated["dataset"]["value_unit"],
        # Of means and variances alone: parts of distributions have an epsilon each.
        "targets": stated["plan"].get("request", {}).get("targets") or [],
        "epsilon": stated["guarantee"]["epsilon_spent"],
        **counts,
    }


def refuse_labels(labels: Iterable[str], columns: Collection[str]) -> None:
    """Refuse label columns with names that a table needs for its own columns.

    A label column `cell` that stands alone is the cell's name, and is written once.
    """
    clashing = [name for name in labels if name in columns]
    if clashing and [*labels] != ["cell"]:
        raise InputError(
            f"the label column {clashing[0]!r} has the name of a column of this release; give it "
            "another name in the records."
        )


MAX_PREFIX = 60


def column_prefixes(columns: Sequence[str]) -> dict[str, str]:
    """Return the prefix of each value column in names of columns.

    Letters, digits and underscores of its name stay; prefixes differ in any case of letters.

    Examples
    --------
    >>> column_prefixes(["pm25", "PM25", "no2.value", "..."])
    {'pm25': 'pm25', 'PM25': 'PM25_2', 'no2.value': 'no2_value', '...': 'value'}
    """
    prefixes: dict[str, str] = {}
    used: set[str] = set()
    for column in columns:
        stem = re.sub(r"[^A-Za-z0-9]+", "_", column).strip("_")[:MAX_PREFIX] or "value"
        prefix, number = stem, 1
        while prefix.casefold() in used:
            number += 1
            prefix = f"{stem}_{number}"
        used.add(prefix.casefold())
        prefixes[column] = prefix
    return prefixes


def check_prefixes(facts: ColumnFacts | DeclaredColumns) -> None:
    """Refuse label columns with names that begin like the columns of a value column."""
    prefixes = column_prefixes([*facts.columns]).values()
    labels = facts.leading.cells.labels
    begun = [name for name in labels if any(name.startswith(f"{prefix}_") for prefix in prefixes)]
    refuse_labels(labels, begun)


def join_tables(tables: Mapping[str, pa.Table], numbers: Mapping[str, Sequence[str]]) -> pa.Table:
    """Return the released tables of all value columns as one; that of a single one as it is.

    Cells are in the order of their first value column. Where a column has no such cell its
    numbers are null.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        Released table of each value column.
    numbers : mapping of str to sequence of str
        Names of each table's columns that do not name its cells.
    """
    if len(tables) == 1:
        return next(iter(tables.values()))
    prefixes, (leading, *_) = column_prefixes([*tables]), tables
    naming = [name for name in tables[leading].column_names if name not in numbers[leading]]
    stacked = pa.concat_tables([table.select(naming) for table in tables.values()])
    first_rows: dict[str, int] = {}
    for row, cell in enumerate(stacked["cell"].to_pylist()):
        first_rows.setdefault(cell, row)
    joined = stacked.take(pa.array(first_rows.values(), pa.int64())).replace_schema_metadata(None)
    for column, table in tables.items():
        row_of = {cell: row for row, cell in enumerate(table["cell"].to_pylist())}
        rows = pa.array([row_of.get(cell) for cell in first_rows], pa.int64())
        for name in numbers[column]:
            field = table.schema.field(name).with_name(f"{prefixes[column]}_{name}")
            joined = joined.append_column(
                field.with_nullable(nullable=True), table[name].take(rows)
            )
    return joined.combine_chunks()


def split_table(
    table: pa.Table, numbers: Mapping[str, Sequence[str]], cells: Mapping[str, Sequence[str]]
) -> dict[str, pa.Table]:
    """Return the table of each value column, as it was joined.

    Parameters
    ----------
    table : pyarrow.Table
    numbers : mapping of str to sequence of str
        See `join_tables`.
    cells : mapping of str to sequence of str
        Cells of each value column in their order; all of the table without.

    Raises
    ------
    KeyError
        If a column of `numbers`, or a cell, is not in the table.
    """
    if len(numbers) == 1:
        return dict.fromkeys(numbers, table)
    prefixes = column_prefixes([*numbers])
    prefixed = {f"{prefixes[column]}_{name}" for column, names in numbers.items() for name in names}
    naming = [name for name in table.column_names if name not in prefixed]
    row_of = {cell: row for row, cell in enumerate(table["cell"].to_pylist())}
    tables = {}
    for column, names in numbers.items():
        rows = pa.array([row_of[cell] for cell in cells.get(column, row_of)], pa.int64())
        selected = table.select([*naming, *(f"{prefixes[column]}_{name}" for name in names)])
        selected = selected.take(rows).combine_chunks().rename_columns([*naming, *names])
        tables[column] = selected.replace_schema_metadata({"value": column})
    return tables
