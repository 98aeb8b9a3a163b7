"""From records to a run that can be released: what `hexveil map` and `hexveil studio` share.

Names and types of columns are looked at, and who reported where and when; never a value. Under
private presence a run follows from declarations alone. Every question has a proposal, or says why
there is none, and a reason. Nothing is spent here.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from hexveil.base import atomic_files
from hexveil.base.errors import InputError
from hexveil.base.hexagons import across
from hexveil.base.rational import to_bounds, to_positive_fraction
from hexveil.cli import planned_release, receipts, shared_steps
from hexveil.cli.output import formatting, grid_text
from hexveil.config import Run, arguments, load
from hexveil.config.field_types import read_value
from hexveil.config.fields import FIELDS, option
from hexveil.config.loading import FILL_IN, checked
from hexveil.config.run_file import Key, run_file_text
from hexveil.config.run_file_template import draft_run_file
from hexveil.model.areas import area_of
from hexveil.model.public_metadata import Unit
from hexveil.model.time_zones import zone
from hexveil.planning.feasibility.grids import counted, with_min_users
from hexveil.planning.feasibility.prediction import ErrorPredictor
from hexveil.planning.feasibility.recommendation import CommonGrid, choose, distinct
from hexveil.records.sources.schema_preview import SourceSchema, inspect_schema
from hexveil.records.sources.vocabulary import words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats
    from hexveil.cli.output.grid_text import Changes
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.feasibility.grid_assessment import GridAssessment
    from hexveil.planning.moment_component import MomentComponent

ROLES = {"user": "vehicle", "value": "value", "time": "time"}
PLACES = ("location", "lat", "lon")
LIKELY_BOUNDS = {
    "speed": "0,100 km/h",
    "velocity": "0,100 km/h",
    "pm": "0,500 µg/m³",
    "temperature": "-40,60 °C",
    "humidity": "0,100 %",
    "noise": "30,120 dB",
    "delay": "-600,3600 s",
    "aqi": "0,500",
}
"""What devices usually report, by a word of the column's name."""
RANGE = re.compile(r"\s*([-+\d.]+)\s*(?:,|;|to)\s*([-+\d.]+)\s*(.*?)\s*")
FACTORS = ("0.5", "1", "2", "3")
"""Values of epsilon that are shown with their factors."""
MAPS = 5
"""Maps like this one that a proposed budget allows."""
UNPROTECTED = (
    "Protected are the values. Presence, places and times are not: who receives the map may learn "
    "which vehicle was where and when. That is right for buses on published routes, and wrong for "
    "private cars, taxis and phones: for these stop here, and see docs/how-to/private-presence.md."
)


# ---- questions ----


@dataclass(frozen=True)
class Question:
    """A question that only the holder of the records can answer.

    Attributes
    ----------
    key : (section, field)
    text, reason : str
    proposal : Callable
        Of the answers so far: what is proposed, None for nothing.
    check : Callable
        Raises InputError for an answer that is none.
    """

    key: Key
    text: str
    reason: str
    proposal: Callable[[Run], str | None]
    check: Callable[[str], object]


