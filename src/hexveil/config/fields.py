"""Fields of a run file: their shapes, descriptions and options, without any library.

Help and completion read these at every call; types are checked by `run_file`.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import NamedTuple


class RunField(NamedTuple):
    """Shape, description and default of a field.

    Attributes
    ----------
    shape : str
        Such as "NUMBER,...", or "SWITCH"; with "+" it may be given several times, once for each
        statistic or value column.
    description : str
    default : str, optional
        Of the library.
    """

    shape: str
    description: str
    default: str | None = None

    @property
    def is_repeated(self) -> bool:
        """Whether the field may be given several times."""
        return self.shape.endswith("+")

    @property
    def full_description(self) -> str:
        """The description with the default."""
        return f"{self.description} [default: {self.default}]" if self.default else self.description


def _read_fields() -> dict[tuple[str, str], RunField]:
    """Return the fields of fields.toml."""
    content = tomllib.loads((files(__package__) / "fields.toml").read_text("utf-8"))
    sections = {"": {"source": content.pop("source")}} | content
    return {
        (section, name): RunField(*entry)
        for section, fields in sections.items()
        for name, entry in fields.items()
    }


FIELDS = _read_fields()
"""Every field by (section, name); section "" is the top of the file."""
OPTIONS = {
    ("columns", "user"): ("--user", "Column with the id of the user, such as the bus."),
    ("columns", "value"): ("--value", "Column with the value; repeat it for several."),
    ("columns", "lat"): ("--lat", "Column with the latitude, in degrees."),
    ("columns", "lon"): ("--lon", "Column with the longitude, in degrees."),
    ("columns", "location"): ("--location", "Column with both, instead of lat and lon."),
    ("columns", "time"): ("--time", "Column with the time, or two: day and time."),
    ("values", "bounds"): ("--bounds", "Smallest and largest value, such as 0,65."),
    ("cells", "resolution"): ("--resolution", "H3 resolution, 0 (coarse) to 15 (fine)."),
    ("cells", "timeslot"): ("--timeslot", 'Length of a slot, "15min" to "1d", or "none".'),
    ("cells", "timezone"): ("--timezone", 'Local clock, such as "Europe/Warsaw".'),
    ("privacy", "protect"): ("--protect", '"values", or "presence": also who was where.'),
    ("plan", "epsilon"): ("--epsilon", "Privacy price: the largest loss of any unit."),
    ("release", "out"): ("--out", "New folder for the map."),
    ("ledger", "url"): ("--ledger", "SQLite file, or postgresql://user@host/name."),
    ("ledger", "dataset"): ("--dataset", "Name of the data set in the ledger."),
}
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
