"""`hexveil plan`: price and expected error of a release, before anything is spent."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from hexveil.base.errors import InputError
from hexveil.cli import shared_steps
from hexveil.cli.days import requested_days
from hexveil.cli.output import formatting
from hexveil.cli.output.plan_text import explain_missing_range, map_lines, price_lines
from hexveil.config import Run, arguments
from hexveil.model.statistic_terms import has_distribution
from hexveil.planning.feasibility.advice import describe_repeats
from hexveil.planning.plan import Plan
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from hexveil.cli import declarations
    from hexveil.model.column_facts import ColumnFacts
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning import Capacity
    from hexveil.planning.distribution.distribution_plan import DistributionPlan
    from hexveil.planning.method_comparison import Comparison

    Files = dict[str, list[Path]]

_NO_COMPARISON = {"methods": None, "clipping_ranges": None, "mechanisms": None}


def plan(run: Run, options: declarations.PlanOptions) -> None:
    """Show the price and the expected error of a release; nothing is spent."""
    curve = options.curve
    others = {"--compare": options.compare, "--grids": bool(options.grids)}
    others |= {"--curve": curve is not None, "--save": options.save is not None}
    if options.first_day is not None or options.last_day is not None:
        _plan_series(
            run,
            requested_days(None, options.first_day, options.last_day),
            others,
            as_json=options.as_json,
        )
        return
    if arguments.is_presence_private(run):
        from hexveil.cli.presence import declared_plan  # noqa: PLC0415  a plan of its own

        declared_plan.plan_on_paper(run, unused=others, as_json=options.as_json)
        return
    shared_steps.check_plan_options(run)
    _refuse_comparison_with_delta(run, compare_methods=options.compare, grids=bool(options.grids))
    if curve is not None:
        from hexveil.cli.output import error_curve  # noqa: PLC0415  for --curve alone

        # Checked before the records are read, which may take minutes.
        curve = shared_steps.to_run_path(curve)
        error_curve.check(curve)
    if len(arguments.value_columns_of(run)) > 1 or has_distribution(run.plan.statistics or ()):
        _plan_in_parts(
            run, options.compare, options.grids, curve, options.save, as_json=options.as_json
        )
        return
    facts = shared_steps.read_facts(run)
    plan = shared_steps.plan_run(run, facts)
    assert isinstance(plan, Plan)  # noqa: S101  the other kind was planned above
    files = _write(plan, facts, curve, options.save)
    comparison = _compare(plan) if options.compare else None
    # The comparison is long enough without a recommendation.
    wants_grids = options.grids or (options.grids is None and comparison is None and not plan.delta)
    table = (
        shared_steps.compare_grids(run, plan, weaker=bool(options.grids)) if wants_grids else None
    )
    if options.as_json:
        output = _json(run, plan, facts, comparison, files) | _grids_json(
            table, all_grids=bool(options.grids)
        )
        typer.echo(json.dumps(output, indent=2))
        return
    typer.echo("\n".join([*price_lines(plan, facts), *explain_missing_range(run, plan)]))
    _show_map(run, plan, facts, comparison)
    _show_grids(table, facts, whole=bool(options.grids))
    for line in file_lines(run, files):
        typer.echo(line)


def _show_map(run: Run, plan: Plan, facts: PublicMetadata, comparison: Comparison | None) -> None:
    """Print what the map would be like, or a comparison of plans in its place."""
    if comparison is not None:
        _show_comparison(plan, comparison, facts.value_unit)
    else:
        coarse, warning = (
            shared_steps.plan_coarser(run, facts),
            shared_steps.describe_infeasibility(plan),
        )
        typer.echo("\n".join(map_lines(plan, facts, coarse, warning)))


def _show_grids(table: Capacity | None, facts: PublicMetadata, *, whole: bool) -> None:
    """Print the table of other grids, or the proposed one."""
    if table is not None and whole:
        typer.echo(f"\nOther grids at epsilon {formatting.number_text(table.epsilon)}:")
        from hexveil.cli.output import grid_table  # noqa: PLC0415  for the whole table alone

        grid_table.show(table, facts.value_unit)
    elif table is not None:
        typer.echo("\n".join(formatting.wrapped("Grid", formatting.capital(table.sentence))))


def _plan_series(
    run: Run, days: Sequence[date], others: Mapping[str, bool], *, as_json: bool
) -> None:
    """Print which days of a series pass, and a grid for all of them."""
    from hexveil.cli import day_series  # noqa: PLC0415  for --from alone

    option_names = [name for name, is_given in others.items() if is_given]
    if option_names:
        raise InputError(f"{option_names[0]} is about one plan; leave it out, or --from and --to.")
    if arguments.is_presence_private(run):
        raise InputError(
            '--from has no use with protect = "presence": a plan follows from declarations, so it '
            "is the same on every day. Leave it out."
        )
    shared_steps.check_plan_options(run)
    day_series.show_series(run, days, as_json=as_json)


def _refuse_comparison_with_delta(run: Run, *, compare_methods: bool, grids: bool) -> None:
    """Refuse options that compare pure plans, before records are read or files written."""
    if run.privacy.delta and (compare_methods or grids):
        raise InputError(
            f"{'--compare' if compare_methods else '--grids'} compares pure plans; leave it out, "
            "or delta."
        )


def _plan_in_parts(
    run: Run,
    compares: bool,
    grids: bool | None,
    curve: Path | None,
    save: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print price and expected errors of several value columns, or quantiles and shares."""
    several = len(arguments.value_columns_of(run)) > 1
    if several and compares and has_distribution(run.plan.statistics or ()):
        raise InputError(
            "--compare has no use with several value columns and quantiles, shares or histograms; "
            "leave it out, or name one value column."
        )
    if grids:
        raise InputError(
            "--grids compares grids by the error of means, not of quantiles, shares and "
            "histograms, and of one value column; plan its mean alone with --grids, or leave it "
            "out."
        )
    if several:
        if curve is not None:
            raise InputError("--curve has no use with several value columns; leave it out.")
        _plan_columns(run, compares, save, as_json=as_json)
    else:
        _plan_distribution(run, compares, curve, save, as_json=as_json)


