"""`hexveil map`: from records to the page of a map, by at most five questions.

Names and types of columns are looked at, and who reported where and when; never a value. Every
question has a proposal and its reason. With --yes nothing is asked, so nothing may be open.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
import webbrowser
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import typer

from hexveil.base import atomic_files
from hexveil.base.errors import InputError
from hexveil.base.rational import to_bounds, to_positive_fraction
from hexveil.cli import declarations, receipts, shared_steps
from hexveil.cli.commands import inspect_command
from hexveil.cli.commands.release_command import destination, release
from hexveil.cli.output import formatting, grid_text
from hexveil.config import Run, arguments, load
from hexveil.config.field_types import read_value
from hexveil.config.fields import FIELDS, option
from hexveil.config.loading import FILL_IN, checked
from hexveil.config.run_file import Key, run_file_text
from hexveil.model.public_metadata import Unit
from hexveil.model.time_zones import zone
from hexveil.planning.feasibility.recommendation import distinct
from hexveil.records.sources.vocabulary import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hexveil.planning.feasibility.grid_assessment import GridAssessment

ROLES = {"user": "vehicle", "value": "value", "time": "time"}
PLACES = ("location", "lat")
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


QUESTIONS = (
    Question(
        ("values", "bounds"),
        "Smallest and largest value, with the unit of measure",
        "What the devices can report, from public knowledge: never look it up in the records. "
        "Values outside count as the nearest end; wide bounds mean more noise.",
        lambda run: _likely_bounds(str(run.columns.value), arguments.value_unit_of(run)),
        lambda answer: to_bounds(_range_of(answer)[0].split(",")),
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
        "The probability of any outcome may change by a factor, if the values of one unit change: "
        + ", ".join(f"{formatting.factor(float(one))} at {one}" for one in FACTORS)
        + ".",
        lambda _: "1",
        lambda answer: to_positive_fraction(answer, "epsilon"),
    ),
    Question(
        ("ledger", "budget"),
        "Largest epsilon of all releases of these records together",
        f"The ledger refuses what would exceed it. Proposed is enough for {MAPS} maps like this.",
        lambda run: str(MAPS * Decimal(str(run.plan.epsilon))),
        lambda answer: to_positive_fraction(answer, "budget"),
    ),
)


def map(run: Run, options: declarations.MapOptions) -> None:  # noqa: A001  the command's name
    """Recognise the columns, ask what is open, propose grids, release, open the page."""
    _check_run(run, options)
    drafted = _drafted(run)
    _check_columns(drafted)
    # An account keeps the budget that it was opened with.
    known = {*run.fields(), *([("ledger", "budget")] if _has_account(drafted) else [])}
    questions = [question for question in QUESTIONS if question.key not in known]
    _check_answers(questions, options)
    if not options.yes:
        _say("Recognised", "; ".join(_recognised(drafted)) + ".")
        _say("Promise", UNPROTECTED)
    for question in questions:
        drafted = _ask(drafted, question)
    destination(drafted)
    if arguments.has_places(drafted) and "resolution" not in run.cells.explicit_fields():
        drafted = _on_proposed_grid(drafted, is_asked=not options.yes)
    if drafted.fields() != run.fields():
        drafted = _saved(drafted, options.save)
    if not options.yes:
        _confirm(drafted)
    release(drafted, declarations.ReleaseOptions(as_json=options.as_json))
    page = Path(str(drafted.release.out), "report.html")
    if not options.as_json:
        formatting.print_rows([("Page", str(page))])
    if options.browser and not options.yes:
        webbrowser.open(page.resolve().as_uri())


def _check_run(run: Run, options: declarations.MapOptions) -> None:
    """Refuse runs of other kinds."""
    arguments.refuse_several(run, "map")
    if arguments.is_presence_private(run):
        raise InputError(
            'map makes maps where presence is public; for protect = "presence" complete a draft: '
            "hexveil inspect SOURCE --init --protect presence > run.toml"
        )
    if options.as_json and not options.yes:
        raise InputError("--json requires --yes: questions are asked on a terminal.")


def _drafted(run: Run) -> Run:
    """Return the run completed from names and types of the columns, with gaps."""
    text = inspect_command.draft(run, alone=True, trust=False)
    raw = tomllib.loads(text, parse_float=Decimal)
    asked = {question.key for question in QUESTIONS} - run.fields().keys()
    filled = {
        section: {
            name: value
            for name, value in fields.items()
            if value != FILL_IN and (section, name) not in asked
        }
        for section, fields in raw.items()
        if section != "source"
    }
    return checked({"source": raw["source"], **filled}, "map")


def _check_columns(run: Run) -> None:
    """Refuse records of which a needed column is not recognised."""
    missing = [role for role in ("user", "value") if getattr(run.columns, role) is None]
    if not (arguments.has_places(run) or run.cells.explicit_fields().keys() & {"labels"}):
        missing.append("location")
    if missing:
        ways = ", ".join(f"{option('columns', role)} COLUMN" for role in missing)
        raise InputError(
            f"no column is called like the {' and the '.join(missing)}: name it, with {ways}."
        )


def _recognised(run: Run) -> Iterator[str]:
    columns = run.columns.explicit_fields()
    for role, word in ROLES.items():
        if role in columns:
            name = columns[role]
            yield f"{word} {name if isinstance(name, str) else ' and '.join(name)}"
    places = [columns[name] for name in ("location", "lat", "lon") if name in columns]
    yield f"place {' and '.join(places or run.cells.labels)}"


def _check_answers(questions: list[Question], options: declarations.MapOptions) -> None:
    """Refuse questions that nobody is there to answer."""
    missing = ", ".join(option(*question.key) for question in questions)
    if options.yes and missing:
        raise InputError(f"--yes guesses nothing: give {missing}, too.")
    if not options.yes and not sys.stdin.isatty():
        needed = f"give {missing} and --yes" if missing else "give --yes"
        raise InputError(
            f"map asks on a terminal. Elsewhere {needed}, or complete a draft: hexveil inspect "
            "SOURCE --init > run.toml"
        )


def _has_account(run: Run) -> bool:
    """Return whether the ledger of the run has an account of its data set."""
    account = {"url": run.ledger.url, "dataset": run.ledger.dataset}
    return receipts.known_spend(account) is not None


def _say(label: str, text: str) -> None:
    typer.echo(formatting.text_of([(label, text)]), err=True)


def _ask(run: Run, question: Question) -> Run:
    """Return the run with the answer to a question, which is asked until it can be read."""
    _say("", "")
    _say("Why", question.reason)
    while True:
        answer = str(typer.prompt(question.text, default=question.proposal(run), err=True)).strip()
        try:
            question.check(answer)
        except InputError as error:
            typer.echo(str(error), err=True)
        else:
            return _answered(run, question.key, answer)


def _answered(run: Run, key: Key, answer: str) -> Run:
    """Return the run with an answer as the value of its field."""
    section, name = key
    if key == ("values", "bounds"):
        answer, unit = _range_of(answer)
        run = run.with_fields("values", value_unit=unit) if unit else run
    return run.with_fields(section, **{name: read_value(name, FIELDS[key], answer)})


def _range_of(answer: str) -> tuple[str, str]:
    """Return bounds as an option has them, and their unit of measure."""
    match = RANGE.fullmatch(answer)
    if match is None:
        raise InputError("bounds are two numbers and a unit, such as 0,65 km/h.")
    return f"{match[1]},{match[2]}", match[3]


def _refuse_other(answer: str, answers: Sequence[str]) -> None:
    if answer not in answers:
        raise InputError(f"the answer must be one of {', '.join(answers)}.")


def _likely_bounds(column: str, unit: str) -> str | None:
    """Return the usual range of a column of this name, None for none or in another unit."""
    bounds = next((LIKELY_BOUNDS[w] for w in words(column) if w in LIKELY_BOUNDS), None)
    return bounds if bounds is not None and (not unit or bounds.endswith(f" {unit}")) else None


def _local_zone() -> str | None:
    """Return the name of this machine's time zone, if it has one."""
    place = os.environ.get("TZ") or str(Path("/etc/localtime").resolve())
    return place.rpartition("zoneinfo/")[2].removeprefix(":") or None