DECLARATIONS = (
    Question(
        ("cells", "area"),
        "Area of the map: west, south, east and north end, in degrees",
        "Where the map has hexagons, from public knowledge such as the limits of a city: places of "
        "records are private here.",
        lambda _: None,
        # Degrees alone: the name of a file would be read, wherever it is.
        lambda answer: _refuse_no_degrees(answer.split(",")),
    ),
    Question(
        ("privacy", "fleet"),
        "Vehicles, or phones, that may be in the records",
        "From public knowledge, such as a registry or sales: it decides how fine the map can be, "
        "and not what is protected. Their number in the records is private.",
        lambda _: None,
        lambda answer: _refuse_below(answer, 2),
    ),
    Question(
        ("select", "dates"),
        "First and last day, such as 2026-11-01, 2026-11-30",
        "Records of these days count. They are declared, because it is private who was there when.",
        lambda _: None,
        lambda answer: _refuse_no_dates(answer.split(",")),
    ),
)
"""Questions under private presence alone."""
QUESTIONS = (
    Question(
        ("values", "bounds"),
        "Smallest and largest value, with the unit of measure",
        "What the devices can report, from public knowledge: never look it up in the records. "
        "Values outside count as the nearest end; wide bounds mean more noise.",
        lambda run: _likely_bounds(str(run.columns.value), arguments.value_unit_of(run)),
        lambda answer: to_bounds(range_of(answer)[0].split(",")),
    ),
    Question(
        ("cells", "timezone"),
        "Time zone of the map",
        "Slots of the day follow its clock. Proposed is the zone of this machine.",
        lambda _: _local_zone(),
        zone,
    ),
    Question(
        ("read", "privacy_unit"),
        "What is protected together: user, user-day or user-week",
        "All readings of a vehicle, or those of any one day or week of it. The shorter, the more "
        "accurate the map and the weaker the promise.",
        lambda _: "user",
        lambda answer: _refuse_other(answer, get_args(Unit)),
    ),
    Question(
        ("plan", "epsilon"),
        "Privacy cost epsilon",
        "What is protected of one unit changes the probability of any outcome by a factor of at "
        "most "
        + ", ".join(f"{formatting.factor(float(loss))} at {loss}" for loss in FACTORS)
        + ".",
        lambda _: "1",
        lambda answer: to_positive_fraction(answer, "epsilon"),
    ),
    Question(
        ("ledger", "budget"),
        "Largest epsilon of all releases of these records together",
        f"The ledger refuses what would exceed it. Proposed is enough for {MAPS} maps like this.",
        lambda run: str(MAPS * Decimal(str(run.plan.epsilon or "1"))),
        lambda answer: to_positive_fraction(answer, "budget"),
    ),
)


def open_questions(stated: Run, drafted: Run) -> list[Question]:
    """Return the questions that are open for a run that was drafted from what was given."""
    # An account keeps the budget that it was opened with.
    answered_keys = {*stated.fields(), *([("ledger", "budget")] if _has_account(drafted) else [])}
    declared = DECLARATIONS if arguments.is_presence_private(stated) else ()
    return [question for question in (*declared, *QUESTIONS) if question.key not in answered_keys]


def _has_account(run: Run) -> bool:
    """Return whether the ledger of the run has an account of its data set."""
    account = {"url": run.ledger.url, "dataset": run.ledger.dataset}
    return receipts.known_spend(account) is not None


def answered(run: Run, question: Question, answer: str) -> Run:
    """Return the run with the answer to a question; InputError for an answer that is none."""
    answer = answer.strip()
    question.check(answer)
    section, name = question.key
    if question.key == ("values", "bounds"):
        answer, unit = range_of(answer)
        run = run.with_fields("values", value_unit=unit) if unit else run
    return run.with_fields(section, **{name: read_value(name, FIELDS[question.key], answer)})


def range_of(answer: str) -> tuple[str, str]:
    """Return bounds as an option has them, and their unit of measure."""
    match = RANGE.fullmatch(answer)
    if match is None:
        raise InputError("bounds are two numbers and a unit, such as 0,65 km/h.")
    return f"{match[1]},{match[2]}", match[3]


def _refuse_other(answer: str, answers: Sequence[str]) -> None:
    if answer not in answers:
        raise InputError(f"the answer must be one of {', '.join(answers)}.")


def _refuse_no_degrees(numbers: Sequence[str]) -> None:
    try:
        west, south, east, north = map(float, numbers)
    except ValueError:
        raise InputError(
            "an area is four numbers, such as 72.7, 21.0, 73.0, 21.4: west, south, east, north."
        ) from None
    area_of((west, south, east, north))


def _refuse_no_dates(numbers: Sequence[str]) -> None:
    try:
        start, end = (date.fromisoformat(day.strip()) for day in numbers)
    except ValueError:
        raise InputError("days are two dates, such as 2026-11-01, 2026-11-30.") from None
    if end < start:
        raise InputError(f"the last day, {end}, is before the first.")


def _refuse_below(answer: str, minimum: int) -> None:
    if not (answer.isascii() and answer.isdigit() and int(answer) >= minimum):
        raise InputError(f"the answer must be a whole number of at least {minimum}.")


