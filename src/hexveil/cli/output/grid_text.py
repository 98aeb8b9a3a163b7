"""Text and JSON of facts, and of the grids that a fleet supports: tables, and proposed runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from hexveil.base.hexagons import across
from hexveil.cli.output import formatting, plan_text
from hexveil.cli.output.formatting import number_text
from hexveil.config.run_file import Key, toml_lines
from hexveil.model.cells import Cells, Labels
from hexveil.planning.feasibility.recommendation import distinct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexveil.cli.output.formatting import Row
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.feasibility.capacity import Capacity, RunAdvice
    from hexveil.planning.feasibility.grid_assessment import GridAssessment
    from hexveil.planning.feasibility.recommendation import CommonGrid
    from hexveil.planning.plan import Plan

    Changes = dict[Key, object]

_PLACES = (
    "Km: average width of a hexagon. Hexagons: how many of them have cells; with one, a map "
    "is one number for the whole area, in each slot. "
)
_USUAL_CAUSE = (
    "Fewer and larger cells, longer timeslots, a larger epsilon, a shorter privacy unit or "
    "narrower bounds reduce the noise."
)
_HOW_TO_WRITE = "To write one of them: --propose FILE --choice finest, balanced or accurate."


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


def fact_rows(facts: PublicMetadata) -> list[Row]:
    """Return the public metadata of a data set as text."""
    occupancy = facts.occupancy
    unit = f" in {facts.value_unit}" if facts.value_unit else ""
    low, high = (number_text(float(end)) for end in (facts.lattice.lower, facts.lattice.upper))
    width = max((len(rule) for rule in facts.rules), default=0)
    return [
        ("Value", f"{facts.value}{unit}, clamped to {low} and {high}; never shown."),
        ("Records", f"{occupancy.n_records:,} in the cells below."),
        ("Protected", f"{occupancy.n_users:,} {facts.privacy_unit}s, each as one privacy unit."),
        ("Cells", f"{occupancy.n_cells:,}: {formatting.grid_words(facts.cells.grid)}."),
        *(
            f"{'' if number else 'Rules':<19}{rule:<{width}}  {count:>12,}"
            for number, (rule, count) in enumerate(facts.rules.items())
        ),
    ]


def show_grids(table: Capacity, facts: PublicMetadata, epsilon: str) -> None:
    """Print facts, and the grids that this fleet supports."""
    factor = formatting.factor(float(epsilon))
    title = f"Grids that this fleet supports at epsilon {epsilon} (probability factor {factor}):"
    formatting.print_rows([*fact_rows(facts), "", title])
    # The proposed runs come after the table, so that it names no grid of its own.
    show_table(table, facts.value_unit, sentence=False)


def show_table(table: Capacity, value_unit: str, *, sentence: bool = True) -> None:
    """Print the error of each grid for a fleet, and the proposed grid unless told otherwise."""
    labels = any(offer.labels is not None for offer in table.offers)
    places = ["Labels"] if labels else ["Resolution", "Km", "Hexagons", "Timeslot"]
    heads = [*places, "Cells", "Users", "Floor", "Error", "Baseline", "Usable"]
    rows = [_row(offer, proposed=sentence and offer is table.proposed) for offer in table.offers]
    left_columns = ("Labels", "Usable")
    formatting.print_table(heads, rows, left_columns)
    unit = f" in {value_unit}" if value_unit else ""
    legend = (
        f"{'' if labels else _PLACES}Floor: least noise{unit} of any plan without clipping. Error: "
        "expected error of the plan. Baseline: assumed error of one number for all cells. Usable: "
        "the error is below the baseline, or the epsilon at which it would be."
    )
    grid = formatting.capital(table.sentence) if sentence else None
    formatting.print_rows([("", legend), ("Grid", grid)])


def _row(offer: GridAssessment, *, proposed: bool) -> list[str]:
    if offer.labels is not None:
        cells = [", ".join(offer.labels)]
    else:
        places = "one number" if offer.hexagons == 1 else f"{offer.hexagons or 0:,}"
        wide = f"{offer.kilometres:.2g}"
        cells = [str(offer.resolution), wide, places, offer.timeslot or "none"]
    cells.append(f"{offer.cells:,}")
    if not offer.cells:
        return [*cells, "0", "-", "-", "-", "no cell"]
    return [
        *cells,
        f"{offer.users:,}",
        number_text(offer.floor),
        # Grids that are far too fine are not planned: their error is a lower bound.
        ("" if offer.planned else "> ") + number_text(offer.predicted_error),
        number_text(offer.baseline_error),
        "proposed" if proposed else _usable(offer),
    ]


def _usable(offer: GridAssessment) -> str:
    """Return whether the error is below the baseline, or the epsilon at which it would be."""
    if offer.beats_constant:
        return "yes"
    if offer.epsilon_needed is not None:
        return f"at {offer.epsilon_needed:g}"
    return f"above {formatting.at_least(offer.epsilon_least)}" if offer.epsilon_least else "no"


def fields_json(changes: Changes) -> dict[str, object]:
    """Return fields of a run file as JSON data."""
    return {
        f"{section}.{name}": list(value) if isinstance(value, tuple) else value
        for (section, name), value in changes.items()
    }


def cell_fields(grid: Cells | Labels) -> Changes:
    """Return the fields of a run file that make its grid this one."""
    if not isinstance(grid, Cells):
        return {("cells", "labels"): grid.columns}
    changes: Changes = {("cells", "resolution"): grid.resolution}
    return changes | {("cells", "timeslot"): grid.timeslot or "none"}


def changed_fields(proposal: GridAssessment) -> Changes:
    """Return the fields of a run file that make a run the proposed one."""
    return cell_fields(proposal.grid) | {
        ("select", "min_users"): proposal.min_users,
        ("read", "privacy_unit"): proposal.privacy_unit,
    }


def advice_rows(advice: RunAdvice, value_unit: str, epsilon: str) -> list[Row]:
    """Return the proposed runs as lines of a run file, or why there are none."""
    rows: list[Row] = []
    if advice.proposals:
        rows.append(f"Runs proposed at epsilon {epsilon}, as lines of a run file:")
        for choices, proposal in distinct(advice.proposals):
            rows += _proposed_rows(choices, proposal, value_unit)
        rows += ["", _HOW_TO_WRITE]
    else:
        rows.append(("No proposal", absence(advice, epsilon)))
    return rows


def _proposed_rows(choices: str, proposal: GridAssessment, value_unit: str) -> list[Row]:
    return [
        "",
        *_comment(choices, proposal, value_unit),
        *toml_lines(changed_fields(proposal)),
    ]


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


def absence(advice: RunAdvice, epsilon: str) -> str:
    """Return why no run is proposed, with the nearest and the ways out."""
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


def advice_json(advice: RunAdvice) -> dict[str, object]:
    """Return the proposed runs as JSON data, by choice."""
    return {
        "runs": {choice: _run_json(item) for choice, item in advice.proposals.items()},
    }


def _run_json(proposal: GridAssessment) -> dict[str, object]:
    return {
        "fields": fields_json(changed_fields(proposal)),
        "hexagons": proposal.hexagons,
        "cells": proposal.cells,
        "users": proposal.users,
        "raw_error": proposal.predicted_error,
        "smoothed_error": proposal.smoothed_error,
        "baseline_error": proposal.baseline_error,
    }


def common_rows(
    proposals: Mapping[str, CommonGrid], units: Mapping[str, str], epsilon: str
) -> list[Row]:
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
        return [("No common grid", text)]
    rows: list[Row] = [f"Grids for all value columns at epsilon {epsilon}, as lines of a run file:"]
    for choices, grid in distinct(proposals):
        rows += [
            "",
            *_column_comment(choices, grid, units),
            *toml_lines(cell_fields(grid.grid)),
        ]
    return [*rows, "", _HOW_TO_WRITE]


def _column_comment(choices: str, grid: CommonGrid, units: Mapping[str, str]) -> list[str]:
    lines = [f"# {choices}:"]
    for column, offer in grid.assessments.items():
        # Of declared grids a prediction tells more; the errors below are of counted ones, too.
        prediction = None if offer.declared is None else offer.declared.prediction
        of_map, counts = (prediction.map, prediction.counts) if prediction else (None, None)
        if prediction is not None and of_map is None:
            lines.append(f"# {column}: {offer.cells:,} cells, {plan_text.count_text(counts)}")
            continue
        counted = "" if counts is None else f"; {plan_text.count_text(counts)}"
        traffic = "" if of_map is None else f"{of_map.open_traffic:.0%}"
        open_cells = traffic and f" with {traffic} of the traffic in open ones"
        error, constant = (
            formatting.measured(float(f"{number:.2g}"), units[column])
            for number in (offer.predicted_error, offer.baseline_error)
        )
        lines.append(
            f"# {column}: {offer.cells:,} cells{open_cells}, expected error {error}; one number "
            f"for all cells {constant}{counted}"
        )
    return lines


def common_json(proposals: Mapping[str, CommonGrid]) -> dict[str, object]:
    """Return the proposed grids as JSON data, by choice."""
    return {
        choice: {
            "fields": fields_json(cell_fields(grid.grid)),
            "cells": {column: offer.cells for column, offer in grid.assessments.items()},
            "errors": {column: offer.predicted_error for column, offer in grid.assessments.items()},
        }
        for choice, grid in proposals.items()
    }


# ---- declared grids ----


def show_declared(title: str, plans: Sequence[Any]) -> None:
    """Print a line per declared grid: cells, expected errors, share of traffic in open cells."""
    if not plans:
        return
    heads = (
        "Resolution", "Km", "Hexagons", "Timeslot", "Cells", "Error", "Weight off by",
        "Open traffic", "Usable",
    )  # fmt: skip
    typer.echo(f"\n{title}")
    formatting.print_table(heads, map(_declared_row, plans), ())


def _declared_row(plan: Any) -> tuple[str, ...]:  # noqa: ANN401  of private presence
    grid, of_map, counts = plan.facts.cells.grid, plan.prediction.map, plan.prediction.counts
    usable, hexagons = "no" if plan.refusal else "yes", plan.facts.cells.n_places or 0
    place = (
        str(grid.resolution),
        f"{across(grid.resolution):.2g}",
        "one number" if hexagons == 1 else f"{hexagons:,}",
        grid.timeslot or "none",
        f"{plan.facts.grid.n_cells:,}",
    )
    if of_map is None:
        return (*place, "", f"{counts.count_error:.3g}", "", usable)
    weight = f"{of_map.weight_error:.2g} of {of_map.typical_weight:.3g}"
    return (*place, f"{of_map.error:.2g}", weight, f"{of_map.open_traffic:.0%}", usable)


def declared_json(plan: Plan) -> dict[str, Any]:
    """Return a declared grid and its prediction, of several value columns each, as JSON data."""
    parts: Mapping[str, Any] = plan.components
    facts = next(iter(parts.values())).facts
    grid = facts.cells.grid
    place = {"labels": list(grid.columns)} if not isinstance(grid, Cells) else {
        "resolution": grid.resolution,
        "kilometres": across(grid.resolution),
        "hexagons": facts.cells.n_places,
        "timeslot": grid.timeslot,
    }  # fmt: skip
    columns = {
        column: {
            "epsilon": float(part.epsilon),
            "prediction": part.figures(),
            "usable": part.refusal is None,
        }
        for column, part in parts.items()
    }
    told = next(iter(columns.values())) if plan.is_single else {"columns": columns}
    return place | {"cells": facts.grid.n_cells} | told
