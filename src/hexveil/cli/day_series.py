"""`hexveil plan --from --to`: which days of a series a grid passes, and one that passes them all.

A day passes where its map is expected to say more than one constant, which is what `publish` asks.
Proposed is a grid, with one kind of clipping range for all days, that every day supports: judged by
the day that it serves worst, as a grid for several value columns is judged by its worst column.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.cli import shared_steps
from hexveil.cli.output import formatting
from hexveil.cli.output.grid_text import cell_fields, fields_json
from hexveil.config.run_file import toml_lines
from hexveil.model.cells import OneCell
from hexveil.planning.api import plan as make_plan
from hexveil.planning.feasibility.capacity import assess_grids
from hexveil.planning.feasibility.grids import OTHER_GRIDS
from hexveil.planning.feasibility.recommendation import CommonGrid, choose, common_grids
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexveil.cli.output.formatting import Row
    from hexveil.cli.output.grid_text import Changes
    from hexveil.config import Run
    from hexveil.planning.moment_component import MomentComponent

    Proposal = tuple[CommonGrid, str]


LONGEST = 3_700
"""Days of one command."""


def requested_days(day: str | None, first_day: str | None, last_day: str | None) -> list[date]:
    """Return the days, oldest first."""
    if (day is None) == (first_day is None) or (first_day is None) != (last_day is None):
        raise InputError("name a day (--date), or the first and the last day (--from and --to).")
    ends = [_date(text) for text in ((day, day) if day is not None else (first_day, last_day))]
    if not ends[0] <= ends[1] or (ends[1] - ends[0]).days >= LONGEST:
        raise InputError(f"--from {ends[0]} --to {ends[1]} must be a span of 1 to {LONGEST} days.")
    return [ends[0] + timedelta(k) for k in range((ends[1] - ends[0]).days + 1)]


def _date(text: str | None) -> date:
    try:
        return date.fromisoformat(text or "")
    except ValueError:
        raise InputError(f"a day must look like 2026-11-20, got {text!r}.") from None


@dataclass(frozen=True)
class JudgedDay:
    """Whether a day supports the run's grid.

    Attributes
    ----------
    day : str
    passes : bool
    why : str
        The kind of clipping range that was planned, or why there is no plan.
    cells, users : int
    error, baseline_error : float or None
        Expected average error, and that of one constant; None of medians, shares and several
        value columns.
    """

    day: str
    passes: bool
    why: str
    cells: int = 0
    users: int = 0
    error: float | None = None
    baseline_error: float | None = None


def show_series(run: Run, days: Sequence[date], *, as_json: bool) -> None:
    """Print which of the days pass, and a grid for all of them; nothing is spent."""
    if run.select.dates is not None:
        raise InputError("dates (in [select]) and --from cannot be combined: leave one out.")
    judged, plans = [], {}
    for day in days:
        row, plan = _judge(run, day.isoformat())
        judged.append(row)
        if plan is not None:
            plans[row.day] = plan
    # Of a day without any cell no grid makes a map.
    proposal = _propose(run, plans) if len(plans) == len(days) else None
    formatting.show(
        lambda: [*map(_day_row, judged), _passed_row(judged), *_proposal_rows(judged, proposal)],
        lambda: _json(judged, proposal),
        as_json=as_json,
    )


def _judge(run: Run, day: str) -> tuple[JudgedDay, MomentComponent | None]:
    """Return whether a day passes, and its plan if other grids are compared by its error."""
    try:
        of_day = run_of_day(run, day)
        planned = shared_steps.plan_run(of_day, shared_steps.read_facts(of_day))
    except InputError as error:
        return JudgedDay(day, passes=False, why=str(error)), None
    if not planned.searches_grids:
        return JudgedDay(day, planned.refusal is None, planned.refusal or "planned"), None
    component: MomentComponent = planned.single
    support = component.support
    return JudgedDay(
        day, support.beats_constant, component.allocation.clipping.mode, support.cells,
        support.users, support.mean_error, support.baseline_error,
    ), component  # fmt: skip


def run_of_day(run: Run, day: str) -> Run:
    """Return the run of one local day."""
    return run.with_fields("select", dates=(day, day))


def _propose(run: Run, plans: Mapping[str, MomentComponent]) -> Proposal | None:
    """Return the finest grid, and a kind of range, that all days support; None without one.

    Of equally fine ones the kind that serves its worst day best.
    """
    if any(isinstance(row.facts and row.facts.cells.grid, OneCell) for row in plans.values()):
        return None
    grids = shared_steps.grids_of(plan for plan in plans.values() if not plan.delta)
    # The kinds that "auto" took on some day; a stated one is the only one.
    kinds = dict.fromkeys(row.allocation.clipping.mode for row in plans.values())
    proposals: list[Proposal] = []
    with show_progress(OTHER_GRIDS):
        for kind in kinds:
            options = shared_steps.grid_options(run) | {"clipping_range": kind}
            tables = {
                day: assess_grids(
                    make_plan(
                        row.facts, epsilon=row.requested_epsilon, **options, advise=False
                    ).single,
                    grids=grids,
                    search=False,
                ).offers
                for day, row in plans.items()
                if row.facts is not None
            }
            choices = choose(common_grids(tables)) if grids else {}
            proposals += [(grid, kind) for name, grid in choices.items() if name == "finest"]
    return max(proposals, key=lambda pair: (pair[0].cells, -pair[0].relative_error), default=None)


def fields_of(proposal: Proposal) -> Changes:
    """Return the fields of a run file that fix a series."""
    grid, kind = proposal
    return cell_fields(grid.grid) | {
        ("plan", "clipping_range"): kind,
        ("publish", "series"): "fixed",
    }


def _day_row(row: JudgedDay) -> Row:
    text = row.why
    if row.error is not None and row.baseline_error is not None:
        text = (
            f"{row.cells:,} cells, {row.users:,} units, clipping range {row.why}: error "
            f"{row.error:.3g}, one number for all cells {row.baseline_error:.3g}"
        )
    return (row.day, f"{'passes' if row.passes else 'fails'}; {text}")


def _passed_row(judged: Sequence[JudgedDay]) -> Row:
    passed, days = sum(row.passes for row in judged), len(judged)
    return ("Days", f"{passed} of {days} days pass ({passed / days:.0%}).")


def _proposal_rows(judged: Sequence[JudgedDay], proposal: Proposal | None) -> list[Row]:
    if proposal is None:
        text = (
            "No grid that was tried passes on every day. Leave out days without records, or take "
            "a larger epsilon, a shorter privacy unit or fewer min_users."
        )
        return [("Series", text)]
    grid, _ = proposal
    worst = max(grid.assessments, key=lambda day: grid.assessments[day].relative_error)
    judgement = grid.assessments[worst]
    error, constant = judgement.predicted_error, judgement.baseline_error
    return [
        "",
        f"# Passes all {len(judged)} days: at least {grid.cells:,} cells; worst {worst}, expected",
        f"# error {error:.2g}, one number for all cells {constant:.2g}. As lines of a run file:",
        *toml_lines(fields_of(proposal)),
    ]


def _json(judged: Sequence[JudgedDay], proposal: Proposal | None) -> dict[str, Any]:
    fields = {} if proposal is None else fields_of(proposal)
    return {
        "days": [asdict(row) for row in judged],
        "share": sum(row.passes for row in judged) / len(judged),
        "proposed": fields_json(fields) or None,
    }
