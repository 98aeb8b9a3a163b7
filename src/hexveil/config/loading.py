"""Load a run from a TOML file and overriding options, or raise one clear error."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hexveil.base.errors import InputError
from hexveil.config import placeholders
from hexveil.config.fields import option
from hexveil.config.goal_names import check_baseline_names, named_goals
from hexveil.config.run_file import PATH_FIELDS, SECTIONS, Run

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Raw = dict[str, Any]
_INSTEAD = ("epsilon", "target_error", "cell_epsilon")
"""Fields of [plan] of which an option takes the place of the others in the file."""

_QUOTES_KEY = re.compile("Cannot (declare|mutate|redefine)|Duplicate inline")
"""How the parser's messages begin that quote a key."""


def load(source: str | None, overrides: Mapping[tuple[str, str], object] | None = None) -> Run:
    """Return the run of a TOML file, or of a data source, with some fields overridden.

    Paths in a file are relative to its folder (`Run.folder`), whose name is not part of the run:
    a file is the same request wherever it lies.

    Parameters
    ----------
    source : str or None
        A file that ends in .toml, or where the records are.
    overrides : mapping of (section, field) to value
        Section "" is the top of the file. Paths start in the current folder. Of epsilon,
        target_error and cell_epsilon the one given here takes the place of another in the file.

    Raises
    ------
    InputError
        If the file cannot be read, a section or field is unknown or of the wrong kind, or a field
        is still to be filled in.
    """
    raw: Raw = {} if source is None else {"source": [source]}
    folder, file_name = Path(), "command line"
    if source is not None and source.lower().endswith(".toml"):
        file = Path(source)
        raw, folder, file_name = _parsed(file), file.parent, file.name
    for (section, field), value in (overrides or {}).items():
        table = raw.setdefault(section, {}) if section else raw
        if isinstance(table, dict):
            # An option starts in the current folder, a field of the file in the folder of the file.
            table[field] = _from(folder, value) if (section, field) in PATH_FIELDS else value
            # A price on the command line replaces the targets of the file, and vice versa.
            for replaced in _INSTEAD if section == "plan" and field in _INSTEAD else ():
                if (section, replaced) not in (overrides or {}):
                    table.pop(replaced, None)
    placeholders.refuse(raw, file_name)
    return checked(raw, file_name, overrides or ()).standing_in(folder)


def _from(folder: Path, path: object) -> object:
    """Return a path that starts in the current folder as one that starts in `folder`."""
    if folder == Path() or not isinstance(path, str) or "://" in path or Path(path).is_absolute():
        return path
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # another drive
        return str(Path(path).absolute())


def checked(raw: Raw, origin: str, options: Collection[tuple[str, str]] = ()) -> Run:
    """Validate nested plain values as a run.

    `origin` names their source in messages; `options` are the fields that came from options.
    """
    try:
        return _with_named_goals(Run.model_validate(raw), origin, options)
    except ValidationError as error:
        known_names = set(raw).intersection(Run.model_fields)
        failure = InputError(_sentence(error, origin, options, known_names))
    # Outside of the handler: the error quotes what stands there, and would be ours' context.
    raise failure


def _with_named_goals(run: Run, origin: str, options: Collection[tuple[str, str]]) -> Run:
    """Return the run with its target errors by statistic or value column; refuse other names."""
    goals, value = run.plan.target_error, run.columns.value
    columns = (value,) if isinstance(value, str) else (value or ())
    field = "baseline_error"
    try:
        check_baseline_names(run.plan.baseline_error, columns)
        field = "target_error"
        if not isinstance(goals, dict):
            return run
        named = named_goals(goals, columns)
    except ValueError as error:
        raise InputError(_about(("plan", field), error, origin, options)) from None
    return run.model_copy(update={"plan": run.plan.model_copy(update={"target_error": named})})