def _plan_columns(run: Run, compares: bool, save: Path | None, *, as_json: bool) -> None:
    """Print price and expected errors of several value columns."""
    from hexveil.cli.output import column_text  # noqa: PLC0415  for these plans alone
    from hexveil.planning.columns.column_plan import ColumnPlans  # noqa: PLC0415

    facts = shared_steps.read_releasable(run).public
    plan = shared_steps.plan_run(run, facts)
    assert isinstance(plan, ColumnPlans)  # noqa: S101  by its columns
    saved = [] if save is None else [plan.save(shared_steps.to_run_path(save))]
    files: Files = {"saved": saved, "drawn": []}
    comparisons = {
        column: _compare(own)
        for column, own in plan.plans.items()
        if compares and isinstance(own, Plan)
    }
    if as_json:
        output = shared_steps.plan_json(plan) | _common_json(run, facts, files)
        for column, comparison in comparisons.items():
            output["columns"][column] |= _comparison_json(comparison)
        typer.echo(json.dumps(output, indent=2))
        return
    warning = shared_steps.describe_infeasibility(plan)
    typer.echo("\n".join([*price_lines(plan, facts), *column_text.map_lines(plan, warning)]))
    for column, comparison in comparisons.items():
        own, unit = plan.plans[column], plan.facts.columns[column].value_unit
        assert isinstance(own, Plan)  # noqa: S101  the others are not compared
        typer.echo(f"\n{column}, at its own loss or targets:")
        _show_comparison(own, comparison, unit)
    for line in file_lines(run, files):
        typer.echo(line)


def _show_comparison(plan: Plan, comparison: Comparison, unit: str) -> None:
    """Print methods, clipping ranges and mechanisms of one request, or why there are none."""
    from hexveil.cli.output import method_table  # noqa: PLC0415  for --compare alone
    from hexveil.planning.alternatives import explain_absence  # noqa: PLC0415

    method_table.show(comparison.methods, method_table.measure(plan, unit))
    method_table.show_ranges(comparison.clipping_ranges)
    if reason := explain_absence(plan):
        typer.echo("\n".join(formatting.wrapped("", reason, indent=0)))
        return
    one_cell_each = int(plan.occupancy.cells_per_user.max()) == 1
    method_table.show_mechanisms(comparison.mechanisms, unit, one_cell_each=one_cell_each)