def _on_proposed_grid(run: Run, *, is_asked: bool) -> Run:
    """Return the run on one of the grids that its fleet supports: the chosen, or the middle one."""
    epsilon = str(run.plan.epsilon)
    facts = shared_steps.read_facts(run)
    advice = shared_steps.advise_run(run, facts, epsilon)
    if not advice.proposals:
        raise InputError(f"nothing was spent: {grid_text.absence(advice, epsilon)}")
    offers = [proposal for _, proposal in distinct(advice.proposals)]
    chosen = advice.proposals["balanced"]
    if is_asked:
        _say("", "")
        for number, offer in enumerate(offers, 1):
            _say(f"Map {number}", _offer_words(offer, facts.value_unit))
        numbers = [str(number) for number in range(1, len(offers) + 1)]
        default = numbers[offers.index(chosen)]
        chosen = offers[int(_choice("Which map", numbers, default)) - 1]
    fields = grid_text.changed_fields(chosen)
    for (section, name), value in fields.items():
        run = run.with_fields(section, **{name: value})
    return run


def _choice(text: str, answers: list[str], default: str) -> str:
    """Return one of the answers; without a question where there is one alone."""
    answer = default
    while len(answers) > 1:
        answer = str(typer.prompt(f"{text} ({', '.join(answers)})", default=default, err=True))
        if answer in answers:
            break
    return answer


def _offer_words(offer: GridAssessment, value_unit: str) -> str:
    """Describe a proposed grid as a reader of the map sees it."""
    error, constant = (
        formatting.measured(float(f"{number:.2g}"), value_unit)
        for number in (offer.predicted_error, offer.baseline_error)
    )
    is_whole = offer.timeslot in (None, "1d")
    slots = "all hours together" if is_whole else f"slots of {offer.timeslot}"
    return (
        f"{offer.hexagons:,} hexagons, {offer.kilometres:.2g} km across, {slots}: {offer.cells:,} "
        f"averages, typically {error} off. One number for all would be {constant} off."
    )


def _saved(run: Run, save: Path | None) -> Run:
    """Return the run as a new run file has it; refuse one that exists."""
    file = shared_steps.to_run_path(save) if save else Path(f"{run.ledger.dataset}.toml")
    if file.exists():
        raise InputError(
            f"{file.name!r} exists already: hexveil map {file.name} makes its map; --save names "
            "another file."
        )
    atomic_files.write(file, run_file_text(run, {}, file.parent).encode())
    _say("Run file", f"{file}: hexveil release {file} publishes the same map.")
    return load(str(file))


def _confirm(run: Run) -> None:
    """Ask for the release, naming its price; end the command otherwise."""
    epsilon = str(run.plan.epsilon)
    of_budget = f" of a budget of {run.ledger.budget}" if run.ledger.budget else ""
    text = (
        f"Release it? It costs epsilon {epsilon} (factor {formatting.factor(float(epsilon))})"
        f"{of_budget}, and cannot be taken back"
    )
    if not typer.confirm(text, default=False, err=True):
        raise typer.Abort