def _parsed(path: Path) -> Raw:
    try:
        # Decimals keep 0.1 one tenth: as a double it would be another epsilon.
        return tomllib.loads(path.read_text("utf-8"), parse_float=_decimal)
    # A file may be nested more deeply than the parser can follow.
    except (OSError, ValueError, RecursionError) as error:
        failure = _unreadable(path, error)
    # Outside of the handler: an error about letters holds the whole file.
    raise failure


def _unreadable(path: Path, error: Exception) -> InputError:
    """Return the error for an unreadable run file."""
    if isinstance(error, FileNotFoundError):
        return InputError(f"there is no file {path}; check the name.")
    if isinstance(error, OSError):
        return InputError(f"{path} cannot be read: {error.strerror}.")
    if isinstance(error, UnicodeDecodeError):
        return InputError(f"{path} is not UTF-8 text; save it as UTF-8.")
    if isinstance(error, tomllib.TOMLDecodeError):
        return InputError(f"{path} is not valid TOML: {_in_toml(str(error))}.")
    if isinstance(error, RecursionError):
        return InputError(f"{path} is nested too deeply; a run file has sections with fields.")
    # A whole number of thousands of digits, which Python does not read.
    return InputError(f"{path} contains a number with too many digits; use fewer.")


def _in_toml(message: str) -> str:
    """Return the parser's message without the key that it may quote: it could be a record."""
    if not _QUOTES_KEY.match(message):
        return message
    return f"a key appears twice{message[message.rfind(' (') :]}"


def _decimal(text: str) -> Decimal:
    """Return a number exactly, or raise ValueError where its exponent is beyond all decimals."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("too long") from None


def _sentence(
    error: ValidationError,
    file_name: str,
    options: Collection[tuple[str, str]],
    known_names: Collection[str],
) -> str:
    """Describe the first problem and its correction.

    `known_names` holds the top-level names of the file that exist in a run file.
    """
    # The first alone: one mistake in a file often causes several.
    problem = error.errors(include_url=False)[0]
    place = tuple(str(key) for key in problem["loc"])
    if (
        problem["type"] == "extra_forbidden"
        and not known_names
        and not _closest_name(place[-1], Run.model_fields)
    ):
        return (
            f"{file_name}: contains no section or field of a run file, so it may hold records and "
            f"is not shown; a run file has {', '.join(Run.model_fields)}."
        )
    if problem["type"] == "extra_forbidden":
        return f"{file_name}: {_unknown(place)}"
    if problem["type"] != "value_error":
        return f"{file_name}: [{place[0]}] must be a section of fields."
    return _about(place[:2], problem["ctx"]["error"], file_name, options)


def _about(
    place: tuple[str, ...], reason: object, file_name: str, options: Collection[tuple[str, str]]
) -> str:
    """Return the sentence on a field: its option, or its place in the file."""
    if place in options:
        return f"{option(*place)} {reason}."
    name = f"[{place[0]}] {place[1]}" if len(place) > 1 else place[0]
    return f"{file_name}: {name} {reason}."


def _unknown(place: tuple[str, ...]) -> str:
    *sections, field = place
    section = sections[0] if sections else ""
    names = list(SECTIONS[section].model_fields) if section else list(Run.model_fields)
    subject = f"[{section}] has no field {field!r}" if section else f"there is no {field!r}"
    suggestion = _closest_name(field, names)
    if suggestion:
        return f"{subject}; did you mean {suggestion!r}?"
    if field == "source":
        return f"{subject}; it belongs at the top of the file, above all sections."
    home = [name for name, model in SECTIONS.items() if field in model.model_fields]
    if home:
        return f"{subject}; it belongs in [{home[0]}]."
    return f"{subject}; available: {', '.join(names)}."


def _closest_name(field: str, known_names: Collection[str]) -> str | None:
    """Return the closest known name, if any."""
    return next(iter(difflib.get_close_matches(field, list(known_names), n=1)), None)
