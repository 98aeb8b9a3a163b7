"""Cells, privacy unit and price of a plan of any kind, as rows of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.base.rational import decimal_text
from hexveil.cli.formatting import factor, grid_words, number_text, price
from hexveil.model.declared_grid import ColumnFacts, DeclaredColumns, DeclaredFacts
from hexveil.planning.feasibility.recommendation import describe_repeats
from hexveil.report.promise_wording import promise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.cli.formatting import Row
    from hexveil.config import Run
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.moment_component import MomentComponent
    from hexveil.planning.plan import Plan

    AnyFacts = PublicMetadata | ColumnFacts | DeclaredFacts | DeclaredColumns

MONTH = 30
_COMPONENTS = {
    "moments": "means and variances",
    "shape": "the distribution over all cells",
    "scores": "mean scores of every cell",
}


def price_rows(plan: Plan, facts: AnyFacts) -> list[Row]:
    """Return rows about the cells, the privacy unit and the price."""
    if isinstance(facts, (DeclaredFacts, DeclaredColumns)):
        return _declared_rows(plan, facts)
    columns = facts.columns if isinstance(facts, ColumnFacts) else {"Cells": facts}
    noun = " cells" if isinstance(facts, ColumnFacts) else ""
    cells: list[Row] = []
    for label, counted in columns.items():
        occupancy, words = counted.occupancy, grid_words(counted.cells.grid)
        text = (
            f"{occupancy.n_cells:,}{noun}: {words}; {occupancy.n_records:,} records of "
            f"{occupancy.n_users:,} {counted.privacy_unit}s."
        )
        cells.append((label, text))
    priced = _noise_rows(plan, facts) if plan.epsilon else [_constant_row(plan, facts)]
    return [*cells, ("Repeats", describe_repeats(facts)), *priced]


def _price_row(plan: Any, unit: str, scope: str, end: str, protect: Any = "values") -> Row:  # noqa: ANN401
    """Return the price with its promise."""
    stated = promise(unit, plan.epsilon, protect=protect, delta=plan.delta)
    return (
        "Privacy cost",
        f"{price(float(plan.epsilon))} (epsilon){_delta_text(plan)}{scope}. {stated}{end}",
    )


def _delta_text(plan: Any) -> str:  # noqa: ANN401
    return f" at delta {decimal_text(plan.delta)}" if plan.delta else ""


def _part_row(plan: Any, losses: Mapping[str, float], end: str = "") -> Row:  # noqa: ANN401
    texts = ", ".join(f"{name} {price(loss)}" for name, loss in losses.items())
    return ("Parts", f"{texts} (epsilon{_delta_text(plan)}{end}).")


def _noise_rows(plan: Any, facts: PublicMetadata | ColumnFacts) -> list[Row]:  # noqa: ANN401
    """Return the price of a plan with noise, its parts, and the cost under naive accounting."""
    unit, end = facts.privacy_unit, ", for the unit whom each costs most"
    half = f"s lose at most {price(float(np.median(plan.losses())))}."
    if plan.delta:
        end += "; their squares of mu add up"
    if isinstance(facts, ColumnFacts):
        targets = "each value column costs the least that meets its own target errors."
        half = f" Half of the {facts.n_units:,} {unit}{half}"
        return [
            ("Targets", targets if plan.requested_epsilon is None else None),
            _price_row(plan, unit, ", for all value columns together", half),
            _part_row(plan, plan.column_epsilons(), end),
        ]
    half = f" Half of the {unit}{half}"
    divided = plan.single.component_epsilons()
    if not divided:
        return [_price_row(plan, unit, "", half), _naive_row(plan.single)]
    bins = " and bins of every cell" if plan.estimator == "bins" else ""
    losses = {_COMPONENTS[name] + bins * (name == "shape"): loss for name, loss in divided.items()}
    return [
        _price_row(plan, unit, ", for all statistics together", half),
        _part_row(plan, losses, end),
    ]


def _constant_row(plan: Plan, facts: AnyFacts) -> Row:
    """Return the price of a plan of constants, with the reason."""
    why = "constants meet the target errors"
    if not any(component.targets for component in plan.components.values()):
        why = (
            f"noise at epsilon {number_text(float(plan.epsilon_limit))} would cause a larger error"
        )
    stated = promise(facts.privacy_unit, plan.epsilon, delta=plan.delta)
    return (
        "Privacy cost",
        f"0 (epsilon): every cell publishes a constant, because {why}. {stated}",
    )


def _naive_row(plan: MomentComponent) -> Row:
    """Return the cost under naive accounting; of one cell there is nothing to count."""
    claimed = float(plan.l0_epsilon)
    text = (
        f"counting cells would have charged {price(claimed)} for this noise (probability factor "
        f"{factor(claimed)}); each user is charged its exact loss instead."
    )
    return ("Naive accounting", None if plan.occupancy.n_cells == 1 else text)


def _declared_rows(plan: Any, facts: DeclaredFacts | DeclaredColumns) -> list[Row]:  # noqa: ANN401
    """Return the declared grid and fleet, and the price for any unit, present or not."""
    unit, declared = facts.privacy_unit, facts
    if isinstance(declared, DeclaredColumns):
        declared = declared.leading
    together = "" if plan.is_single else " for all value columns together"
    grid = declared.grid
    fleets = {name: component.request.fleet for name, component in plan.components.items()}
    if len(set(fleets.values())) == 1:
        fleets = {"": next(iter(fleets.values()))}
    tested = "declared to be in use" if grid.is_in_use else "some may be closed"
    cells = f"{grid.n_cells:,} declared: {grid_words(grid.table.grid)}; {tested}."
    rows: list[Row] = [("Cells", cells)]
    for name, fleet in fleets.items():
        text = (
            f"{name}{name and ': '}{fleet.units:,} {unit}s declared, typically "
            f"{fleet.records_per_unit:,} records and {fleet.cells_per_unit:,} cells each."
        )
        rows.append(("Fleet", text))
    rows.append(_price_row(plan, unit, f"{together}, for any {unit}", "", "presence"))
    return rows if plan.is_single else [*rows, _part_row(plan, plan.column_epsilons())]


def missing_range_row(run: Run, plan: Plan) -> Row:
    """Return why clipping_range "auto" could not consider a private range; else an empty row."""
    needs = plan.single.missing_range if plan.is_single else None
    if run.plan.clipping_range != "auto" or needs is None:
        return ("Clipping range", None)
    text = f'the bounds, although clipping_range is "auto": a private range needs {needs}.'
    return ("Clipping range", text)


def month_row(plan: MomentComponent, facts: PublicMetadata) -> Row:
    """Return the cost of a month of releases, one a day."""
    if not plan.epsilon:
        return ("A month", None)
    issue = "map" if plan.occupancy.n_cells > 1 else "release"
    epsilon, end = MONTH * float(plan.epsilon), " in total."
    if plan.delta:
        epsilon = square_epsilon(MONTH * plan.booked_limit, plan.delta)
        end = f"{_delta_text(plan)} in total: squares of mu add up, and not epsilons."
    month = f"{price(epsilon)} (probability factor {factor(epsilon)})"
    period = facts.privacy_unit.removeprefix("user").lstrip("-")
    within = f"any one {period} of a user stays within its cost, but " if period else ""
    text = f"{within}a user present in {MONTH} {issue}s can lose {month}{end}"
    return ("A month", f"if you publish every day, {text}")
