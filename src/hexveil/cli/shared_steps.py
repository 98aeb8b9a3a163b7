"""Steps that commands share: read, plan, describe a plan."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hexveil.base.errors import InputError
from hexveil.base.work_share import PLANNING, SEARCH
from hexveil.config import arguments
from hexveil.mechanisms import parse
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.api import plan as make_plan
from hexveil.planning.feasibility.capacity import assess_grids
from hexveil.planning.feasibility.grids import OTHER_GRIDS
from hexveil.planning.feasibility.recommendation import USABLE_GRID, ways_out
from hexveil.planning.plan import Plan
from hexveil.records.progress import show_progress
from hexveil.records.read import read as read_records
from hexveil.records.select import Select

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexveil.config import Run
    from hexveil.model.declared_grid import ColumnFacts
    from hexveil.planning.feasibility.capacity import Capacity
    from hexveil.planning.moment_component import MomentComponent
    from hexveil.publishing.booking import ReleasableDataset
    from hexveil.publishing.memory.history import History
    from hexveil.records.dataset import Dataset


def resolve_path(run: Run, path: Path) -> Path:
    """Return a path of the run relative to the caller's folder."""
    # A run file is often named from elsewhere (../x/run.toml): messages show the short path.
    return Path(os.path.normpath(run.folder / path))


def to_run_path(path: Path) -> Path:
    """Return a full path relative to the run's folder, the current folder of a command."""
    try:
        return Path(os.path.relpath(path))
    except ValueError:  # another drive
        return path


def read(run: Run) -> Dataset:
    """Return the run's records of one value column, read into sums.

    Raises
    ------
    InputError
        If the run protects presence, or has several value columns, which the calling command does
        not support.
    """
    arguments.refuse_several(run, "this command")
    return cast("Dataset", read_releasable(run))


def read_releasable(run: Run) -> ReleasableDataset:
    """Return the run's records of one value column or several, read into sums.

    Raises
    ------
    InputError
        If the run protects presence, which the calling command does not support.
    """
    arguments.refuse_declarations(run)
    if arguments.is_presence_private(run):
        raise InputError('this command has no use for protect = "presence".')
    # Missing fields are reported before the engine starts.
    source, options = arguments.source(run), arguments.read_arguments(run, read_records)
    dataset: ReleasableDataset = read_records(source, **options)
    return dataset


def read_facts(run: Run) -> Any:  # noqa: ANN401  of one value column, or of several
    """Return the public facts of the run's records."""
    return read_releasable(run).public


def build_query(run: Run, dialect: str) -> str:
    """Return the SQL that computes the run's sums elsewhere, a query for each value column."""
    runs = arguments.runs_of_columns(run)
    if len(runs) == 1:
        return _query_of_column(run, dialect)
    columns = ", ".join(f"{json.dumps(str(run.columns.value))}: ..." for run in runs)
    queries = [f"-- {run.columns.value!r}\n{_query_of_column(run, dialect)}" for run in runs]
    together = f"-- What from_sums returns of each:\n--   hv.combine_columns({{{columns}}})\n"
    return "\n\n".join([*queries, together])


def _query_of_column(run: Run, dialect: str) -> str:
    """Return the query of one value column; nothing is read."""
    from hexveil.records.sql import sums_query  # noqa: PLC0415  for --sql alone

    source, options = arguments.source(run), arguments.read_arguments(run, read_records)
    if not isinstance(source, str):
        raise InputError("a query needs a single source; name one table or file.")
    if run.format.explicit_fields():
        raise InputError(
            "a query reads numbers and times of declared types; remove [format], and convert the "
            "columns where the query runs."
        )
    return sums_query(source=source, dialect=dialect, **options)


def check_plan_options(run: Run, outputs: Sequence[str] = ()) -> None:
    """Raise InputError for an invalid plan, or declaration, before the records are read.

    `outputs` are options of the command, such as "--compare", which not every plan has.
    """
    arguments.refuse_declarations(run)
    arguments.plan_arguments(run, outputs)
    is_private = arguments.is_presence_private(run)
    if is_private and run.release.estimates not in (None, ("raw",)):
        raise InputError('estimates has "raw" alone with protect = "presence"; leave it out.')


def plan_run(run: Run, facts: PublicMetadata | ColumnFacts, history: History | None = None) -> Plan:
    """Return the run's plan for public metadata; nothing is spent."""
    options = arguments.plan_arguments(run)
    # Of several columns there is no memory.
    if history is not None and isinstance(facts, PublicMetadata):
        from hexveil.publishing.memory.score_history import forecast_day  # noqa: PLC0415  for these

        options["history"] = forecast_day(facts, run.plan.statistics or (), history)
    with show_progress(PLANNING, SEARCH):
        # Commands print the advice as a line of theirs, not as a warning of Python.
        return make_plan(facts, **options, advise=False)


def describe_infeasibility(plan: Plan) -> str | None:
    """Return why the grid is too fine for the fleet, with advice; None if it is not."""
    with show_progress(USABLE_GRID, SEARCH):
        return ways_out(plan, search=True)


def proposed_runs(
    run: Run, facts: PublicMetadata, epsilon: str
) -> tuple[MomentComponent, Capacity]:
    """Return the plan with which grids are compared at `epsilon`, and the proposed runs."""
    with show_progress(OTHER_GRIDS):
        built = _comparable_plan(run, facts, epsilon)
        return built, assess_grids(built, min_users=run.select.min_users or Select.min_users)


def assess_columns(
    run: Run, facts: Mapping[str, PublicMetadata], epsilon: str
) -> dict[str, Capacity]:
    """Return the capacity of each value column at its part of ε."""
    tables = {}
    for column_run in arguments.runs_of_columns(run):
        column: Any = column_run.columns.value
        with show_progress(OTHER_GRIDS):
            tables[column] = assess_grids(_comparable_plan(column_run, facts[column], epsilon))
    return tables


def _comparable_plan(run: Run, facts: PublicMetadata, epsilon: str) -> MomentComponent:
    """Return the plan at an ε with which other grids are compared."""
    # Targets and splits are of one grid; grids are compared at one epsilon, with the range that is
    # predicted to be best, unless the run file decides.
    names = ("method", "objective", "baseline_error", "clipping_range", "range_share", "mechanism")
    options = {"clipping_range": "auto"} | {
        name: value for name, value in run.plan.explicit_fields().items() if name in names
    }
    if "mechanism" in options:
        options["mechanism"] = parse(options["mechanism"])
    plan: MomentComponent = make_plan(facts, epsilon=epsilon, **options, advise=False).single
    return plan
