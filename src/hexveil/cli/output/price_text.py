"""Cells, privacy unit and price of a plan of any kind, as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.base.rational import decimal_text
from hexveil.cli.output import formatting
from hexveil.model.declared_grid import ColumnFacts, DeclaredColumns, DeclaredFacts
from hexveil.planning.feasibility.advice import describe_repeats
from hexveil.report.promise_wording import promise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.config import Run
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.moment_part import MomentPart
    from hexveil.planning.plan import Plan

    AnyFacts = PublicMetadata | ColumnFacts | DeclaredFacts | DeclaredColumns

MONTH = 30
"""Longer runs of CLIP-USER are shown by their first and last stages; JSON data have all."""
_COMPONENTS = {
    "moments": "means and variances",
    "shape": "the distribution over all cells",
    "scores": "mean scores of every cell",
}


def price_lines(plan: Plan, facts: AnyFacts) -> list[str]:
    """Return lines about the cells, the privacy unit and the price."""
    if isinstance(facts, (DeclaredFacts, DeclaredColumns)):
        return _declared_lines(plan, facts)
    if isinstance(facts, ColumnFacts):
        cells = [
            line
            for column, column_facts in facts.columns.items()
            for line in _cell_lines(column, " cells", column_facts)
        ]
    else:
        cells = _cell_lines("Cells", "", facts)
    repeats = describe_repeats(facts)
    return [
        *cells,
        *([] if repeats is None else formatting.wrapped("Repeats", repeats)),
        *(_noise_lines(plan, facts) if plan.epsilon else _constant_lines(plan, facts)),
    ]


def _cell_lines(label: str, noun: str, facts: PublicMetadata) -> list[str]:
    occupancy = facts.occupancy
    return formatting.wrapped(
        label,
        f"{occupancy.n_cells:,}{noun}: {formatting.grid_words(facts.cells.grid)}; "
        f"{occupancy.n_records:,} records of {occupancy.n_users:,} {facts.privacy_unit}s.",
    )


def _price_line(plan: Any, unit: str, scope: str, end: str, protect: Any = "values") -> list[str]:  # noqa: ANN401
    """Return the price with its promise."""
    stated = promise(unit, plan.epsilon, protect=protect, delta=plan.delta)
    price = formatting.price(float(plan.epsilon))
    return formatting.wrapped("Price", f"{price} (epsilon){_at(plan)}{scope}. {stated}{end}")


def _at(plan: Any) -> str:  # noqa: ANN401
    return f" at delta {decimal_text(plan.delta)}" if plan.delta else ""


def _part_lines(plan: Any, losses: Mapping[str, float], end: str = "") -> list[str]:  # noqa: ANN401
    texts = ", ".join(f"{name} {formatting.price(loss)}" for name, loss in losses.items())
    return formatting.wrapped("Parts", f"{texts} (epsilon{_at(plan)}{end}).")


def _noise_lines(plan: Any, facts: PublicMetadata | ColumnFacts) -> list[str]:  # noqa: ANN401
    """Return the price of a plan with noise, its parts, and the price under naive accounting."""
    unit, end = facts.privacy_unit, ", for the unit whom each costs most"
    median = formatting.price(float(np.median(plan.losses())))
    half = f" Half of the {unit}s lose at most {median}."
    divided = {} if isinstance(facts, ColumnFacts) else plan.single.component_epsilons()
    if not (divided or isinstance(facts, ColumnFacts)):
        return [*_price_line(plan, unit, "", half), *_accounting_lines(plan.single)]
    if plan.delta:
        end += "; their squares of mu add up"
    if isinstance(facts, ColumnFacts):
        targets = "each value column costs the least that meets its own target errors."
        half = half.replace("Half of the", f"Half of the {facts.n_units:,}")
        return [
            *(formatting.wrapped("Targets", targets) if plan.requested_epsilon is None else []),
            *_price_line(plan, unit, ", for all value columns together", half),
            *_part_lines(plan, plan.column_epsilons(), end),
        ]
    bins = " and bins of every cell" if plan.estimator == "bins" else ""
    losses = {_COMPONENTS[name] + bins * (name == "shape"): loss for name, loss in divided.items()}
    return [
        *_price_line(plan, unit, ", for all statistics together", half),
        *_part_lines(plan, losses, end),
    ]


def _constant_lines(plan: Plan, facts: AnyFacts) -> list[str]:
    """Return the price line of a plan of constants, with the reason."""
    why = "constants meet the target errors"
    if not any(component.targets for component in plan.components.values()):
        epsilon = formatting.number_text(float(plan.epsilon_limit))
        why = f"noise at epsilon {epsilon} would cause a larger error"
    return formatting.wrapped(
        "Price",
        f"0 (epsilon): every cell publishes a constant, because {why}. "
        f"{promise(facts.privacy_unit, plan.epsilon, delta=plan.delta)}",
    )


def _accounting_lines(plan: MomentPart) -> list[str]:
    """Return the price under naive accounting."""
    # Of one cell there is nothing to count.
    if plan.occupancy.n_cells == 1:
        return []
    claimed = float(plan.l0_epsilon)
    return formatting.wrapped(
        "Naive accounting",
        f"counting cells would have charged {formatting.price(claimed)} for this noise "
        f"(probability factor {formatting.factor(claimed)}); each user is charged its exact "
        "loss instead.",
    )


def _declared_lines(plan: Any, facts: DeclaredFacts | DeclaredColumns) -> list[str]:  # noqa: ANN401
    """Return the declared grid and fleet, and the price for any unit, present or not."""
    unit, together, column_lines = facts.privacy_unit, "", []
    declared = facts.leading if isinstance(facts, DeclaredColumns) else facts
    if not plan.is_single:
        together = " for all value columns together"
        column_lines = _part_lines(plan, plan.column_epsilons())
    grid = declared.grid
    fleets = {name: component.request.fleet for name, component in plan.components.items()}
    if len(set(fleets.values())) == 1:
        fleets = {"": next(iter(fleets.values()))}
    tested = "declared to be in use" if grid.is_in_use else "some may be closed"
    words = formatting.grid_words(grid.table.grid)
    lines = formatting.wrapped("Cells", f"{grid.n_cells:,} declared: {words}; {tested}.")
    for name, fleet in fleets.items():
        lines += formatting.wrapped(
            "Fleet",
            f"{name}{name and ': '}{fleet.units:,} {unit}s declared, typically "
            f"{fleet.records_per_unit:,} records and {fleet.cells_per_unit:,} cells each.",
        )
    return [
        *lines,
        *_price_line(plan, unit, f"{together}, for any {unit}", "", "presence"),
        *column_lines,
    ]


def explain_missing_range(run: Run, plan: Plan) -> list[str]:
    """Explain why clipping_range "auto" could not consider a private range."""
    needs = plan.single.missing_range if plan.is_single else None
    if run.plan.clipping_range != "auto" or needs is None:
        return []
    text = f'the bounds, although clipping_range is "auto": a private range needs {needs}.'
    return formatting.wrapped("Clipping range", text)


def month_lines(plan: MomentPart, facts: PublicMetadata) -> list[str]:
    """Return the price of a month of releases, one a day."""
    if plan.delta:
        # Squares of μ add up, not epsilons.
        month = formatting.price(square_epsilon(MONTH * plan.booked_limit, plan.delta))
        text = (
            f"a user present on all {MONTH} days loses {month}{_at(plan)} in total: squares of mu "
            "add up, and not epsilons."
        )
    else:
        monthly = MONTH * float(plan.epsilon)
        month = f"{formatting.price(monthly)} (probability factor {formatting.factor(monthly)})"
        issue = "map" if plan.occupancy.n_cells > 1 else "release"
        text = (
            f"a user present in all {MONTH} {issue}s loses {month}; with privacy_unit = "
            f'"user-day" any one day of a user would stay at the price of one {issue}.'
        )
        if facts.privacy_unit != "user":
            period = facts.privacy_unit.removeprefix("user-")
            text = (
                f"any one {period} of a user stays within its price, but a user present in {MONTH} "
                f"{issue}s can lose {month} in total."
            )
    return formatting.wrapped("A month", f"if you publish every day, {text}")
