"""Fields of a run file, as fields.toml states them: for options, help, refusals and drafts.

Help and completion read these at every call, so nothing here loads a library; values are checked
by `field_types`.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import NamedTuple

SHAPES = {
    "text": "TEXT", "names": "TEXT,...", "words": "TEXT,...", "lists": "TEXT,...;...",
    "paths": "PATH", "choice": "TEXT", "version": "TEXT", "switch": "SWITCH",
    "number": "NUMBER", "integer": "NUMBER", "share": "NUMBER", "numbers": "NUMBER,...",
    "columns": "TEXT+", "text by column": "[COLUMN=]TEXT+", "number by column": "[COLUMN=]NUMBER+",
    "integer by column": "[COLUMN=]NUMBER+", "bounds by column": "[COLUMN=]NUMBER,...+",
    "goals": "[NAME=]NUMBER+", "weights": "NAME=NUMBER,...",
}  # fmt: skip
"""How a value of each kind is written; with "+" it may be given several times, once for each
statistic or value column."""


class RunField(NamedTuple):
    """A field of a run file.

    Attributes
    ----------
    kind : str
        Of its values: see `SHAPES`.
    description : str
    default : str, optional
        Of the library.
    option : str
        Option that people type for it, and its help; "" where it is given by --set alone.
    example, note : str
        For a draft: a value in TOML, and text after the description; "" where it has none.
    draft : str, optional
        Value that a draft proposes for any records, in TOML.
    is_path : bool
        Whether it is a path, relative to the folder of the file.
    """

    kind: str
    description: str
    default: str | None = None
    option: str = ""
    example: str = ""
    note: str = ""
    draft: str | None = None
    is_path: bool = False

    @property
    def shape(self) -> str:
        """How a value is written, such as "NUMBER,..."."""
        return SHAPES[self.kind]

    @property
    def is_repeated(self) -> bool:
        """Whether the field may be given several times."""
        return self.shape.endswith("+")

    @property
    def full_description(self) -> str:
        """The description with the default."""
        return f"{self.description} [default: {self.default}]" if self.default else self.description


_TABLE = tomllib.loads((files(__package__) / "fields.toml").read_text("utf-8"))
_SECTIONS = {"": {"source": _TABLE.pop("source")}} | _TABLE
ABOUT: dict[str, str] = {section: table.pop("about") for section, table in _TABLE.items()}
"""What each section is about."""
FIELDS = {
    (section, name): RunField(**entry)
    for section, table in _SECTIONS.items()
    for name, entry in table.items()
}
"""Every field by (section, name); section "" is the top of the file."""
SECTIONS: dict[str, tuple[str, ...]] = {section: tuple(table) for section, table in _TABLE.items()}
"""Names of the fields of each section."""
OPTIONS = {key: tuple(field.option.split(" ", 1)) for key, field in FIELDS.items() if field.option}
"""Fields that have an option of their own, and its help; --set gives every field."""


def option(section: str, name: str) -> str:
    """Return how a field is given on the command line.

    Examples
    --------
    >>> option("plan", "epsilon"), option("read", "repeats")
    ('--epsilon', '--set read.repeats')
    """
    typed = OPTIONS.get((section, name))
    return typed[0] if typed else f"--set {field_name(section, name)}"


def field_name(section: str, name: str) -> str:
    """Return the name of a field with its section, as --set takes it."""
    return f"{section}.{name}" if section else name


def section_of(name: str) -> str | None:
    """Return the section that contains a field, or None."""
    return next((section for section, names in SECTIONS.items() if name in names), None)
