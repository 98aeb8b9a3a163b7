"""Text and JSON of grids that several value columns have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.cli.output import formatting
from hexveil.cli.output.proposal_text import cell_fields
from hexveil.config.run_file_text import toml_lines
from hexveil.planning.feasibility.common_grid import DeclaredAssessment
from hexveil.planning.presence.counted_request import CountedPrediction
from hexveil.planning.presence.presence_prediction import UnitCountPrediction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.cli.output.proposal_text import Changes
    from hexveil.planning.feasibility.common_grid import CommonGrid


def grid_fields(grid: CommonGrid) -> Changes:
    """Return the fields of a run file that make its grid this one."""
    return cell_fields(grid.leading.grid)


def common_lines(
    proposals: Mapping[str, CommonGrid], units: Mapping[str, str], epsilon: str
) -> list[str]:
    """Return the proposed grids as lines of a run file, or that there is none.

    Parameters
    ----------
    proposals : mapping of str to CommonGrid
        By choice.
    units : mapping of str to str
        Unit of measure of each column.
    epsilon : str
        Of all columns together.
    """
    if not proposals:
        text = (
            f"At epsilon {epsilon} no grid is expected to beat one number for all cells in every "
            "value column. Leave a column out, or take larger cells, longer timeslots or a larger "
            "epsilon."
        )
        return formatting.wrapped("No common grid", text)
    lines = [f"Grids for all value columns at epsilon {epsilon}, as lines of a run file:"]
    for grid in dict.fromkeys(proposals.values()):
        choices = ", ".join(choice for choice, offer in proposals.items() if offer is grid)
        lines += ["", *_comment(choices, grid, units), *toml_lines(grid_fields(grid))]
    return [*lines, "", "To write one: --propose FILE --choice finest, balanced or accurate."]


def _comment(choices: str, grid: CommonGrid, units: Mapping[str, str]) -> list[str]:
    lines = [f"# {choices}:"]
    for column, offer in grid.assessments.items():
        prediction = offer.plan.prediction if isinstance(offer, DeclaredAssessment) else None
        open_cells, counted = "", ""
        if isinstance(prediction, CountedPrediction):
            counted = f"; {_count_text(prediction.counts)}"
            prediction = prediction.statistics
        if isinstance(prediction, UnitCountPrediction):
            lines.append(f"# {column}: {offer.cells:,} cells, {_count_text(prediction)}")
            continue
        if prediction is not None:
            open_cells = f" with {prediction.open_traffic:.0%} of the traffic in open ones"
        error, constant = (
            formatting.measured(float(f"{number:.2g}"), units[column])
            for number in (offer.predicted_error, offer.baseline_error)
        )
        lines.append(
            f"# {column}: {offer.cells:,} cells{open_cells}, expected error {error}; one number "
            f"for all cells {constant}{counted}"
        )
    return lines


def _count_text(counts: UnitCountPrediction) -> str:
    return (
        f"numbers of units off by {counts.count_error:.3g} of typically {counts.typical_count:.3g}"
    )


def common_json(proposals: Mapping[str, CommonGrid]) -> dict[str, object]:
    """Return the proposed grids as JSON data, by choice."""
    return {
        choice: {
            "fields": {
                f"{section}.{name}": list(value) if isinstance(value, tuple) else value
                for (section, name), value in grid_fields(grid).items()
            },
            "cells": {column: offer.cells for column, offer in grid.assessments.items()},
            "errors": {column: offer.predicted_error for column, offer in grid.assessments.items()},
        }
        for choice, grid in proposals.items()
    }
