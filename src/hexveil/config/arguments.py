"""From a run to the keyword arguments of the library's doors.

What a door needs and the run does not say is asked for in one sentence; what the run leaves out
keeps the door's own default.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.base.rational import to_positive_fraction
from hexveil.config.run_file import SECTIONS, option
from hexveil.mechanisms import Baseline, OptimalClipping
from hexveil.model.cells import Cells, Labels
from hexveil.planning.request import split_of
from hexveil.planning.request import statistics as known_statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexveil.config.run_file import Run
    from hexveil.mechanisms import ThresholdMechanism

Arguments = dict[str, Any]

BEGIN = "; hexveil inspect FILE --init > run.toml drafts a run file that names them"
"""What helps whoever has records and no run file yet."""

MECHANISMS: dict[str, type[Baseline | OptimalClipping]] = {
    "OptimalClipping": OptimalClipping,
    "Baseline": Baseline,
}


def read_arguments(run: Run, door: Callable[..., object]) -> Arguments:
    """Return the keyword arguments of `read`; its source stands in the run."""
    from hexveil.records import Select  # noqa: PLC0415  the engine loads when records are read

    given = {**run.columns.given(), **run.values.given(), **run.read.given()}
    complete(door, given)
    given["cells"] = cells(run)
    if run.cells.labels is not None and run.cells.timezone is not None:
        given.setdefault("timezone", run.cells.timezone)
    given["select"] = Select(**run.select.given())
    return given


def source(run: Run) -> str | list[str]:
    """Return the configured source, one name or several."""
    if not run.source:
        raise InputError("source is needed: name the records or a run file.")
    return run.source[0] if len(run.source) == 1 else list(run.source)


def cells(run: Run) -> Cells | Labels:
    """Return what a cell is; refuse labels together with a place or slot."""
    given = run.cells.given()
    labels = given.pop("labels", None)
    if labels is not None:
        given.pop("timezone", None)  # labels have no slots, but hours, dates and days do
        if given:
            name = next(iter(given))
            raise InputError(
                f"labels and {name} cannot be combined: use one of them to define cells."
            )
        return Labels(*labels)
    if given.get("timeslot") == "none":
        given["timeslot"] = None
    return Cells(**given)


def plan_arguments(run: Run, door: Callable[..., object]) -> Arguments:
    """Return the keyword arguments of `plan`.

    What cannot be a price, a target, a split or a statistic is refused here, before records are
    read.
    """
    given = run.plan.given()
    if "epsilon" not in given and "target_error" not in given:
        raise InputError(
            "epsilon (in [plan], or --epsilon) is needed: the largest loss of any unit; or "
            "target_error (in [plan], or --target-error): the largest errors."
        )
    if "epsilon" in given and "target_error" in given:
        raise InputError(
            "epsilon and target_error (in [plan], or as options) cannot be combined: set the "
            "price, which determines the errors, or the errors, which determine the price."
        )
    if "epsilon" in given:
        to_positive_fraction(given["epsilon"], "epsilon")
    else:
        check_goals(given["target_error"])
    split_of(given.get("split"))
    known_statistics(given.get("statistics"), given.get("error", "separate"))
    if "mechanism" in given:
        given["mechanism"] = mechanism(given["mechanism"])
    return complete(door, given)


def check_goals(asked: str | dict[str, str]) -> None:
    """Refuse a target that is not above zero."""
    goals = asked if isinstance(asked, dict) else {"": asked}
    for name, goal in goals.items():
        to_positive_fraction(
            goal.removesuffix("%"), f"target_error of the {name}" if name else "target_error"
        )


def mechanism(name: str) -> ThresholdMechanism:
    """Return the mechanism of this name, which may end in ()."""
    kind = MECHANISMS.get(name.removesuffix("()"))
    if kind is None:
        raise InputError(f"mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}.")
    return kind()


def ledger_arguments(run: Run, door: Callable[..., object]) -> Arguments:
    """Return the keyword arguments of `Ledger`."""
    return complete(door, run.ledger.given())


def complete(door: Callable[..., object], given: Arguments) -> Arguments:
    """Return what was given to a door, or ask for all that it needs besides."""
    needed = [
        parameter.name
        for parameter in inspect.signature(door).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    missing = [name for name in needed if name not in given and home(name) is not None]
    if missing:
        begin = BEGIN if {"user", "value"} <= set(missing) else ""
        raise InputError(f"{_asked(missing)}{begin}.")
    return given


def home(name: str) -> str | None:
    """Return the section in which a library argument stands, or None."""
    return next((s for s, model in SECTIONS.items() if name in model.model_fields), None)


def _asked(missing: list[str]) -> str:
    asked = []
    for name in missing:
        section = home(name)
        assert section is not None  # noqa: S101  only names with a home are asked for
        asked.append(f"{name} (in [{section}], or {option(section, name)})")
    verb = "is" if len(asked) == 1 else "are"
    return f"{', '.join(asked)} {verb} needed"
