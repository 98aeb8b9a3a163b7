"""Text of a run file, from the fields of a run."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from hexveil.config import field_types
from hexveil.config.arguments import is_area_file
from hexveil.config.run_file import PATH_FIELDS, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hexveil.config.run_file import Run

_EXACT = [
    kind | None
    for kind in (
        field_types.Exact,
        field_types.Numbers,
        field_types.ColumnBounds,
        field_types.ColumnNumber,
    )
]
_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d+)?")


def run_file_text(run: Run, changes: Mapping[tuple[str, str], object], folder: Path) -> str:
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
    fields: dict[tuple[str, str], Any] = {("", "source"): run.source}
    for section in SECTIONS:
        for name, value in getattr(run, section).explicit_fields().items():
            fields[section, name] = value
    fields |= changes
    for key in PATH_FIELDS:
        if fields.get(key) is not None:
            fields[key] = _moved(fields[key], folder)
    area = fields.get(("cells", "area"))
    if area is not None and is_area_file(area):
        fields["cells", "area"] = _moved(area, folder)
    lines = [f"source = {to_toml(('', 'source'), _single(fields.pop(('', 'source'))))}"]
    for section in SECTIONS:
        inside = {name: value for (of, name), value in fields.items() if of == section}
        if inside:
            lines += ["", f"[{section}]"]
            lines += [f"{name} = {to_toml((section, name), v)}" for name, v in inside.items()]
    return "\n".join(lines) + "\n"


def toml_lines(changes: Mapping[tuple[str, str], object]) -> list[str]:
    """Return fields as lines of a run file with dotted keys.

    Examples
    --------
    >>> toml_lines({("cells", "resolution"): 6, ("cells", "timeslot"): "1h"})
    ['cells.resolution = 6', 'cells.timeslot = "1h"']
    """
    return [f"{key[0]}.{key[1]} = {to_toml(key, value)}" for key, value in changes.items()]


def _single(source: Any) -> Any:  # noqa: ANN401  one path or several
    return source[0] if isinstance(source, (list, tuple)) and len(source) == 1 else source


def _moved(path: Any, folder: Path) -> Any:  # noqa: ANN401  one path or several
    """Return a path of the current folder as one that starts in another folder."""
    if isinstance(path, (list, tuple)):
        return tuple(_moved(one, folder) for one in path)
    if "://" in path or os.path.isabs(path):  # noqa: PTH117  an address is no path
        return path
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # another drive
        return os.path.abspath(path)  # noqa: PTH100  as relpath


def to_toml(key: tuple[str, str], value: Any) -> str:  # noqa: ANN401  of any kind of field
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
    section, name = key
    exact = section in SECTIONS and SECTIONS[section].model_fields[name].annotation in _EXACT
    return value if exact and _NUMBER.fullmatch(value) else quote(value)


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
