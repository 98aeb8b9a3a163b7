"""Text and JSON of the runs that `hexveil inspect` proposes.

Text and JSON of grids that several value columns have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.base.hexagons import across
from hexveil.cli.output import formatting
from hexveil.config.run_file_text import toml_lines
from hexveil.model.cells import Cells
from hexveil.planning.feasibility.common_grid import DeclaredAssessment
from hexveil.planning.feasibility.proposals import distinct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.model.cells import Labels
    from hexveil.planning.feasibility.common_grid import CommonGrid
    from hexveil.planning.feasibility.grid_assessment import GridAssessment
    from hexveil.planning.feasibility.proposals import RunAdvice
    from hexveil.planning.presence.presence_prediction import CountPrediction


Changes = dict[tuple[str, str], object]
"""Fields of a run file by section and name."""

_USUAL_CAUSE = (
    "Fewer and larger cells, longer timeslots, a larger epsilon, a shorter privacy unit or "
    "narrower bounds reduce the noise."
)


def cell_fields(grid: Cells | Labels) -> Changes:
    """Return the fields of a run file that make its grid this one."""
    if not isinstance(grid, Cells):
        return {("cells", "labels"): grid.columns}
    changes: Changes = {("cells", "resolution"): grid.resolution}
    return changes | {("cells", "timeslot"): grid.timeslot or "none"}


def changed_fields(proposal: GridAssessment) -> Changes:
    """Return the fields of a run file that make a run the proposed one."""
    changes = cell_fields(proposal.grid)
    changes["select", "min_users"] = proposal.min_users
    changes["read", "privacy_unit"] = proposal.privacy_unit
    return changes


def advice_lines(advice: RunAdvice, value_unit: str, epsilon: str) -> list[str]:
    """Return the proposed runs as lines of a run file, or why there are none."""
    lines = []
    if advice.proposals:
        lines.append(f"Runs proposed at epsilon {epsilon}, as lines of a run file:")
    for choices, proposal in distinct(advice.proposals):
        lines += ["", *_comment(choices, proposal, value_unit)]
        lines += toml_lines(changed_fields(proposal))
    if advice.proposals:
        lines += ["", "To write one of them: --propose FILE --choice finest, balanced or accurate."]
    else:
        lines += formatting.wrapped("No proposal", _absence(advice, epsilon))
    for proposal in advice.weaker:
        lines += [
            "",
            *_comment(f"with the weaker promise {proposal.privacy_unit}", proposal, value_unit),
        ]
        lines += toml_lines(changed_fields(proposal))
    if advice.dominant_share is not None:
        lines += formatting.wrapped("Cause", _dominant(advice.dominant_share))
    return lines


def _comment(choices: str, proposal: GridAssessment, value_unit: str) -> list[str]:
    raw, smoothed, constant = (
        formatting.measured(float(f"{error:.2g}"), value_unit)
        for error in (proposal.predicted_error, proposal.smoothed_error, proposal.baseline_error)
    )
    units = f"{proposal.users:,} {proposal.privacy_unit}s"
    return [
        f"# {choices}: {proposal.cells:,} cells{_places(proposal)}, {units};",
        f"# expected error {raw} raw, {smoothed} smoothed; one number for all cells {constant}",
    ]


def _places(proposal: GridAssessment) -> str:
    """Return the hexagons of a run and their width in words; nothing for labels."""
    if proposal.hexagons is None or not isinstance(proposal.grid, Cells):
        return ""
    return f" in {proposal.hexagons:,} hexagons of {across(proposal.grid.resolution):.2g} km"


def _absence(advice: RunAdvice, epsilon: str) -> str:
    nearest = advice.nearest
    if nearest is None:
        return "No grid tried has a map of three hexagons. Lower min_users, or take a finer grid."
    sentence = (
        f"At epsilon {epsilon} no run is expected to beat one number for all cells. "
        f"{formatting.capital(nearest.description)} with min_users {nearest.min_users} "
        f"({nearest.cells:,} cells) comes nearest: error {nearest.predicted_error:.2g}, one number "
        f"{nearest.baseline_error:.2g}"
    )
    enough = advice.epsilon_needed
    needed = "" if enough is None else f", usable at epsilon {enough:g}"
    return f"{sentence}{needed}. {_USUAL_CAUSE}"


def _dominant(share: float) -> str:
    return (
        f"One user has {share:.0%} of all records, and noise that hides this user is most of the "
        "error. Check that the id column does not join several vehicles; if it does not, a map "
        "without this user is much more accurate."
    )


def advice_json(advice: RunAdvice) -> dict[str, object]:
    """Return the proposed runs as JSON data, by choice."""
    return {
        "runs": {choice: _run_json(one) for choice, one in advice.proposals.items()},
        "weaker": [_run_json(one) for one in advice.weaker],
        "dominant_share": advice.dominant_share,
    }


def _run_json(proposal: GridAssessment) -> dict[str, object]:
    return {
        "fields": {
            f"{section}.{name}": list(value) if isinstance(value, tuple) else value
            for (section, name), value in changed_fields(proposal).items()
        },
        "hexagons": proposal.hexagons,
        "cells": proposal.cells,
        "users": proposal.users,
        "raw_error": proposal.predicted_error,
        "smoothed_error": proposal.smoothed_error,
        "baseline_error": proposal.baseline_error,
    }


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
        lines += ["", *_column_comment(choices, grid, units), *toml_lines(grid_fields(grid))]
    return [*lines, "", "To write one: --propose FILE --choice finest, balanced or accurate."]


def _column_comment(choices: str, grid: CommonGrid, units: Mapping[str, str]) -> list[str]:
    lines = [f"# {choices}:"]
    for column, offer in grid.assessments.items():
        prediction = offer.plan.prediction if isinstance(offer, DeclaredAssessment) else None
        open_cells, counted = "", ""
        if prediction is not None:
            if prediction.counts is not None:
                counted = _count_text(prediction.counts)
            if prediction.map is None:
                lines.append(f"# {column}: {offer.cells:,} cells, {counted}")
                continue
            open_cells = f" with {prediction.map.open_traffic:.0%} of the traffic in open ones"
        error, constant = (
            formatting.measured(float(f"{number:.2g}"), units[column])
            for number in (offer.predicted_error, offer.baseline_error)
        )
        lines.append(
            f"# {column}: {offer.cells:,} cells{open_cells}, expected error {error}; one number "
            f"for all cells {constant}{counted and f'; {counted}'}"
        )
    return lines


def _count_text(counts: CountPrediction) -> str:
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
