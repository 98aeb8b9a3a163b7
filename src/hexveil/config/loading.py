"""Load a run from a TOML file and overriding options, or raise one clear error."""

from __future__ import annotations

import difflib
import re
import tomllib
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.config.field_types import read_value
from hexveil.config.fields import FIELDS, SECTIONS, option, section_of
from hexveil.config.run_file import Key, Run, Section, path_from

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Raw = dict[str, Any]
Goals = dict[str, str | dict[str, str]]
GOALS = ("mean", "variance")
"""What a target error can be for; a deviation is reached through its variance."""
LIMITS = ("epsilon", "target_error")
"""Fields of [plan] of which a run has one: an option takes the place of the others in a file."""
FILL_IN = "FILL IN"
"""Placeholder of a draft in a field that only the holder of the records can fill in."""
_TOP_LEVEL = ("source", *SECTIONS)
_QUOTES_KEY = re.compile("Cannot (declare|mutate|redefine)|Duplicate inline")
"""How the parser's messages begin that quote a key."""


def load(source: str | None, overrides: Mapping[Key, object] | None = None) -> Run:
    """Return the run of a TOML file, or of a data source, with some fields overridden.

    Paths in a file are relative to its folder (`Run.folder`), whose name is not part of the run:
    a file is the same request wherever it lies.

    Parameters
    ----------
    source : str or None
        A file that ends in .toml, or where the records are.
    overrides : mapping of (section, field) to value
        Section "" is the top of the file. Paths start in the current folder. Of epsilon and
        target_error the one given here takes the place of the other in the file.

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
            is_moved = (
                folder != Path() and isinstance(value, str) and FIELDS[section, field].is_path
            )
            table[field] = path_from(folder, value) if is_moved else value  # type: ignore[arg-type]
            # A price on the command line replaces the targets of the file, and vice versa.
            for replaced in LIMITS if section == "plan" and field in LIMITS else ():
                if (section, replaced) not in (overrides or {}):
                    table.pop(replaced, None)
    _refuse_placeholders(raw, file_name)
    return checked(raw, file_name, overrides or ()).standing_in(folder)


def _refuse_placeholders(raw: Raw, file_name: str) -> None:
    """Refuse a draft with fields that are still to be filled in."""
    unfilled = [
        f"{field} (in [{section}])"
        for section, fields in raw.items()
        if isinstance(fields, dict)
        for field, value in fields.items()
        if value == FILL_IN
    ]
    if unfilled:
        verb = "is" if len(unfilled) == 1 else "are"
        raise InputError(
            f"{file_name}: {', '.join(unfilled)} {verb} not filled in yet: replace {FILL_IN!r} as "
            "the comment above it says."
        )


def checked(raw: Raw, origin: str, options: Collection[Key] = ()) -> Run:
    """Return the run of nested plain values; refuse the first that is none of a run's.

    `origin` names their source in messages; `options` are the fields that came from options.
    """
    values: dict[str, dict[str, Any]] = {}
    for section in ("", *SECTIONS):
        table = raw.get(section, {}) if section else raw
        if not isinstance(table, dict):
            raise InputError(f"{origin}: [{section}] must be a section of fields.")
        names = SECTIONS[section] if section else ("source",)
        values[section] = {
            name: _read((section, name), table[name], origin, options)
            for name in names
            if name in table
        }
        for name in table if section else ():
            if name not in names:
                raise InputError(_unknown(section, name, raw, origin))
    for name in raw:
        if name not in _TOP_LEVEL:
            raise InputError(_unknown("", name, raw, origin))
    source = values.pop("").get("source")
    sections = {name: Section(name, fields) for name, fields in values.items() if fields}
    run = Run(source, sections)
    _check_names(run, origin, options)
    return run


def _read(key: Key, value: object, origin: str, options: Collection[Key]) -> object:
    """Return the value of a field, checked."""
    try:
        return read_value(key[1], FIELDS[key], value)
    except ValueError as error:
        raise InputError(_about(key, error, origin, options)) from None


def _check_names(run: Run, origin: str, options: Collection[Key]) -> None:
    """Refuse assumed and target errors by a name that is no value column and no statistic."""
    value, goals, errors = run.columns.value, run.plan.target_error, run.plan.baseline_error
    columns = (value,) if isinstance(value, str) else (value or ())
    field, reason = "baseline_error", ""
    # Of one column alone the others of a run file for all of them are not read.
    for name in errors if isinstance(errors, dict) and len(columns) > 1 else ():
        if name not in columns:
            reason = f"must be for {', '.join(columns)}, got {name!r}"
    if not reason and isinstance(goals, dict):
        known = (*GOALS, *(run.plan.statistics or ()))
        field, reason = "target_error", _wrong_goal(goals, columns, known)
    if reason:
        raise InputError(_about(("plan", field), reason, origin, options))


def _wrong_goal(goals: Goals, columns: Sequence[str], known: Sequence[str]) -> str:
    """Return the mistake in targets by statistic, or by value column; "" for none."""
    if set(goals) <= {*known} and set(goals).isdisjoint(columns):
        return ""
    # Of one column alone the others of a run file for all of them are not read.
    is_alone = len(columns) == 1 and columns[0] in goals
    several = f", or each of {', '.join(columns)}" if len(columns) > 1 else ""
    for name, goal in goals.items():
        inner = {name: several} if name not in columns and not is_alone else {}
        if not inner and isinstance(goal, dict):
            inner = {part: f" in {name}" for part in goal if part not in GOALS}
        for unknown, place in inner.items():
            way_out = "; set a target for the variance instead" if unknown == "sd" else ""
            return f"must be for {', '.join(GOALS)}{place}, got {unknown!r}{way_out}"
    missing = next((column for column in columns if column not in goals), None)
    return (
        "" if missing is None else f"leaves out the value column {missing!r}; give it a target, too"
    )


def _parsed(path: Path) -> Raw:
    try:
        # Decimals keep 0.1 one tenth: as a double it would be another epsilon.
        return tomllib.loads(path.read_text("utf-8"), parse_float=_decimal)
    except FileNotFoundError:
        failure = f"there is no file {path}; check the name."
    except OSError as error:
        failure = f"{path} cannot be read: {error.strerror}."
    except UnicodeDecodeError:
        failure = f"{path} is not UTF-8 text; save it as UTF-8."
    except tomllib.TOMLDecodeError as error:
        failure = f"{path} is not valid TOML: {_in_toml(str(error))}."
    except RecursionError:
        failure = f"{path} is nested too deeply; a run file has sections with fields."
    # A whole number of thousands of digits, which Python does not read.
    except ValueError:
        failure = f"{path} contains a number with too many digits; use fewer."
    # Outside of the handlers: an error about letters holds the whole file.
    raise InputError(failure)


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


def _about(key: Key, reason: object, origin: str, options: Collection[Key]) -> str:
    """Return the sentence on a field: its option, or its place in the file."""
    if key in options:
        return f"{option(*key)} {reason}."
    return f"{origin}: {f'[{key[0]}] ' if key[0] else ''}{key[1]} {reason}."


def _unknown(section: str, field: str, raw: Raw, origin: str) -> str:
    """Return the sentence on a name that no run file has, with its correction."""
    if not set(raw) & {*_TOP_LEVEL} and not _closest_name(field, _TOP_LEVEL):
        return (
            f"{origin}: contains no section or field of a run file, so it may hold records and "
            f"is not shown; a run file has {', '.join(_TOP_LEVEL)}."
        )
    names = SECTIONS[section] if section else _TOP_LEVEL
    subject = f"[{section}] has no field {field!r}" if section else f"there is no {field!r}"
    suggestion, home = _closest_name(field, names), section_of(field)
    if suggestion:
        advice = f"did you mean {suggestion!r}?"
    elif field == "source":
        advice = "it belongs at the top of the file, above all sections."
    else:
        advice = f"it belongs in [{home}]." if home else f"available: {', '.join(names)}."
    return f"{origin}: {subject}; {advice}"


def _closest_name(field: str, known_names: Collection[str]) -> str | None:
    """Return the closest known name, if any."""
    return next(iter(difflib.get_close_matches(field, list(known_names), n=1)), None)