def _likely_bounds(column: str, unit: str) -> str | None:
    """Return the usual range of a column of this name, None for none or in another unit."""
    bounds = next((LIKELY_BOUNDS[w] for w in words(column) if w in LIKELY_BOUNDS), None)
    return bounds if bounds is not None and (not unit or bounds.endswith(f" {unit}")) else None


def _local_zone() -> str | None:
    """Return the name of this machine's time zone, if it has one."""
    place = os.environ.get("TZ") or str(Path("/etc/localtime").resolve())
    return place.rpartition("zoneinfo/")[2].removeprefix(":") or None


# ---- columns ----


def look_at_columns(run: Run, *, trust: bool = False) -> SourceSchema:
    """Return names and types of the columns of the run's source."""
    labelled = run.columns.explicit_fields().values()
    column_names = [
        *(name for names in labelled for name in ([names] if isinstance(names, str) else names)),
        *(run.cells.labels or ()),
    ]
    return inspect_schema(
        arguments.source(run),
        column_names,
        trusted=trust,
        record_format=arguments.record_format(run),
        look_at_times=not arguments.is_presence_private(run)
        and run.format.time_format is None
        and run.columns.time is None,
    )


def drafted(run: Run, look: SourceSchema) -> Run:
    """Return the run completed from names and types of the columns; questions stay open."""
    raw = tomllib.loads(draft_run_file(run, look), parse_float=Decimal)
    open_keys = {question.key for question in (*DECLARATIONS, *QUESTIONS)} - run.fields().keys()
    filled = {
        section: {
            name: value
            for name, value in fields.items()
            if value != FILL_IN and (section, name) not in open_keys
        }
        for section, fields in raw.items()
        if section != "source"
    }
    return checked({"source": raw["source"], **filled}, "map")


def check_columns(run: Run) -> None:
    """Refuse records of which a needed column is not recognised."""
    missing = [role for role in ("user", "value") if getattr(run.columns, role) is None]
    if not (arguments.has_places(run) or run.cells.explicit_fields().keys() & {"labels"}):
        missing.append("location")
    if missing:
        options = ", ".join(f"{option('columns', role)} COLUMN" for role in missing)
        raise InputError(
            f"no column is called like the {' and the '.join(missing)}: name it, with {options}."
        )


def recognised(run: Run) -> dict[str, str]:
    """Return the columns that were recognised, by what they are in words."""
    columns = run.columns.explicit_fields()
    columns_by_word = {word: columns[role] for role, word in ROLES.items() if role in columns}
    columns_by_word["place"] = (
        [columns[name] for name in PLACES if name in columns] or run.cells.labels or ()
    )
    return {
        word: names if isinstance(names, str) else " and ".join(names)
        for word, names in columns_by_word.items()
        if names
    }


# ---- grids ----


@dataclass(frozen=True, eq=False)
class Offer:
    """A grid that is proposed, and what to expect of it.

    Attributes
    ----------
    changes : dict
        Fields of the run that make its grid this one.
    words : str
    is_balanced : bool
        Whether it is the one in between, which is proposed.
    baseline_error : float
        What one number for the whole map is expected to be off by, in value units.
    hexagon : ndarray of uint64
        Hexagons of the map.
    error : ndarray of float
        By how much the averages of each are expected to be off, in value units.
    """

    changes: Changes
    words: str
    is_balanced: bool
    baseline_error: float
    hexagon: NDArray[np.uint64]
    error: Floats

    def applied_to(self, run: Run) -> Run:
        """Return a run on this grid."""
        for (section, name), value in self.changes.items():
            run = run.with_fields(section, **{name: value})
        return run


def offers_of(run: Run) -> list[Offer]:
    """Return the grids that are proposed for a fleet, from public counts or from declarations.

    Raises
    ------
    InputError
        If no grid is expected to say more than one number for the whole map.
    """
    return (_declared if arguments.is_presence_private(run) else _counted)(run)


