"""`hexveil evaluate`: comparison of mechanisms on one cell, by simulation.

On values of the records the result is private: every output says so, and no guarantee covers it.
Compared is one cell of records or of counts, of one value column.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from hexveil import evaluation
from hexveil.base.errors import InputError
from hexveil.base.work_share import tell_share
from hexveil.cli import formatting, shared_steps
from hexveil.config import Run, arguments
from hexveil.mechanisms import REGISTRY
from hexveil.records.progress import show_progress
from hexveil.simulation import own_cells
from hexveil.simulation.own_cells import select_cell, some_cells
from hexveil_research import written_mechanisms
from hexveil_research.papers.study_data import read_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from hexveil.records.dataset import Dataset
    from hexveil_research.evaluate_command import EvaluateOptions


COMPARING = "Comparing"
"""Name of this work, of which parts are told."""
COLUMN = 17
"""Width of a column of the table at most, in characters."""
EPSILONS = ("0.25", "0.5", "1", "2")
"""Default values of --epsilon."""


def evaluate(run: Run, options: EvaluateOptions) -> None:
    """Compare mechanisms on one cell by simulation; nothing is released or spent."""
    values = None if options.values is None else written_mechanisms.values(options.values)
    mechanisms = [written_mechanisms.mechanism(text) for text in options.mechanism or REGISTRY]
    # Counts, or records and a cell of them: PRIVATE then.
    studied = of_records(run, options) if options.counts is None else of_file(run, options)
    with show_progress(COMPARING):
        table = evaluation.evaluate(
            mechanisms=mechanisms,
            values=values,
            trials=options.trials,
            seed=options.seed,
            epsilons=epsilons(run, options.epsilon),
            progress=partial(tell_share, COMPARING),
            **studied,
        )
    if options.as_json:
        stamp = f"{own_cells.STAMP} {own_cells.NOT_COVERED}"
        head = {"private": stamp} if own_cells.is_private(table) else {}
        click.echo(json.dumps(head | {"rows": table.to_pylist()}, indent=2))
    else:
        show_table(table, arguments.value_unit_of(run))


def epsilons(run: Run, option_texts: Sequence[str]) -> list[str]:
    """Return the epsilons to compare: the options, else the run's, else the default."""
    if not option_texts:
        return list(EPSILONS) if run.plan.epsilon is None else [run.plan.epsilon]
    return [number.strip() for text in option_texts for number in text.split(",") if number.strip()]


def of_records(run: Run, options: EvaluateOptions) -> dict[str, Any]:
    """Return the records and the cell to compare on.

    Records without places or labels are one cell.
    """
    if not run.source:
        raise InputError("name counts (--counts), or records and one of their cells (--cell).")
    data = read_cells(run)
    names = data.public.cells.names()
    if options.cell is None and len(names) > 1:
        raise InputError(f"--cell is needed: {some_cells(names)}.")
    return {"data": data, "cell": select_cell(data.public.cells, options.cell)}


def read_cells(run: Run) -> Dataset:
    """Return the run's records for a study; those without places and labels are one cell."""
    if not arguments.has_places(run) and not run.cells.explicit_fields():
        run = run.with_fields("cells", one_cell=True)
    return shared_steps.read(run)


def of_file(run: Run, options: EvaluateOptions) -> dict[str, Any]:
    """Return counts from a file with the bounds; refuse records as well."""
    assert options.counts is not None  # noqa: S101  asked
    for name, conflicting in (("records", run.source), ("--cell", options.cell)):
        if conflicting:
            raise InputError(
                f"--counts and {name} cannot be combined: use the counts of one of them."
            )
    if options.values is None:
        raise InputError("--counts needs --values: a file of counts has no values of its own.")
    if run.values.bounds is None:
        raise InputError(
            "--counts needs --bounds: the smallest and the largest value, for example 0,65."
        )
    return {"counts": read_counts(options.counts), "bounds": run.values.bounds}


def show_table(table: pa.Table, value_unit: str) -> None:
    """Print a row per mechanism and a column per epsilon."""
    rows = table.to_pylist()
    cells = {(row["mechanism"], row["epsilon"]): _error(row) for row in rows}
    names = dict.fromkeys(name for name, _ in cells)
    losses = list(dict.fromkeys(loss for _, loss in cells))
    unit = f" in {value_unit}" if value_unit else ""
    head = f"Mean absolute error{unit} ± its standard error, {rows[0]['trials']:,} trials:"
    formatting.print_rows([own_cells.STAMP, "", head] if own_cells.is_private(table) else [head])
    across = max(1, (formatting.terminal_width() - max(map(len, names))) // COLUMN)
    for start in range(0, len(losses), across):
        block = losses[start : start + across]
        click.echo()
        formatting.print_table(
            ["Epsilon", *(f"{loss:g}" for loss in block)],
            [[name, *(cells[name, loss] for loss in block)] for name in names],
            ("Epsilon",),
        )
    if own_cells.is_private(table):
        formatting.print_rows(["", ("Guarantee", own_cells.NOT_COVERED)])


def _error(row: dict[str, Any]) -> str:
    return f"{formatting.number_text(row['mae'])} ± {formatting.number_text(row['standard_error'])}"
