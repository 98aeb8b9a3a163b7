"""Text and JSON of the public metadata of a data set, and the grids that its fleet supports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hexveil.cli.output import formatting, grid_table

if TYPE_CHECKING:
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning import Capacity


def facts_json(facts: PublicMetadata) -> dict[str, object]:
    """Return the public metadata of a data set as JSON data."""
    occupancy = facts.occupancy
    return {
        "value": facts.value,
        "value_unit": facts.value_unit,
        "unit": facts.privacy_unit,
        "users": occupancy.n_users,
        "cells": occupancy.n_cells,
        "records": occupancy.n_records,
        "rules": dict(facts.rules),
    }


def fact_lines(facts: PublicMetadata) -> list[str]:
    """Return the public metadata of a data set as text."""
    occupancy = facts.occupancy
    unit = f" in {facts.value_unit}" if facts.value_unit else ""
    low, high = (
        formatting.number_text(float(b)) for b in (facts.lattice.lower, facts.lattice.upper)
    )
    lines = [
        *formatting.wrapped(
            "Value", f"{facts.value}{unit}, clamped to {low} and {high}; never shown."
        ),
        *formatting.wrapped("Records", f"{occupancy.n_records:,} in the cells below."),
        *formatting.wrapped(
            "Protected", f"{occupancy.n_users:,} {facts.privacy_unit}s, each as one privacy unit."
        ),
        *formatting.wrapped(
            "Cells", f"{occupancy.n_cells:,}: {formatting.grid_words(facts.cells.grid)}."
        ),
    ]
    width = max((len(rule) for rule in facts.rules), default=0)
    for number, (rule, count) in enumerate(facts.rules.items()):
        label = "" if number else "Rules"
        lines.append(f"{label:<19}{rule:<{width}}  {count:>12,}")
    return lines


def show_grids(table: Capacity, facts: PublicMetadata, epsilon: str) -> None:
    """Print the grids that this fleet supports."""
    factor = formatting.factor(float(epsilon))
    typer.echo(
        f"\nGrids that this fleet supports at epsilon {epsilon} (probability factor {factor}):"
    )
    # The proposed runs come after the table, so that it names no grid of its own.
    grid_table.show(table, facts.value_unit, sentence=False)
