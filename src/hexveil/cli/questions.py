"""The questions that only the holder of records can answer, with proposals and reasons.

Asked by `hexveil map` on a terminal and by `hexveil studio` on a page. No proposal rests on a value
of the records.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from hexveil.base.errors import InputError
from hexveil.base.rational import to_bounds, to_fraction, to_positive_fraction
from hexveil.cli import formatting, receipts
from hexveil.config import Run, arguments
from hexveil.config.fields import FIELDS, read_value
from hexveil.config.run_file import Key
from hexveil.model.areas import area_of
from hexveil.model.cells import zone
from hexveil.model.public_metadata import Unit
from hexveil.records.select import Select
from hexveil.records.sources.vocabulary import words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hexveil.records.sources.schema_preview import SourceSchema

LIKELY_BOUNDS = {
    "speed": ("0,100 km/h", "0,60 mph", "0,30 m/s"),
    "velocity": ("0,100 km/h", "0,60 mph", "0,30 m/s"),
    "pm": ("0,500 µg/m³",),
    "temperature": ("-40,60 °C", "-40,140 °F"),
    "humidity": ("0,100 %",),
    "noise": ("30,120 dB",),
    "delay": ("-600,3600 s", "-10,60 min"),
    "aqi": ("0,500",),
}
"""What devices usually report, by a word of the column's name; first in the usual unit."""
SPELLINGS = {
    "kmh": "km/h", "kph": "km/h", "kmstd": "km/h", "mph": "mph", "ms": "m/s", "mps": "m/s",
    "kn": "kn", "knots": "kn", "c": "°C", "f": "°F", "s": "s", "min": "min", "minutes": "min",
}  # fmt: skip
"""Units by their letters, as names of columns end in them."""
RANGE = re.compile(r"\s*([-+\d.]+)\s*(?:,|;|to)\s*([-+\d.]+)\s*(.*?)\s*")
FACTORS = ("0.5", "1", "2", "3")
"""Values of epsilon that are shown with their factors."""
MAPS = 5
"""Maps like this one that a proposed budget allows."""


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


WORDS = tomllib.loads((files(__package__) / "questions.toml").read_text(encoding="utf-8"))
"""Words by the field that a question is about; those of the command, under "map"."""


def _question(
    key: Key, proposal: Callable[[Run], str | None], check: Callable[[str], object], **facts: object
) -> Question:
    words = WORDS[".".join(key)]
    text, reason = (words[name].format(**facts) for name in ("text", "reason"))
    return Question(key, text, reason, proposal, check)


DECLARATIONS = (
    # Degrees alone: the name of a file would be read, wherever it is.
    _question(
        ("cells", "area"), lambda _: None, lambda answer: _refuse_no_degrees(answer.split(","))
    ),
    _question(("privacy", "fleet"), lambda _: None, lambda answer: _refuse_below(answer, 2)),
    _question(("select", "dates"), lambda _: None, lambda answer: _check_days(answer.split(","))),
)
"""Questions under private presence alone."""
QUESTIONS = (
    _question(
        ("values", "bounds"),
        lambda run: _likely_bounds(str(run.columns.value), arguments.value_unit_of(run)),
        lambda answer: to_bounds(range_of(answer)[0].split(",")),
    ),
    _question(("cells", "timezone"), lambda _: _local_zone(), zone),
    _question(
        ("read", "privacy_unit"),
        lambda _: "user",
        lambda answer: _refuse_other(answer, get_args(Unit)),
    ),
    _question(
        ("plan", "epsilon"),
        lambda _: "1",
        lambda answer: to_positive_fraction(answer, "epsilon"),
        factors=", ".join(f"{formatting.factor(float(loss))} at {loss}" for loss in FACTORS),
    ),
    _question(
        ("ledger", "budget"),
        lambda run: str(MAPS * Decimal(str(run.plan.epsilon or "1"))),
        lambda answer: to_positive_fraction(answer, "budget"),
        maps=MAPS,
    ),
)


