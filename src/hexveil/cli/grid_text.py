"""Text and JSON of facts, and of the grids that a fleet supports: tables, and proposed runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hexveil.base.hexagons import across
from hexveil.cli import formatting
from hexveil.cli.formatting import number_text
from hexveil.config.run_file import Key, toml_lines
from hexveil.model.cells import Cells, Labels
from hexveil.planning.feasibility.recommendation import distinct
from hexveil.report.templates import unit_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hexveil.cli.formatting import Row
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.feasibility.capacity import Capacity
    from hexveil.planning.feasibility.grid_assessment import GridAssessment
    from hexveil.planning.plan import Plan

    Changes = dict[Key, object]

_PLACES = (
    "Km: average width of a hexagon. Hexagons: how many of them have cells; with one, a map "
    "is one number for the whole area, in each slot. "
)
_LEGEND = (
    "{}Floor: least noise{} of any plan without clipping. Error: expected error of the plan. "
    "Baseline: assumed error of one number for all cells. Usable: the error is below the baseline, "
    "or the epsilon at which it would be."
)
USUAL_CAUSE = (
    "Fewer and larger cells, longer timeslots, a larger epsilon, a shorter privacy unit or "
    "narrower bounds reduce the noise."
)


# ---- facts, and the table of grids ----


def facts_json(facts: PublicMetadata, table: Capacity) -> dict[str, object]:
    """Return the public metadata of a data set, and its grids, as JSON data."""
    occupancy = facts.occupancy
    return {
        "value": facts.value,
        "value_unit": facts.value_unit,
        "unit": facts.privacy_unit,
        "users": occupancy.n_users,
        "cells": occupancy.n_cells,
        "records": occupancy.n_records,
        "rules": dict(facts.rules),
        "capacity": table.to_arrow().to_pylist(),
        "proposal": table.sentence,
    }


def show_grids(table: Capacity, facts: PublicMetadata, epsilon: str) -> None:
    """Print facts, and the grids that this fleet supports."""
    occupancy, unit = facts.occupancy, f" in {facts.value_unit}" if facts.value_unit else ""
    protected = f"{unit_name(facts.privacy_unit)}s"
    low, high = (number_text(float(end)) for end in (facts.lattice.lower, facts.lattice.upper))
    width = max((len(_spoken(rule)) for rule in facts.rules), default=0)
    factor = formatting.factor(float(epsilon))
    rows: list[Row] = [
        ("Value", f"{facts.value}{unit}, clamped to {low} and {high}; never shown."),
        ("Records", f"{occupancy.n_records:,} in the cells below."),
        ("Protected", f"{occupancy.n_users:,} {protected}, each as one privacy unit."),
        ("Cells", f"{occupancy.n_cells:,}: {formatting.grid_words(facts.cells.grid)}."),
        *(
            f"{'' if number else 'Rules':<19}{_spoken(rule):<{width}}  {count:>12,}"
            for number, (rule, count) in enumerate(facts.rules.items())
        ),
        "",
        f"Grids that this fleet supports at epsilon {epsilon} (probability factor {factor}):",
    ]
    formatting.print_rows(rows)
    labels = not all(isinstance(offer.grid, Cells) for offer in table.offers)
    heads = ["Labels"] if labels else ["Resolution", "Km", "Hexagons", "Timeslot"]
    heads += ["Cells", formatting.capital(protected), "Floor", "Error", "Baseline", "Usable"]
    formatting.print_table(heads, map(_row, table.offers), ("Labels", "Usable"))
    formatting.print_rows([("", _LEGEND.format("" if labels else _PLACES, unit))])


def _spoken(rule: str) -> str:
    """Return a rule of reading as people read it: the user is a vehicle."""
    return rule.replace("user", "vehicle")


def _row(offer: GridAssessment) -> list[str]:
    cells = [*_place(offer.grid, offer.hexagons), f"{offer.cells:,}"]
    if not offer.cells:
        return [*cells, "0", "-", "-", "-", "no cell"]
    usable = "yes"
    if not offer.beats_constant:
        usable = "no" if offer.epsilon_needed is None else f"at {offer.epsilon_needed:g}"
    return [
        *cells,
        f"{offer.users:,}",
        number_text(offer.floor),
        # Grids that are far too fine are not planned: their error is a lower bound.
        ("" if offer.planned else "> ") + number_text(offer.predicted_error),
        number_text(offer.baseline_error),
        usable,
    ]


def _place(grid: Cells | Labels, hexagons: int | None) -> list[str]:
    """Return labels, or resolution, width, number of hexagons and slot."""
    if not isinstance(grid, Cells):
        return [", ".join(grid.columns)]
    counted = "one number" if hexagons == 1 else f"{hexagons or 0:,}"
    return [
        str(grid.resolution), f"{across(grid.resolution):.2g}", counted, grid.timeslot or "none",
    ]  # fmt: skip


# ---- proposed runs ----


def cell_fields(grid: Cells | Labels) -> Changes:
    """Return the fields of a run file that make its grid this one."""
    if not isinstance(grid, Cells):
        return {("cells", "labels"): grid.columns}
    return {
        ("cells", "resolution"): grid.resolution,
        ("cells", "timeslot"): grid.timeslot or "none",
    }


def changed_fields(proposal: GridAssessment) -> Changes:
    """Return the fields of a run file that make a run the proposed one."""
    return cell_fields(proposal.grid) | {
        ("select", "min_users"): proposal.min_users,
        ("read", "privacy_unit"): proposal.privacy_unit,
    }


def _fields_json(changes: Changes) -> dict[str, object]:
    return {
        f"{section}.{name}": list(value) if isinstance(value, tuple) else value
        for (section, name), value in changes.items()
    }


def advice_rows(table: Capacity, value_unit: str, epsilon: str) -> list[Row]:
    """Return the proposed runs as lines of a run file, or why there are none."""
    if not table.proposals:
        return [("No proposal", f"{formatting.capital(table.sentence)} {USUAL_CAUSE}")]
    rows: list[Row] = [f"Runs proposed at epsilon {epsilon}, as lines of a run file:"]
    for choices, proposal in distinct(table.proposals):
        rows += ["", *(f"# {text}" for text in _comments(choices, proposal, value_unit))]
        rows += toml_lines(changed_fields(proposal))
    return rows


def _comments(choices: str, proposal: GridAssessment, value_unit: str) -> Iterator[str]:
    expected, constant = (
        formatting.measured(float(f"{error:.2g}"), value_unit)
        for error in (proposal.predicted_error, proposal.baseline_error)
    )
    places = ""
    if isinstance(proposal.grid, Cells):
        wide = across(proposal.grid.resolution)
        places = f" in {proposal.hexagons or 0:,} hexagons of {wide:.2g} km"
    units = f"{proposal.users:,} {unit_name(proposal.privacy_unit)}s"
    yield f"{choices}: {proposal.cells:,} cells{places}, {units};"
    yield f"expected error {expected}; one number for all cells {constant}"


def advice_json(table: Capacity) -> dict[str, object]:
    """Return the proposed runs as JSON data, by choice."""
    figures = ("hexagons", "cells", "users", "baseline_error")
    runs = {
        choice: {"fields": _fields_json(changed_fields(item)), "raw_error": item.predicted_error}
        | {name: getattr(item, name) for name in figures}
        for choice, item in table.proposals.items()
    }
    return {"runs": runs}


# ---- declared grids ----


def show_declared(title: str, plans: Sequence[Any]) -> None:
    """Print a line per declared grid: cells, expected errors, share of traffic in open cells."""
    if not plans:
        return
    heads = (
        "Resolution", "Km", "Hexagons", "Timeslot", "Cells", "Error", "Weight off by",
        "Open traffic", "Usable",
    )  # fmt: skip
    click.echo(f"\n{title}")
    formatting.print_table(heads, map(_declared_row, plans), ())


def _declared_row(plan: Any) -> list[str]:  # noqa: ANN401  of private presence
    of_map, counts, table = plan.prediction.map, plan.prediction.counts, plan.facts.cells
    cells = [*_place(table.grid, table.n_places), f"{plan.facts.grid.n_cells:,}"]
    usable = "no" if plan.refusal else "yes"
    if of_map is None:
        return [*cells, "", f"{counts.count_error:.3g}", "", usable]
    weight = f"{of_map.weight_error:.2g} of {of_map.typical_weight:.3g}"
    return [*cells, f"{of_map.error:.2g}", weight, f"{of_map.open_traffic:.0%}", usable]


def declared_json(plan: Plan) -> dict[str, Any]:
    """Return a declared grid and its prediction, of several value columns each, as JSON data."""
    components: Mapping[str, Any] = plan.components
    facts = next(iter(components.values())).facts
    grid = facts.cells.grid
    place = {"labels": list(grid.columns)} if not isinstance(grid, Cells) else {
        "resolution": grid.resolution,
        "kilometres": across(grid.resolution),
        "hexagons": facts.cells.n_places,
        "timeslot": grid.timeslot,
    }  # fmt: skip
    columns = {
        column: {
            "epsilon": float(component.epsilon),
            "prediction": component.figures(),
            "usable": component.refusal is None,
        }
        for column, component in components.items()
    }
    content = next(iter(columns.values())) if plan.is_single else {"columns": columns}
    return place | {"cells": facts.grid.n_cells} | content
