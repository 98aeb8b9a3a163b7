"""From a TOML file and overriding options to a checked run, or one sentence that says why not."""

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
from hexveil.config.run_file import SECTIONS, Run, option

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Raw = dict[str, Any]
_PATHS = (
    ("", "source"),
    ("read", "cache"),
    ("read", "scratch"),
    ("release", "out"),
    ("release", "context"),
    ("ledger", "url"),
    ("ledger", "key"),
)
_INSTEAD = {"epsilon": "target_error", "target_error": "epsilon"}
"""An option of [plan] takes the place of this field of the file: the question is turned round."""

_QUOTES_KEY = re.compile("Cannot (declare|mutate|redefine)|Duplicate inline")
"""How the parser's messages begin that quote a key."""


def load(source: str | None, overrides: Mapping[tuple[str, str], object] | None = None) -> Run:
    """Return the run of a TOML file, or of a data source, with some fields overridden.

    Paths in a file start in the file's folder (`Run.folder`), whose name is no part of the run:
    the same file is the same request wherever it is read from.

    Parameters
    ----------
    source : str or None
        A file that ends in .toml, or where the records are.
    overrides : mapping of (section, field) to value
        Section "" is the top of the file. Paths start in the current folder. Of epsilon and
        target_error the one that is given here takes the place of the other in the file.

    Raises
    ------
    InputError
        If the file cannot be read, a section or field is unknown or of the wrong kind, or a field
        is still to be filled in.
    """
    raw: Raw = {} if source is None else {"source": [source]}
    folder, where = Path(), "command line"
    if source is not None and source.lower().endswith(".toml"):
        file = Path(source)
        raw, folder, where = _parsed(file), file.parent, file.name
    for (section, field), value in (overrides or {}).items():
        table = raw.setdefault(section, {}) if section else raw
        if isinstance(table, dict):
            table[field] = _from(folder, value) if (section, field) in _PATHS else value
            other = _INSTEAD.get(field) if section == "plan" else None
            if other is not None and (section, other) not in (overrides or {}):
                table.pop(other, None)
    placeholders.refuse(raw, where)
    return checked(raw, where, overrides or ()).standing_in(folder)


def _from(folder: Path, path: object) -> object:
    """Return a path that starts in the current folder as one that starts in `folder`."""
    if folder == Path() or not isinstance(path, str) or "://" in path or Path(path).is_absolute():
        return path
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # another drive
        return str(Path(path).absolute())


def checked(raw: Raw, where: str, options: Collection[tuple[str, str]] = ()) -> Run:
    """Return the run that nested plain values describe.

    `where` they stand is for messages, which name an option for what came from one.
    """
    try:
        return Run.model_validate(raw)
    except ValidationError as error:
        known = set(raw).intersection(Run.model_fields)
        failure = InputError(_sentence(error, where, options, known))
    # Outside of the handler: the error quotes what stands there, and would be ours' context.
    raise failure


def _parsed(path: Path) -> Raw:
    try:
        return tomllib.loads(path.read_text("utf-8"), parse_float=_decimal)
    except (OSError, ValueError, RecursionError) as error:
        failure = _unreadable(path, error)
    # Outside of the handler: an error about letters holds the whole file.
    raise failure


def _unreadable(path: Path, error: Exception) -> InputError:
    """Return the sentence that says why a run file cannot be read."""
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


def _in_toml(said: str) -> str:
    """Return what the parser says, without the key that it may quote: records can stand there."""
    if not _QUOTES_KEY.match(said):
        return said
    return f"a key appears twice{said[said.rfind(' (') :]}"


def _decimal(text: str) -> Decimal:
    """Return a number exactly, or raise ValueError where its exponent is beyond all decimals."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("too long") from None


def _sentence(
    error: ValidationError,
    where: str,
    options: Collection[tuple[str, str]],
    known: Collection[str],
) -> str:
    """Say the first thing that is wrong, and what would be right.

    `known` are the sections and fields at the file's top that there are in a run file.
    """
    first = error.errors(include_url=False)[0]
    place = tuple(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden" and not known and not _near(place[-1], Run.model_fields):
        return (
            f"{where}: contains no section or field of a run file, so it may hold records and is "
            f"not shown; a run file has {', '.join(Run.model_fields)}."
        )
    if first["type"] == "extra_forbidden":
        return f"{where}: {_unknown(place)}"
    if first["type"] != "value_error":
        return f"{where}: [{place[0]}] must be a section of fields."
    wrong = first["ctx"]["error"]
    if place[:2] in options:
        return f"{option(*place[:2])} {wrong}."
    name = f"[{place[0]}] {place[1]}" if len(place) > 1 else place[0]
    return f"{where}: {name} {wrong}."


def _unknown(place: tuple[str, ...]) -> str:
    *sections, field = place
    section = sections[0] if sections else ""
    here = list(SECTIONS[section].model_fields) if section else list(Run.model_fields)
    subject = f"[{section}] has no field {field!r}" if section else f"there is no {field!r}"
    near = _near(field, here)
    if near:
        return f"{subject}; did you mean {near!r}?"
    if field == "source":
        return f"{subject}; it belongs at the top of the file, above all sections."
    home = [name for name, model in SECTIONS.items() if field in model.model_fields]
    if home:
        return f"{subject}; it belongs in [{home[0]}]."
    return f"{subject}; available: {', '.join(here)}."


def _near(field: str, known: Collection[str]) -> str | None:
    """Return the known name that was probably meant, if there is one."""
    return next(iter(difflib.get_close_matches(field, list(known), n=1)), None)
