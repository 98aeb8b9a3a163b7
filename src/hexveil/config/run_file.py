"""A run: the arguments of `read`, `plan`, `release` and `Ledger`, in the sections of a TOML file.

A field has the name of the library's argument. The library has the defaults of omitted fields, so
there are none here. What each field is: fields.toml.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from hexveil.base.errors import InputError
from hexveil.config.fields import FIELDS, SECTIONS, option, read_value, section_of

Key = tuple[str, str]
"""Section and name of a field."""
_EXACT = ("number", "numbers", "bounds by column", "number by column")
_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d+)?")


@dataclass(frozen=True)
class Section:
    """Fields of a section that were given; the others of the section are None."""

    name: str
    given: Mapping[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  of the kind of the field
        if (self.__dict__.get("name"), name) not in FIELDS:
            raise AttributeError(name)
        return self.given.get(name)

    def explicit_fields(self) -> dict[str, Any]:
        """Return the fields that were given, as keyword arguments."""
        return {name: self.given[name] for name in sorted(self.given)}


@dataclass(frozen=True)
class Run:
    """One run, as the file and the command line describe it.

    Attributes
    ----------
    source : tuple of str or None
    sections : mapping of str to Section
        Those with fields; each section is also an attribute of its name.
    folder : Path
        Folder of the run file, to which its paths are relative, or the current folder. It is not
        part of the run: equal files are equal requests.
    """

    source: tuple[str, ...] | None = None
    sections: Mapping[str, Section] = field(default_factory=dict)
    folder: Path = field(default=Path(), compare=False)

    def __getattr__(self, name: str) -> Section:
        if name not in SECTIONS:
            raise AttributeError(name)
        return self.sections.get(name) or Section(name)

    def with_fields(self, section: str, **fields: object) -> Run:
        """Return a copy of the run with some fields of a section changed."""
        return self.with_section(section, {**getattr(self, section).given, **fields})

    def with_section(self, section: str, fields: Mapping[str, object]) -> Run:
        """Return a copy of the run with these fields alone in a section."""
        return replace(self, sections={**self.sections, section: Section(section, fields)})

    def fields(self) -> dict[Key, Any]:
        """Return the fields that were given, by section and name, in the order of the sections."""
        given: dict[Key, Any] = {("", "source"): self.source}
        for section in SECTIONS:
            for name, value in getattr(self, section).explicit_fields().items():
                given[section, name] = value
        return given


def is_area_file(written: tuple[str, ...]) -> bool:
    """Return whether an area is written as the name of a GeoJSON file."""
    return len(written) == 1 and written[0].lower().endswith((".geojson", ".json"))


def run_file_text(run: Run, changes: Mapping[Key, object], folder: Path) -> str:
    """Return the text of a run file with the fields of a run, some of them changed.

    Parameters
    ----------
    run : Run
        Its paths start in the current folder.
    changes : mapping of (section, field) to value
        They go before the fields of the run.
    folder : Path
        Folder of the new file, in which its paths start.
    """
    fields = run.fields() | dict(changes)
    for key, value in fields.items():
        is_area = key == ("cells", "area") and is_area_file(value)
        if value is not None and (FIELDS[key].is_path or is_area):
            fields[key] = _moved(value, folder)
    lines = [f"source = {source_toml(fields.pop(('', 'source')))}"]
    for section in SECTIONS:
        inside = {key: value for key, value in fields.items() if key[0] == section}
        lines += ["", f"[{section}]"] if inside else []
        lines += [f"{key[1]} = {to_toml(key, value)}" for key, value in inside.items()]
    return "\n".join(lines) + "\n"


def toml_lines(changes: Mapping[Key, object]) -> list[str]:
    """Return fields as lines of a run file with dotted keys.

    Examples
    --------
    >>> toml_lines({("cells", "resolution"): 6, ("cells", "timeslot"): "1h"})
    ['cells.resolution = 6', 'cells.timeslot = "1h"']
    """
    return [f"{key[0]}.{key[1]} = {to_toml(key, value)}" for key, value in changes.items()]


def source_toml(source: Any) -> str:  # noqa: ANN401  one path or several
    """Return the source of a run in TOML: a single path without brackets."""
    is_single = isinstance(source, (list, tuple)) and len(source) == 1
    return to_toml(("", "source"), source[0] if is_single else source)


def _moved(path: Any, folder: Path) -> Any:  # noqa: ANN401  one path or several
    """Return a path of the current folder as one that starts in another folder."""
    if isinstance(path, (list, tuple)):
        return tuple(_moved(entry, folder) for entry in path)
    return path_from(folder, path)


def path_from(folder: Path, path: str) -> str:
    """Return a path that starts in the current folder as one that starts in `folder`."""
    if not path.strip() or "://" in path or os.path.isabs(path):  # noqa: PTH117  an address is no path
        return path
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # another drive
        return os.path.abspath(path)  # noqa: PTH100  as relpath


def to_toml(key: Key, value: Any) -> str:  # noqa: ANN401  of any kind of field
    """Return a checked value of a field in TOML; a number stays as exact as it was written."""
    # Before numbers, because a bool is an int in Python.
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{quote(k)} = {to_toml(key, v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(to_toml(key, item) for item in value)}]"
    return value if FIELDS[key].kind in _EXACT and _NUMBER.fullmatch(value) else quote(value)


def quote(text: str) -> str:
    """Return text as a string of TOML, without a character that is not seen."""
    # A string of JSON is one of TOML as well, but for characters that are not printable.
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)


# ---- loading ----

Raw = dict[str, Any]
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
    for (section, name), value in (overrides or {}).items():
        table = raw.setdefault(section, {}) if section else raw
        if isinstance(table, dict):
            # An option starts in the current folder, a field of the file in the folder of the file.
            is_moved = folder != Path() and isinstance(value, str) and FIELDS[section, name].is_path
            table[name] = path_from(folder, value) if is_moved else value  # type: ignore[arg-type]
            # A price on the command line replaces the targets of the file, and vice versa.
            for replaced in LIMITS if section == "plan" and name in LIMITS else ():
                if (section, replaced) not in (overrides or {}):
                    table.pop(replaced, None)
    _refuse_placeholders(raw, file_name)
    return replace(checked(raw, file_name, overrides or ()), folder=folder)


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
    return Run(source, sections)


def _read(key: Key, value: object, origin: str, options: Collection[Key]) -> object:
    """Return the value of a field; a refusal names its option, or its place in the file."""
    try:
        return read_value(FIELDS[key], value)
    except ValueError as error:
        in_file = f"{origin}: {f'[{key[0]}] ' if key[0] else ''}{key[1]}"
        raise InputError(f"{option(*key) if key in options else in_file} {error}.") from None


def _parsed(path: Path) -> Raw:
    try:
        # Decimals keep 0.1 one tenth: as a double it would be another epsilon.
        return tomllib.loads(path.read_text("utf-8"), parse_float=Decimal)
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
    # A whole number of thousands of digits, or an exponent beyond all decimals.
    except (ValueError, InvalidOperation):
        failure = f"{path} contains a number with too many digits; use fewer."
    # Outside of the handlers: an error about letters holds the whole file.
    raise InputError(failure)


def _in_toml(message: str) -> str:
    """Return the parser's message without the key that it may quote: it could be a record."""
    if not _QUOTES_KEY.match(message):
        return message
    return f"a key appears twice{message[message.rfind(' (') :]}"


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