def open_period(run: Run, days: tuple[str, str] | None) -> list[Question]:
    """Return the question for which days a map is, unless its slots or the run name them.

    `days` are the first and the last on which enough vehicles reported, None where none are known.
    """
    if days is None or states_days(run):
        return []
    question = _question(
        ("catalogue", "temporal"),
        lambda _: ", ".join(days),
        lambda answer: _check_days([] if answer == "none" else answer.split(",")),
    )
    return [question]


def states_days(run: Run) -> bool:
    """Return whether page and dossier name the days of the records: by slots, or as stated."""
    has_dates = run.cells.timeslot not in (None, "none") and run.cells.slot != "pooled"
    return has_dates or bool(run.select.dates or run.catalogue.temporal)


def open_questions(stated: Run, drafted: Run, look: SourceSchema) -> list[Question]:
    """Return the questions that are open for a drafted run, and for the columns of its source."""
    # An account keeps the budget that it was opened with.
    account = {"url": drafted.ledger.url, "dataset": drafted.ledger.dataset}
    budget = [] if receipts.known_spend(account) is None else [("ledger", "budget")]
    answered_keys = {*stated.fields(), *budget}
    declared = DECLARATIONS if arguments.is_presence_private(stated) else ()
    asked = (*_time_formats(drafted, look), *declared, *QUESTIONS)
    return [question for question in asked if question.key not in answered_keys]


def _time_formats(run: Run, look: SourceSchema) -> list[Question]:
    """Return the question which format times have, if they fit several."""
    time = run.columns.time
    formats = look.time_formats.get(str(time if isinstance(time, str) else (time or ("",))[-1]), ())
    question = _question(
        ("format", "time_format"),
        lambda _: formats[0],
        lambda answer: _refuse_other(answer, formats),
        formats=" or ".join(formats),
    )
    return [question] if len(formats) > 1 else []


def answered(run: Run, question: Question, answer: str) -> Run:
    """Return the run with the answer to a question; InputError for an answer that is none."""
    answer = answer.strip()
    question.check(answer)
    section, name = question.key
    if answer == "none":
        return run
    if question.key == ("values", "bounds"):
        answer, unit = range_of(answer)
        run = run.with_fields("values", value_unit=unit) if unit else run
    run = run.with_fields(section, **{name: read_value(FIELDS[question.key], answer)})
    refuse_small_budget(run)
    return run


def refuse_small_budget(run: Run) -> None:
    """Refuse a budget that the map itself exceeds."""
    epsilon, budget = run.plan.epsilon, run.ledger.budget
    if epsilon and budget and to_fraction(budget, "budget") < to_fraction(epsilon, "epsilon"):
        raise InputError(
            f"the budget {budget} is below the privacy cost of this map, epsilon {epsilon}: take a "
            "larger budget or a smaller epsilon."
        )


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


def _check_days(days: Any) -> None:  # noqa: ANN401  texts of any number
    Select(dates=tuple(day.strip() for day in days) or None)


def _refuse_below(answer: str, minimum: int) -> None:
    if not (answer.isascii() and answer.isdigit() and int(answer) >= minimum):
        raise InputError(f"the answer must be a whole number of at least {minimum}.")


def _likely_bounds(column: str, unit: str) -> str | None:
    """Return the usual range of a column of this name, None for none or in another unit."""
    spoken = words(column)
    ranges = next((LIKELY_BOUNDS[word] for word in spoken if word in LIKELY_BOUNDS), ())
    # The unit that is stated, or that the name ends in.
    spellings = ("".join(words(unit)), "".join(spoken[-2:]), spoken[-1] if spoken else "")
    known = next((SPELLINGS[letters] for letters in spellings if letters in SPELLINGS), "")
    wanted = known or unit
    return next((text for text in ranges if not wanted or text.endswith(f" {wanted}")), None)


def _local_zone() -> str | None:
    """Return the name of this machine's time zone, if it has one."""
    place = os.environ.get("TZ") or str(Path("/etc/localtime").resolve())
    return place.rpartition("zoneinfo/")[2].removeprefix(":") or None