def _counted(run: Run) -> list[Offer]:
    """Return the proposed grids, and the expected error of each hexagon on average over slots."""
    epsilon = str(run.plan.epsilon)
    facts = shared_steps.read_facts(run)
    plan, advice = shared_steps.proposed_runs(run, facts, epsilon)
    if not advice.proposals:
        raise InputError(f"nothing was spent: {grid_text.absence(advice, epsilon)}")
    return [
        _counted_offer(plan, facts, offer, is_balanced=offer is advice.proposals["balanced"])
        for _, offer in distinct(advice.proposals)
    ]


def _counted_offer(
    plan: MomentComponent, facts: PublicMetadata, offer: GridAssessment, *, is_balanced: bool
) -> Offer:
    on_grid = next(counted(facts, (offer.grid,), offer.privacy_unit))
    remaining = None if on_grid is None else with_min_users(on_grid, offer.min_users)
    assert remaining is not None  # noqa: S101  proposed grids have cells
    assert remaining.cells.hexagon is not None  # noqa: S101  and hexagons
    error = ErrorPredictor(plan, remaining).predict(plan.requested_epsilon).error
    hexagon, row = np.unique(remaining.cells.hexagon, return_inverse=True)
    return Offer(
        grid_text.changed_fields(offer),
        _offer_words(offer, offer.hexagons or 0, facts.value_unit),
        is_balanced,
        offer.baseline_error,
        hexagon,
        np.bincount(row, weights=error) / np.bincount(row),
    )


def _declared(run: Run) -> list[Offer]:
    """Return the proposed grids on the declared area: which cells open is private, so all alike."""
    # Other grids with a mistake are left out: here it is refused.
    planned_release.plan_declared(run, planned_release.declare_run(run))
    plans = planned_release.comparable_plans(run)
    grids = [CommonGrid.declared(plan.components) for plan in plans]
    proposals = choose(grids)
    if not proposals:
        raise InputError(
            "nothing was spent: no grid is expected to say more than one number for the whole map. "
            "Declare a smaller area or a longer timeslot, or take a larger epsilon."
        )
    offers = []
    for grid in dict.fromkeys(proposals.values()):
        offer: Any = next(iter(grid.assessments.values()))
        table, unit = offer.declared.facts.cells, offer.declared.facts.value_unit
        hexagon = np.unique(table.hexagon)
        offers.append(
            Offer(
                grid_text.cell_fields(offer.grid),
                _offer_words(offer, hexagon.size, unit, offer.declared.prediction.map.open_cells),
                grid is proposals["balanced"],
                offer.baseline_error,
                hexagon,
                np.full(hexagon.size, offer.predicted_error),
            )
        )
    return offers


def _offer_words(
    offer: Any,  # noqa: ANN401  of counted or declared facts
    hexagons: int,
    value_unit: str,
    n_open: float | None = None,
) -> str:
    """Describe a proposed grid as a reader of the map sees it."""
    counted_text = f"{offer.cells:,} averages"
    if n_open is not None:
        counted_text = (
            f"about {n_open:,.0f} of {offer.cells:,} averages have enough vehicles to be shown"
        )
    error, constant = (
        formatting.measured(float(f"{number:.2g}"), value_unit)
        for number in (offer.predicted_error, offer.baseline_error)
    )
    is_whole = offer.grid.timeslot in (None, "1d")
    slots = "all hours together" if is_whole else f"slots of {offer.grid.timeslot}"
    return (
        f"{hexagons:,} hexagons, {across(offer.grid.resolution):.2g} km across, {slots}: "
        f"{counted_text}, typically {error} off. One number for all would be {constant} off."
    )


# ---- the run file ----


def saved(run: Run, file: Path) -> Run:
    """Return the run as a new run file has it; refuse one that exists."""
    if file.exists():
        raise InputError(
            f"{file.name!r} exists already: hexveil map {file.name} makes its map; --save names "
            "another file."
        )
    atomic_files.write(file, run_file_text(run, {}, file.parent).encode())
    return load(str(file))


def price_words(run: Run) -> str:
    """Return what a release costs, as the end of a sentence."""
    epsilon = str(run.plan.epsilon)
    of_budget = f" of a budget of {run.ledger.budget}" if run.ledger.budget else ""
    return (
        f"costs epsilon {epsilon} (factor {formatting.factor(float(epsilon))}){of_budget}, and "
        "cannot be taken back"
    )
