"""Cells that `hexveil evaluate` compares: one of records or of counts, or one per value column.

Of several value columns each is compared at its part of a release's ε. Plans of whole releases are
made for that division alone: by predicted errors and weights, or by what the target errors of each
column cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.cli import shared_steps
from hexveil.config import arguments
from hexveil.config.run_file import Planning
from hexveil.simulation.private_study_output import (
    read_counts,
    select_cell,
    select_cell_by_text,
    some_cells,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction
    from pathlib import Path

    from hexveil.config import Run
    from hexveil.planning.columns.column_plan import ColumnPlans
    from hexveil.records.columns.column_datasets import ColumnDatasets

EPSILONS = ("0.25", "0.5", "1", "2")
"""Default values of --epsilon."""

TOGETHER = "epsilon_together"
"""Column of a table: ε of all value columns, of which `epsilon` is one column's part."""


@dataclass(frozen=True, eq=False)
class CellStudy:
    """One cell on which mechanisms are compared.

    Attributes
    ----------
    arguments : dict
        Counts, or records and cell, as `hexveil.evaluate` takes them. PRIVATE where it has records.
    cell : str
        What is compared, in words. Public.
    epsilons : sequence of numbers
    value_unit : str
    column : str
        Value column; "" of counts without records.
    together : tuple of float
        ε of all value columns at each of `epsilons`; empty of a single one.
    """

    arguments: dict[str, Any] = field(repr=False)
    cell: str
    epsilons: Sequence[str | Fraction]
    value_unit: str
    column: str = ""
    together: tuple[float, ...] = ()

    def with_totals(self, table: pa.Table) -> pa.Table:
        """Return a table of the study with the ε of all value columns beside the column's part."""
        if not self.together:
            return table
        # Rows are by mechanism, and by ε within each.
        repeats = table.num_rows // len(self.together)
        return table.append_column(TOGETHER, pa.array(self.together * repeats, pa.float64()))


def studies_of(
    run: Run,
    option_texts: list[str] | None,
    counts: Path | None,
    cell: str | None,
    values: str | None,
) -> list[CellStudy]:
    """Return the cells to compare: a cell of each value column, or the counts of a file."""
    if counts is None and len(arguments.value_columns_of(run)) > 1:
        _check_source(run)
        # Target errors of the run divide the loss where no epsilon is named.
        by_targets = option_texts is None and run.plan.target_error is not None
        return studies_of_columns(run, cell, None if by_targets else epsilons(run, option_texts))
    study_arguments, cell_name = (
        of_records(run, cell) if counts is None else of_file(run, counts, cell, values)
    )
    column = str(run.columns.value or "")
    losses, unit = epsilons(run, option_texts), arguments.value_unit_of(run)
    return [CellStudy(study_arguments, cell_name, losses, unit, column)]


def epsilons(run: Run, option_texts: list[str] | None) -> list[str]:
    """Return the epsilons to compare: the options, else the run's, else the default."""
    if option_texts is None:
        return list(EPSILONS) if run.plan.epsilon is None else [run.plan.epsilon]
    return [number.strip() for text in option_texts for number in text.split(",") if number.strip()]


def of_records(run: Run, cell: str | None) -> tuple[dict[str, Any], str]:
    """Return the records and the cell to compare on, and the cell's name.

    Records without places or labels are one cell.
    """
    _check_source(run)
    data = shared_steps.read_cells(run)
    names = data.public.cells.names()
    if cell is None and len(names) > 1:
        raise InputError(f"--cell is needed: {some_cells(names)}.")
    number = select_cell_by_text(data.public.cells, cell)
    return {"data": data, "cell": number}, f"Cell {names[number]}"


def _check_source(run: Run) -> None:
    """Refuse a study without records or counts."""
    if not run.source:
        raise InputError("name counts (--counts), or records and one of their cells (--cell).")


def of_file(
    run: Run, counts: Path, cell: str | None, values: str | None
) -> tuple[dict[str, Any], str]:
    """Return counts from a file with the bounds, and the file's name; refuse records as well."""
    for name, conflicting in (("records", run.source), ("--cell", cell)):
        if conflicting:
            raise InputError(
                f"--counts and {name} cannot be combined: use the counts of one of them."
            )
    if values is None:
        raise InputError("--counts needs --values: a file of counts has no values of its own.")
    if run.values.bounds is None:
        raise InputError(
            "--counts needs --bounds: the smallest and the largest value, for example 0,65."
        )
    return {"counts": read_counts(counts), "bounds": run.values.bounds}, f"Counts of {counts.name}"


def studies_of_columns(
    run: Run, cell: str | None, epsilons: Sequence[str] | None
) -> list[CellStudy]:
    """Return the study of each value column, at the parts of ε that a release would have.

    Parameters
    ----------
    run : Run
    cell : str or None
        Name or number of the cell, of which each column has to have records.
    epsilons : sequence of str or None
        Of all value columns together; None for the target errors of the run.

    Raises
    ------
    InputError
        If a column lacks the cell, or the run has a δ.
    """
    if run.privacy.delta:
        raise InputError(
            "evaluate compares pure mechanisms, and with a delta a release divides squares of mu; "
            "leave delta out, or name one value column."
        )
    data = shared_steps.read_cells_of_columns(run)
    numbers = _cells_of_columns(data, cell)
    plans = [
        cast("ColumnPlans", shared_steps.plan_run(one, data.public))
        for one in ([run] if epsilons is None else [_at_epsilon(run, loss) for loss in epsilons])
    ]
    return [
        CellStudy(
            arguments={"data": data.datasets[column], "cell": number},
            cell=f"Cell {data.public.columns[column].cells.names()[number]}",
            epsilons=[_part(plan, column) for plan in plans],
            value_unit=data.public.columns[column].value_unit,
            column=column,
            together=tuple(float(plan.epsilon_limit) for plan in plans),
        )
        for column, number in numbers.items()
    ]


def _cells_of_columns(data: ColumnDatasets, cell: str | None) -> Mapping[str, int]:
    """Return the number of the cell in each value column: by its name, which all share."""
    leading, *_ = data.public.columns.values()
    names = leading.cells.names()
    if cell is None and len(names) > 1:
        raise InputError(f"--cell is needed: {some_cells(names)}.")
    name = names[select_cell_by_text(leading.cells, cell)]
    numbers = {}
    for column, facts in data.public.columns.items():
        if name not in facts.cells.names():
            raise InputError(
                f"{column} has no cell {name!r}, so that it cannot be compared there; "
                f"{some_cells(facts.cells.names())}, or leave the column out."
            )
        numbers[column] = select_cell(facts.cells, name)
    return numbers


def _part(plan: ColumnPlans, column: str) -> Fraction:
    """Return the ε of one column in a release of all."""
    epsilon = plan.plans[column].requested_epsilon
    if not epsilon:
        raise InputError(
            f"{column}: constants meet its target errors, so that there is nothing to compare; "
            "name --epsilon."
        )
    return epsilon


def _at_epsilon(run: Run, epsilon: str) -> Run:
    """Return the run within an ε, in place of its own limit."""
    fields = run.plan.explicit_fields()
    others = {name: fields[name] for name in fields if name not in arguments.LIMITS}
    fields = others | {"epsilon": epsilon}
    plan = Planning.model_construct(_fields_set=set(fields), **fields)
    return run.model_copy(update={"plan": plan})
