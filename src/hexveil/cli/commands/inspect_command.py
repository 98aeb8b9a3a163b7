"""`hexveil inspect`: public metadata of records, and the grids that a fleet supports."""

from __future__ import annotations

import inspect as inspect_module
import json
import sys
from typing import TYPE_CHECKING, get_args

import typer

from hexveil.base.errors import InputError
from hexveil.cli import shared_steps
from hexveil.cli.output import fact_text, formatting, proposal_text
from hexveil.config import Run, arguments
from hexveil.planning.feasibility.proposals import Choice
from hexveil.records.read import read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hexveil.cli import declarations
    from hexveil.planning.feasibility.proposals import RunAdvice

COMPARED_AT = "1"
DEFAULT_CHOICE: Choice = "balanced"


def inspect(run: Run, options: declarations.InspectOptions) -> None:
    """Show public metadata of the records, the grids that this fleet supports, and three runs."""
    if options.init:
        # The draft ends its last line itself, because it goes into a file.
        typer.echo(
            draft(
                run, alone=not options.as_json and options.sql is None, trust=options.trust_header
            ),
            nl=False,
        )
        return
    if options.trust_header:
        raise InputError("--trust-header requires --init: otherwise the run names the columns.")
    if options.sql is not None:
        typer.echo(shared_steps.build_query(run, options.sql))
        return
    if arguments.is_presence_private(run) and not options.check_values:
        from hexveil.cli.presence import declared_column_grids, declared_plan  # noqa: PLC0415  these alone

        if len(arguments.value_columns_of(run)) > 1:
            check_choice(options.propose, options.choice)
            declared_column_grids.inspect_declared_columns(
                run,
                options.propose,
                options.choice or DEFAULT_CHOICE,
                from_records=options.from_records,
                as_json=options.as_json,
            )
            return
        unused = {"--propose": options.propose is not None, "--choice": options.choice is not None}
        declared_plan.inspect_declared(
            run, unused=unused, from_records=options.from_records, as_json=options.as_json
        )
        return
    if options.from_records:
        raise InputError('--from-records belongs to protect = "presence".')
    if options.check_values:
        others = {"--json": options.as_json, "--propose": options.propose is not None}
        typer.echo("\n".join(private_lines(run, [name for name, used in others.items() if used])))
        return
    check_choice(options.propose, options.choice)
    report(run, options.propose, options.choice or DEFAULT_CHOICE, as_json=options.as_json)


def report(run: Run, propose: Path | None, choice: str, *, as_json: bool) -> None:
    """Print public metadata, grids and proposed runs; write the chosen run, if a file is named."""
    # Grids can be compared before a price is chosen.
    epsilon = run.plan.epsilon or COMPARED_AT
    if len(arguments.value_columns_of(run)) > 1:
        from hexveil.cli import column_inspection  # noqa: PLC0415  for several columns alone

        column_inspection.inspect_columns(run, epsilon, propose, choice, as_json=as_json)
        return
    facts = shared_steps.read_facts(run)
    table, advice = shared_steps.advise_run(run, facts, epsilon)
    if propose is not None:
        write_proposal(run, advice, propose, choice, epsilon)
    if as_json:
        offers = {"capacity": table.to_arrow().to_pylist(), "proposal": table.sentence}
        output = fact_text.facts_json(facts) | {"epsilon": epsilon} | offers
        typer.echo(json.dumps(output | {"advice": proposal_text.advice_json(advice)}))
        return
    typer.echo("\n".join(fact_text.fact_lines(facts)))
    fact_text.show_grids(table, facts, epsilon)
    typer.echo("\n".join(["", *proposal_text.advice_lines(advice, facts.value_unit, epsilon)]))
    if propose is not None:
        typer.echo("\n".join(["", *formatting.wrapped("Run file", str(propose))]))


def private_lines(run: Run, conflicting: Sequence[str]) -> list[str]:
    """Return the PRIVATE check of the values; refuse to write it anywhere but on a terminal."""
    if conflicting:
        raise InputError(f"--check-values and {conflicting[0]} cannot be combined.")
    if not sys.stdout.isatty():
        raise InputError(
            "--check-values shows private figures on a terminal only; run it without a pipe and "
            "without writing its output to a file."
        )
    if run.read.engine == "spark":
        raise InputError("--check-values reads with DuckDB; leave out the engine.")
    runs = arguments.runs_of_columns(run)
    lines = [_check_column(run) for run in runs]
    # A heading only where there are several.
    headings = [str(run.columns.value) for run in runs] if len(runs) > 1 else [""]
    return [
        line
        for heading, own in zip(headings, lines, strict=True)
        for line in ([heading, *own] if heading else own)
    ]


def _check_column(run: Run) -> list[str]:
    """Return the PRIVATE check of the values of one column."""
    from hexveil.cli.output import value_check_text  # noqa: PLC0415  for --check-values alone
    from hexveil.records import value_checks  # noqa: PLC0415

    options = arguments.read_arguments(run, read)
    parameters = inspect_module.signature(value_checks.check_values).parameters
    known = {name: value for name, value in options.items() if name in parameters}
    # The clock of days is that of the slots, unless times have another one.
    if known.get("timezone") is None and run.cells.timezone is not None:
        known["timezone"] = run.cells.timezone
    checks = value_checks.check_values(arguments.source(run), **known)
    return value_check_text.private_lines(checks, arguments.value_unit_of(run))


def check_choice(propose: Path | None, choice: str | None) -> None:
    """Refuse a choice without a file, an unknown choice, and a file that exists."""
    if propose is None and choice is not None:
        raise InputError("--choice requires --propose: it names the run that is written.")
    if choice is not None and choice not in get_args(Choice):
        raise InputError(f"--choice must be one of {', '.join(get_args(Choice))}, got {choice!r}.")
    if propose is not None and propose.exists():
        raise InputError(f"--propose: {propose.name!r} exists already; name a new file.")


def write_proposal(run: Run, advice: RunAdvice, file: Path, choice: str, epsilon: str) -> None:
    """Write the chosen run to a new run file; refuse if no run is proposed."""
    proposal = {str(name): one for name, one in advice.proposals.items()}.get(choice)
    if proposal is None:
        raise InputError(
            "--propose: no run is expected to beat one number for all cells, so that none is "
            "written; hexveil inspect without --propose says what would help."
        )
    changes = proposal_text.changed_fields(proposal)
    plan_fields = run.plan.explicit_fields()
    # The price and the range at which the run was judged, where the file has none.
    if not plan_fields.keys() & {"epsilon", "target_error", "cell_epsilon"}:
        changes["plan", "epsilon"] = epsilon
    if "clipping_range" not in plan_fields:
        changes["plan", "clipping_range"] = "auto"
    shared_steps.write_run(run, changes, file)


def draft(run: Run, *, alone: bool, trust: bool) -> str:
    """Return the draft of a run file for the columns of the run's source."""
    from hexveil.config.run_file_template import draft_run_file  # noqa: PLC0415  for --init alone
    from hexveil.records.sources.schema_preview import inspect_schema  # noqa: PLC0415

    if not alone:
        raise InputError("--init prints a run file and nothing else; omit --json and --sql.")
    named = run.columns.explicit_fields().values()
    column_names = [
        *(name for names in named for name in ([names] if isinstance(names, str) else names)),
        *(run.cells.labels or ()),
    ]
    schema = inspect_schema(
        arguments.source(run),
        column_names,
        trusted=trust,
        record_format=arguments.record_format(run),
        look_at_times=not arguments.is_presence_private(run)
        and run.format.time_format is None
        and run.columns.time is None,
    )
    return draft_run_file(run, schema)
