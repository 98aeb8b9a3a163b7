"""A run: the arguments of `read`, `plan`, `release` and `Ledger`, in the sections of a file.

A field has the name of the library's argument. The library has the defaults of omitted fields, so
there are none here. What each field is: fields.toml.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.config.fields import FIELDS, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    def standing_in(self, folder: Path) -> Run:
        """Return a copy of the run with paths relative to another folder."""
        return replace(self, folder=folder)

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
        return tuple(_moved(one, folder) for one in path)
    return path_from(folder, path)


def path_from(folder: Path, path: str) -> str:
    """Return a path that starts in the current folder as one that starts in `folder`."""
    if "://" in path or os.path.isabs(path):  # noqa: PTH117  an address is no path
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
    return "".join(
        char
        if char.isprintable()
        else f"\\u{ord(char):04x}"
        if ord(char) < 65536
        else f"\\U{ord(char):08x}"
        for char in quoted
    )
