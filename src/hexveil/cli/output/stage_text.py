"""Lines of `hexveil plan` about the stages of a mechanism of one cell."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from hexveil.accounting.error_model import CellMechanismErrorModel
from hexveil.cli.output import formatting
from hexveil.planning.allocation import CellMechanisms
from hexveil.planning.cell_mechanisms import names_of_cells

if TYPE_CHECKING:
    from hexveil.planning import Plan


def mechanism_lines(plan: Plan) -> list[str]:
    """Return the stages of a mechanism of one cell with their cost, and how sure its errors are."""
    match plan.allocation.clipping:
        case CellMechanisms(cells=cells):
            from hexveil.publishing.privacy_steps import privacy_steps  # noqa: PLC0415  for these

            step = privacy_steps(plan)[0] if plan.epsilon else {"stages": []}
        case _:
            return []
    stages = ", ".join(
        f"{stage['stage']} at {formatting.price(float(Fraction(stage['epsilon'])))}"
        for stage in step["stages"]
    )
    price = formatting.price(float(cells.cell_epsilon))
    loss = f", each cell by itself at epsilon {price}" if plan.occupancy.n_cells > 1 else ""
    return formatting.wrapped(
        "Mechanism",
        f"{plan.mechanism}{loss}.{_selected(plan)} Stages and the most that each costs a "
        f"user: {stages}. The expected error is a prediction, for users whose values are uniform "
        f"over an unknown range within the bounds, not a bound. {_worst_case(plan)}",
    )


def _worst_case(plan: Plan) -> str:
    """Return the worst case of the error, on average over cells, where one is proven."""
    model = plan.error_models["mean"]
    if not isinstance(model, CellMechanismErrorModel) or not model.proven.all():
        return "No bias below the width of the bounds is proven."
    unit = plan.facts.value_unit if plan.facts is not None else ""
    worst = formatting.measured(float(model.worst_case_error.mean()), unit)
    return f"Its worst case over all values is {worst} on average over cells."


def _selected(plan: Plan) -> str:
    """Return which mechanisms were selected for the cells, and for how many; nothing if itself."""
    counts = Counter(names_of_cells(plan))
    if list(counts) == [plan.mechanism]:
        return ""
    if plan.occupancy.n_cells == 1:
        return f" Selected: {next(iter(counts))}."
    named = ", ".join(f"{name} in {number:,}" for name, number in counts.most_common())
    return f" Selected, with the number of cells: {named}."
