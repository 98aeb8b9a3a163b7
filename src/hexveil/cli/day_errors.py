"""`hexveil plan --days`: expected errors of an archive that remembers, on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.accounting.gaussian_composition import to_delta
from hexveil.base.errors import InputError
from hexveil.base.rational import to_positive_fraction
from hexveil.base.work_share import PLANNING, SEARCH
from hexveil.cli import formatting, shared_steps
from hexveil.config import arguments
from hexveil.model.public_metadata import PublicMetadata
from hexveil.publishing.memory.history import (
    ExpectedErrors,
    expected_errors,
    least_daily_epsilon,
)
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from hexveil.cli.formatting import Row
    from hexveil.config import Run

MOST_DAYS = 366
SHOWN = (1, 2, 3, 7, 14, 21, 30, 60, 90, 180, 366)


def show_errors(run: Run, days: int | None, error: float | None, *, as_json: bool) -> None:
    """Print the expected error by day; nothing is spent."""
    if days is None or not 1 <= days <= MOST_DAYS:
        raise InputError(f"--days must be a number of days from 1 to {MOST_DAYS}, got {days}.")
    if error is None and run.plan.epsilon is None:
        raise InputError("--days needs a daily epsilon (--epsilon), or an error (--day-error).")
    facts = shared_steps.read_facts(run)
    delta = to_delta(arguments.plan_arguments(run).get("delta"))
    if not isinstance(facts, PublicMetadata):
        raise InputError("--days is about averages of one value column; name one.")
    with show_progress(PLANNING, SEARCH):
        if error is None:
            epsilon = to_positive_fraction(run.plan.epsilon, "epsilon")
            expected = expected_errors(facts, epsilon, days, delta=delta)
        else:
            expected = least_daily_epsilon(facts, error, days, delta=delta)
    formatting.show(lambda: _rows(expected, facts), lambda: _json(expected), as_json=as_json)


def _rows(expected: ExpectedErrors, facts: PublicMetadata) -> list[Row]:
    days, unit = len(expected.errors), facts.value_unit and f" {facts.value_unit}"
    shown = [*(day for day in SHOWN if day < days), days]
    errors = ((f"Day {day}", f"error {expected.errors[day - 1]:.2g}{unit}") for day in shown)
    text = (
        f"a daily epsilon of {formatting.price(float(expected.epsilon))} per "
        f"{facts.privacy_unit}; errors are averages over {facts.occupancy.n_cells:,} cells, by the "
        "usual differences between places, hours and days, if all days are like these records."
    )
    return [("Expected", text), *errors]


def _json(expected: ExpectedErrors) -> dict[str, Any]:
    return {"epsilon": float(expected.epsilon), "errors": list(expected.errors)}