def _plan_distribution(
    run: Run, compares: bool, curve: Path | None, save: Path | None, *, as_json: bool
) -> None:
    """Print price and expected errors of quantiles, shares and histograms."""
    from hexveil.cli.output import distribution_text  # noqa: PLC0415  for these plans alone
    from hexveil.planning.alternatives import compare_estimators  # noqa: PLC0415
    from hexveil.planning.distribution.distribution_plan import DistributionPlan  # noqa: PLC0415

    facts = shared_steps.read_facts(run)
    plan = shared_steps.plan_run(run, facts)
    assert isinstance(plan, DistributionPlan)  # noqa: S101  by its statistics
    saved = [] if save is None else [plan.save(shared_steps.to_run_path(save))]
    files: Files = {"saved": saved, "drawn": _draw(plan, facts, curve)}
    ways = compare_estimators(plan) if compares else ()
    if as_json:
        output = shared_steps.plan_json(plan) | _common_json(run, facts, files)
        output |= {"estimators": [asdict(way) for way in ways]} if compares else {}
        typer.echo(json.dumps(output, indent=2))
        return
    warning = shared_steps.describe_infeasibility(plan)
    lines = [*price_lines(plan, facts), *distribution_text.map_lines(plan, warning)]
    lines += distribution_text.comparison_lines(ways, facts.value_unit)
    typer.echo("\n".join([*lines, *file_lines(run, files)]))


def _file_names(run: Run, files: Files) -> list[str]:
    """Return the written files relative to the caller's folder."""
    return [str(shared_steps.resolve_path(run, one)) for paths in files.values() for one in paths]


def _compare(plan: Plan) -> Comparison:
    # For --compare alone:
    from hexveil.planning.method_comparison import COMPARING, compare  # noqa: PLC0415

    with show_progress(COMPARING):
        return compare(plan)


def _write(plan: Plan, facts: PublicMetadata, curve: Path | None, save: Path | None) -> Files:
    """Write the requested plan and curve, and return their paths."""
    saved = [] if save is None else [plan.save(shared_steps.to_run_path(save))]
    return {"saved": saved, "drawn": _draw(plan, facts, curve)}


def _draw(plan: Plan | DistributionPlan, facts: PublicMetadata, curve: Path | None) -> list[Path]:
    """Draw the requested curve, and return its files."""
    if curve is None:
        return []
    from hexveil.cli.output import error_curve  # noqa: PLC0415  for --curve alone

    with show_progress(error_curve.DRAWING):
        if isinstance(plan, Plan):
            return error_curve.write(plan, curve, facts.value_unit)
        return error_curve.write_shares(plan, curve)


def _json(
    run: Run, plan: Plan, facts: PublicMetadata, comparison: Comparison | None, files: Files
) -> dict[str, Any]:
    """Return the plan and the written files as JSON data."""
    coarse = shared_steps.plan_coarser(run, facts)
    return (
        shared_steps.plan_json(plan)
        | {
            "unit": facts.privacy_unit,
            "coarser": None if coarse is None else shared_steps.plan_json(coarse),
            "warning": shared_steps.describe_infeasibility(plan),
            **(_comparison_json(comparison) if comparison else _NO_COMPARISON),
        }
        | _common_json(run, facts, files)
    )


def _common_json(run: Run, facts: PublicMetadata | ColumnFacts, files: Files) -> dict[str, Any]:
    """Return the JSON data that plans of all kinds have."""
    return {"repeats": describe_repeats(facts), "files": _file_names(run, files)}


def _comparison_json(comparison: Comparison) -> dict[str, list[dict[str, Any]]]:
    return {name: [asdict(row) for row in rows] for name, rows in vars(comparison).items()}


def _grids_json(table: Capacity | None, *, all_grids: bool) -> dict[str, Any]:
    """Return the proposal and, if requested, the whole table as JSON data."""
    if table is None:
        return {"proposal": None, "proposed": None, "grids": None}
    offers = table.to_arrow().to_pylist()
    proposed = next((dict(offer) for offer in offers if offer["proposed"]), None)
    for name in ("proposed", "kilometres"):  # of the table alone
        (proposed or {}).pop(name, None)
    return {
        "proposal": table.sentence,
        "proposed": proposed,
        "grids": offers if all_grids else None,
    }


def file_lines(run: Run, files: Files) -> list[str]:
    """Return lines about the written files."""
    paths = {
        name: [str(shared_steps.resolve_path(run, path)) for path in files[name]] for name in files
    }
    lines = []
    for folder in paths["saved"]:
        lines += formatting.wrapped(
            "Saved", f"{folder}; review it, then: hexveil release ... --from-plan {folder}"
        )
    if paths["drawn"]:
        lines += formatting.wrapped("Curve", ", ".join(paths["drawn"]))
    return lines
