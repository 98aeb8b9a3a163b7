"""Fields of a run file, as fields.toml states them: for options, help, refusals and drafts.

Help and completion read these at every call, so nothing here loads a library. Values of each kind
are also readable from text as in "0,65". Numbers stay exact: they are handed on as they were
written, so 0.1 means one tenth.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar


class RunField(NamedTuple):
    """A field of a run file.

    Attributes
    ----------
    kind : str
        Of its values: see `KINDS`.
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
    choices : tuple of str
        Words of which it takes one.
    """

    kind: str
    description: str
    default: str | None = None
    option: str = ""
    example: str = ""
    note: str = ""
    draft: str | None = None
    is_path: bool = False
    choices: tuple[str, ...] = ()

    @property
    def shape(self) -> str:
        """How a value is written, such as "NUMBER,..."."""
        return KINDS[self.kind][0]

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


# ---- kinds of value ----

T = TypeVar("T")


def _text(value: object) -> str:
    if isinstance(value, str) and "\0" in value:
        raise ValueError("must be text without a null character")  # no name of a file holds one
    if isinstance(value, str) and value.strip():
        return value
    raise ValueError(f"must be text, got {_text_of(value)}")


def _number(value: object) -> str:
    """Return a number as exact text; the library judges its size."""
    # A bool is an int in Python, and no number in a file.
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return _text_of(value)
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise ValueError(f"must be a number, got {_text_of(value)}")


def _integer(value: object) -> int:
    try:
        return int(_number(value))
    except ValueError:
        raise ValueError(f"must be a whole number, got {_text_of(value)}") from None


def _share(value: object) -> float:
    try:
        # A share limits no loss, so a double is exact enough.
        return float(_number(value))
    except ValueError:
        raise ValueError(f"must be a number from 0 to 1, got {_text_of(value)}") from None


def _switch(value: object) -> bool:
    # Booleans alone: the text "false" would count as true.
    if isinstance(value, bool):
        return value
    raise ValueError(f"must be true or false, got {_text_of(value)}")


def _text_of(value: object) -> str:
    """Return a value as text; refuse a number of so many digits that Python does not write it."""
    try:
        return str(value) if isinstance(value, Decimal) else repr(value)
    except ValueError:
        raise ValueError("contains a number with too many digits; use fewer") from None


def _items(value: object) -> list[object]:
    """Return a list as it is, and text as its comma-separated parts."""
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    return as_list(value)


def as_list(value: object) -> list[object]:
    """Return a list as it is, and a single value as a list of one."""
    # TOML gives lists, options of the command tuples.
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _paths(value: object) -> tuple[str, ...]:
    """Return paths; a comma is part of a name."""
    return tuple(_text(item) for item in as_list(value))


def _each(read: Callable[[object], T]) -> Callable[[object], tuple[T, ...]]:
    """Return a reader of several values, in a list or apart by commas."""
    return lambda value: tuple(read(item) for item in _items(value))


def _column_names(value: object) -> str | tuple[str, ...]:
    """Return a column, or several; a comma is part of a name."""
    names = _paths(value)
    if len(set(names)) < len(names):
        raise ValueError("names a column twice")
    return names[0] if len(names) == 1 else names


def _by_name(texts: Iterable[object]) -> dict[str, str]:
    """Return the statements of texts like "pm25=0,500", by name; a name may hold a sign."""
    stated: dict[str, str] = {}
    for text in texts:
        name, _, value = (part.strip() for part in str(text).rpartition("="))
        if not name:
            raise ValueError(f"must name what {value} is for, as in NAME={value}")
        if name in stated:
            raise ValueError(f"states {name} twice; use one")
        if not value:
            raise ValueError(f"names {name} without a value")
        stated[name] = value
    return stated


def _table(read: Callable[[object], T], stated: Mapping[Any, object]) -> dict[str, T]:
    """Return a table, each of its values read."""
    return {_text(name): read(value) for name, value in stated.items()}


def _or_by_column(read: Callable[[object], object]) -> Callable[[object], object]:
    """Return a reader of one value for all value columns, or of one for each."""

    def read_either(value: object) -> object:
        if isinstance(value, dict):
            return _table(read, value)
        items = as_list(value)
        if items and all(isinstance(item, str) and "=" in item for item in items):
            return _table(read, _by_name(items))
        # An option that may be repeated is a list.
        is_single = isinstance(value, list) and len(value) == 1
        return read(items[0] if is_single else value)

    return read_either


def _lists(value: object) -> tuple[tuple[str, ...], ...] | dict[str, tuple[str, ...]]:
    """Return lists of text: of one column alone, or one per column, in order or by name."""
    lists: Any = list(value.values()) if isinstance(value, dict) else value
    nested = isinstance(lists, (list, tuple)) and [isinstance(row, (list, tuple)) for row in lists]
    if nested is False:
        raise ValueError('must be a list, or one for each label, such as ["4", "15"]')
    if not isinstance(value, dict) and not any(nested):
        return (_names(lists),)
    if not all(nested):
        raise ValueError('must have a list for each label, such as [["4", "15"], ["7", "8"]]')
    return _table(_names, value) if isinstance(value, dict) else tuple(map(_names, lists))


def _goals(value: object) -> str | dict[str, str | dict[str, str]]:
    """Return a target as exact text, or one per statistic or value column.

    Several come as a table, as "mean=2,variance=5%", or as such texts in a list. A column may have
    a table of its own.
    """
    if isinstance(value, dict):
        return {
            str(name): _table(_number, goal) if isinstance(goal, dict) else _number(goal)
            for name, goal in value.items()
        }
    # A comma may be part of the name of a column.
    entries = [
        entry
        for item in as_list(value)
        for entry in ([item] if str(item).count("=") == 1 else _items(item))
    ]
    if len(entries) == 1 and "=" not in str(entries[0]):
        return _number(entries[0])
    if not all("=" in str(entry) for entry in entries):
        raise ValueError(
            "must be one number, or one per statistic or value column, for example "
            f"mean=2,variance=5%; got {', '.join(map(str, entries))}"
        )
    return dict(_by_name(entries))


def _weights(value: object) -> dict[str, str]:
    """Return weights by name, from a table or a text like "moments=1"."""
    return _table(_number, value if isinstance(value, dict) else _by_name(_items(value)))


def _version(value: object) -> str | dict[str, str]:
    """Return a version, or versions by the names of files."""
    return _table(_text, value) if isinstance(value, dict) else _text(value)


_names = _each(_text)
_numbers = _each(_number)

KINDS: dict[str, tuple[str, Callable[[object], object]]] = {
    "text": ("TEXT", _text),
    "choice": ("TEXT", _text),
    "names": ("TEXT,...", _names),
    # As the library reads them: 7-9 is a range, a date is ISO.
    "words": ("TEXT,...", _each(str)),
    "lists": ("TEXT,...;...", _lists),
    "paths": ("PATH", _paths),
    "version": ("TEXT", _version),
    "switch": ("SWITCH", _switch),
    "number": ("NUMBER", _number),
    "integer": ("NUMBER", _integer),
    "share": ("NUMBER", _share),
    "numbers": ("NUMBER,...", _numbers),
    "columns": ("TEXT+", _column_names),
    "text by column": ("[COLUMN=]TEXT+", _or_by_column(_text)),
    "number by column": ("[COLUMN=]NUMBER+", _or_by_column(_number)),
    "integer by column": ("[COLUMN=]NUMBER+", _or_by_column(_integer)),
    "bounds by column": ("[COLUMN=]NUMBER,...+", _or_by_column(_numbers)),
    "goals": ("[NAME=]NUMBER+", _goals),
    "weights": ("NAME=NUMBER,...", _weights),
}
"""How a value of each kind is written, and its check and conversion, which raises ValueError; with
"+" it may be given several times, once for each statistic or value column."""


def read_value(field: RunField, value: object) -> object:
    """Return the value of a field as the library takes it; ValueError with the reason if none."""
    if field.choices and value not in field.choices:
        raise ValueError(f"must be one of {', '.join(field.choices)}, got {_text_of(value)}")
    return KINDS[field.kind][1](value)
