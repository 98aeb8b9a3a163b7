"""`hexveil plan`: what a release would cost and what it would say, before anything is spent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from hexveil.cells import Cells
from hexveil.cli import steps, words
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.config import Run  # noqa: TC001  the parser reads annotations

if TYPE_CHECKING:
    from hexveil.facts import PublicFacts
    from hexveil.planning import Plan

MONTH = 30


def plan(run: Run, *, as_json: AsJson = False) -> None:
    """Say what a release would cost and how good its map would be; nothing is spent."""
    steps.price_named(run)
    facts = steps.read(run).public
    made = steps.planned(run, facts)
    coarse = steps.coarser(run, facts)
    warning = steps.too_fine(made)
    if as_json:
        text = steps.plan_json(made) | {
            "unit": facts.unit,
            "coarser": None if coarse is None else steps.plan_json(coarse),
            "warning": warning,
        }
        typer.echo(json.dumps(text, indent=2))
        return
    lines = [*price_lines(made, facts), *map_lines(made, facts, coarse, warning)]
    typer.echo("\n".join(lines))


def price_lines(made: Plan, facts: PublicFacts) -> list[str]:
    """Return what is released about whom, and what it costs."""
    whom, price = words.ONE_UNIT[facts.unit], float(made.epsilon)
    claimed = float(made.composed_epsilon)
    records = int(made.occupancy.n.sum())
    return [
        *words.wrapped(
            "Cells",
            f"{made.support.cells:,}: {words.grid_words(facts.cells.grid)}; "
            f"{records:,} records of {made.support.users:,} {facts.unit}s.",
        ),
        *words.wrapped(
            "Price",
            f"{words.price(price)} (epsilon): an attacker's odds on any fact about {whom} change "
            f"by at most {words.odds(price)}.",
        ),
        *words.wrapped(
            "Counting cells",
            f"would have charged {words.price(claimed)} for the same noise (odds: "
            f"{words.odds(claimed)}); what each user really did is charged instead.",
        ),
    ]


def map_lines(
    made: Plan, facts: PublicFacts, coarse: Plan | None, warning: str | None
) -> list[str]:
    """Return how good the map would be, what a coarser one would say, and a month's cost."""
    unit = facts.value_unit
    lines = [
        *words.wrapped(
            "Error to expect",
            f"{words.measured(made.mean_error, unit)} on average, "
            f"{words.measured(made.max_error, unit)} in the worst cell; noise "
            f"alone averages {words.measured(made.support.floor, unit)} or more if nothing is "
            "clipped.",
        ),
        *words.wrapped("Worth it", _worth(made, unit)),
    ]
    if coarse is not None:
        lines += words.wrapped("One step coarser", _coarser(coarse, unit))
    lines += words.wrapped("A month", _month(made, facts))
    if warning is not None:
        lines += words.wrapped("Warning", warning)
    return lines


def _worth(made: Plan, unit: str) -> str:
    support = made.support
    return (
        f"{support.better:,} of {support.cells:,} cells say more than one constant for all, which "
        f"is assumed to miss {words.measured(support.prior_miss, unit)}."
    )


def _coarser(coarse: Plan, unit: str) -> str:
    facts = coarse.facts
    grid = facts.cells.grid if facts is not None else None
    name = f"resolution {grid.resolution}: " if isinstance(grid, Cells) else ""
    support = coarse.support
    return (
        f"{name}{support.cells:,} cells, error {words.measured(coarse.mean_error, unit)} on "
        f"average, {support.better:,} better than a constant."
    )


def _month(made: Plan, facts: PublicFacts) -> str:
    daily = float(made.epsilon)
    month = f"{words.price(MONTH * daily)} (odds: {words.odds(MONTH * daily)})"
    if facts.unit == "user":
        return (
            f"published every day, {MONTH} such maps cost a user who is in all of them {month}; "
            f'with unit = "user-day" any one day of a user would stay at the price of one map.'
        )
    return (
        f"published every day, any one {facts.unit.removeprefix('user-')} of a user stays within "
        f"its price, but a user who is in {MONTH} such maps can lose {month} over all of them."
    )
