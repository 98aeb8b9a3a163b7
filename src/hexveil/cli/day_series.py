"""The days that `hexveil publish` makes maps of: which, from when on, and how each ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.cli import shared_steps
from hexveil.cli.commands.release_command import check_inputs
from hexveil.config import Run, arguments
from hexveil.ledger import Ledger
from hexveil.model.cells import zone
from hexveil.publishing.archive.archive import Archive, open_archive

if TYPE_CHECKING:
    import zoneinfo

WAIT = "6h"
STEP = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
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
class Outcome:
    """Outcome of one day.

    Attributes
    ----------
    day : str
    state : str
        "published", "published before", "restored" (its folder was damaged), "kept" (late records
        wait), "not ready", "refused", "failed", or "planned" where nothing was to be published.
    message : str
        A sentence.
    epsilon : float
        What it cost the most exposed unit, or would.
    code : int
        Exit code.
    """

    day: str
    state: str
    message: str
    epsilon: float = 0.0
    code: int = 0


@dataclass(frozen=True)
class Series:
    """How days are published.

    Attributes
    ----------
    run : Run
    account : dict
        Arguments of the ledger.
    place : Archive
    clock : ZoneInfo
        By which a day begins.
    wait : timedelta
        After the end of a day, for late records.
    revise, dry_run : bool
    """

    run: Run
    account: dict[str, Any]
    place: Archive
    clock: zoneinfo.ZoneInfo
    wait: timedelta
    revise: bool
    dry_run: bool

    @classmethod
    def of(cls, run: Run, *, revise: bool, dry_run: bool) -> Series:
        """Return the series of a run, checked before records are read."""
        if run.release.out is None:
            raise InputError(
                "out (in [release], or --out) is needed: name the folder for the maps of all days."
            )
        if run.select.dates is not None:
            raise InputError(
                "dates (in [select]) and publish cannot be combined: use --date instead."
            )
        account = arguments.ledger_arguments(run, Ledger)
        shared_steps.check_plan_options(run)
        check_inputs(run)
        place = open_archive(run.release.out, account["dataset"], run.read.scratch)
        if run.cells.timezone is None:
            raise InputError("timezone (in [cells]) is needed: a day begins by a local clock.")
        clock, wait = zone(run.cells.timezone), parse_wait(run.publish.wait or WAIT)
        is_revised = revise or run.publish.late == "revise"
        return cls(run, account, place, clock, wait, is_revised, dry_run)

    def ready_at(self, day: date) -> datetime:
        """Return the time from which a day can be published: its local end plus the wait."""
        # The start of the next day, because a local day has 23 to 25 hours.
        end = datetime.combine(day + timedelta(1), datetime.min.time(), self.clock)
        # Added in UTC: by the local clock it is an hour off on days when clocks change.
        return end.astimezone(UTC) + self.wait


def run_of_day(run: Run, day: str) -> Run:
    """Return the run of one local day."""
    return run.with_fields("select", dates=(day, day))


def parse_wait(text: str) -> timedelta:
    """Return a time like "30min", "6h" or "2d"."""
    match = re.fullmatch(r"\s*(\d{1,4})\s*(min|h|d)\s*", text)
    if match is None:
        raise InputError(f"wait must be a time such as 30min, 6h or 2d, got {text!r}.")
    return int(match[1]) * STEP[match[2]]
