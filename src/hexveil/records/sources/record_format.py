"""Declarations of records: how they are written, their versions, and both as lines of text.

What is cached is trusted as long as its declared version says that a file is the same; so versions
are part of what is published (`data.version` of a manifest).

Lines of names identify a request, so that different lists of names give different lines. A name
with a separator of the line, a quote or an unprintable character is quoted as JSON; other names
stay as they are, so that a line remains readable.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from hexveil.base.errors import InputError

EPOCH_UNITS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1}
"""Nanoseconds of the units in which times since 1970 may be counted."""
_DIRECTIVES = frozenset("dmyYHIMSfpbBjz%")
_DIRECTIVE = re.compile(r"%-?(.?)")
_MAX_STEPS = 8
_ENCODING = re.compile(r"utf-8(-sig)?|iso8859-\d+|cp125\d|koi8-[ru]")
"""Encodings in which a byte changes no other letter."""
_LARGEST = 10**9


@dataclass(frozen=True)
class RecordFormat:
    """How the records of a source are written, where that differs from the usual form.

    Parameters
    ----------
    decimal : "." or ","
        Decimal mark of values, latitudes and longitudes that are text.
    time_format : str, optional
        Format of times that are text, by the directives of `strptime`: "%d/%m/%Y %H:%M:%S".
        Other times then count as unusable. Or the unit of times that are numbers since 1970: "s",
        "ms", "us" or "ns".
    record_path : str, optional
        Keys, with dots, that lead to the list of records in each JSON document. Lists on the way
        are followed into each of their elements, and fields beside a list belong to each record in
        it; a field of the record itself goes first.
    encoding : str, optional
        Encoding of delimited text, such as "latin-1" or "windows-1252"; by default UTF-8. A record
        with a field that is no text in it counts as unparsable.
    max_unpacking : int
        How many times its size a packed file of text or JSON may unpack to (100 MB are always
        allowed); a file that exceeds it is refused.

    Raises
    ------
    InputError
        If a field is not of these.

    Examples
    --------
    >>> RecordFormat(decimal=",", time_format="%d.%m.%Y %H:%M").describe()
    'decimal=",", time_format=%d.%m.%Y %H:%M'
    """

    decimal: str = "."
    time_format: str | None = None
    record_path: str | None = None
    encoding: str | None = None
    max_unpacking: int = 200

    def __post_init__(self) -> None:
        if self.encoding is not None:
            # Each encoding has one name.
            object.__setattr__(self, "encoding", _encoding_name(self.encoding))
        times = self.max_unpacking
        if isinstance(times, bool) or not isinstance(times, int) or not 1 <= times < _LARGEST:
            raise InputError(
                f"max_unpacking must be a whole number of at least 1, and below {_LARGEST}, got "
                f"{times!r}."
            )
        if self.decimal not in (".", ","):
            raise InputError(f'decimal must be "." or ",", got {self.decimal!r}.')
        for name in ("time_format", "record_path"):
            text = getattr(self, name)
            if text is not None and (not isinstance(text, str) or not text.strip()):
                raise InputError(f"{name} must be text, got {text!r}.")
        if self.time_format is not None and self.time_format not in EPOCH_UNITS:
            _check_time_format(self.time_format)
        if not 1 <= len(self.record_steps or ("",)) <= _MAX_STEPS or "" in self.record_steps:
            raise InputError(
                f"record_path must be up to {_MAX_STEPS} keys with dots between them, like "
                f'"results" or "data.vehicles", got {self.record_path!r}.'
            )

    @property
    def record_steps(self) -> tuple[str, ...]:
        """Keys from a document to its records; none where each document is a record."""
        return () if self.record_path is None else tuple(self.record_path.split("."))

    @property
    def has_offset(self) -> bool:
        """Whether the declared format of times contains an offset from UTC."""
        return self.time_format in EPOCH_UNITS or "z" in _DIRECTIVE.findall(self.time_format or "")

    def describe(self) -> str:
        """Return the declared fields as one line of text, injectively; "" where none is."""
        usual = RecordFormat.__dataclass_fields__
        return join_pairs(
            {
                name: str(value)
                for name, value in vars(self).items()
                # What refuses a file makes no other records of it.
                if value != usual[name].default and name != "max_unpacking"
            }
        )


def _encoding_name(encoding: object) -> str | None:
    """Return the one name of an encoding, None for UTF-8; refuse unknown ones."""
    if isinstance(encoding, str):
        try:
            name = codecs.lookup(encoding).name
        except (LookupError, ValueError):
            name = ""
        if _ENCODING.fullmatch(name):
            return None if name.startswith("utf-8") else name
    raise InputError(
        f'encoding must be that of text, such as "latin-1" or "windows-1252", got {encoding!r}.'
    )


def _check_time_format(time_format: str) -> None:
    """Refuse a format that the engine does not know, or that does not determine a day."""
    directives = set(_DIRECTIVE.findall(time_format))
    unknown = sorted(directives - _DIRECTIVES)
    if unknown:
        raise InputError(
            f"time_format has the unknown directive %{unknown[0]}; available: "
            f"{', '.join(f'%{letter}' for letter in sorted(_DIRECTIVES))}."
        )
    has_day = "j" in directives or ("d" in directives and directives & set("mbB"))
    if not directives & set("yY") or not has_day:
        raise InputError(
            "time_format must contain a year, a month and a day, for example "
            '"%d/%m/%Y %H:%M:%S"; of numbers since 1970 it is "s", "ms", "us" or "ns"; got '
            f"{time_format!r}."
        )
    if ("I" in directives) != ("p" in directives):
        raise InputError(
            "time_format must contain %I and %p together: hours of 1 to 12, and AM or PM, got "
            f"{time_format!r}."
        )


PLAIN = RecordFormat()
"""The usual form: nothing is declared."""


Version = str | Mapping[str, str]
"""One version for all files, or versions by the names or patterns of files."""


@dataclass(frozen=True)
class Versions:
    """Versions by patterns of file names; the first that fits counts.

    Attributes
    ----------
    declared : tuple of (str, str)
        Pattern and version; a pattern "" is for all files.

    Examples
    --------
    >>> days = Versions.parse({"2026-11-03.parquet": "2", "*.parquet": "1"})
    >>> days.number("/data/2026-11-03.parquet"), days.number("/data/2026-11-04.parquet")
    (0, 1)
    >>> days.describe([1])
    '*.parquet=1'
    """

    declared: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, version: object) -> Versions:
        """Return the versions that a caller declared."""
        by_file = isinstance(version, Mapping)
        pairs = list(version.items()) if isinstance(version, Mapping) else [("", version)]
        if not pairs or not all(_is_text(t) and (_is_text(n) or not by_file) for n, t in pairs):
            raise InputError(
                'version must be text, like "2026-11", or texts by the names of files, like '
                '{"2026-11-*.parquet": "1"}.'
            )
        return cls(tuple((str(name), str(text)) for name, text in pairs))

    def number(self, path: str) -> int:
        """Return which of the declarations is that of a file."""
        for number, (pattern, _) in enumerate(self.declared):
            # match compares from the right, so that a pattern need not know where the folder lies.
            if not pattern or PurePath(path).match(pattern):
                return number
        raise InputError(
            f"version: none is declared for the file {PurePath(path).name!r}; name it, or a "
            "pattern that it fits."
        )

    def describe(self, used: Iterable[int]) -> str:
        """Return the declared versions of the used files as a line."""
        return join_pairs((self.declared[number] for number in sorted(set(used))), "; ")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


NOT_DECLARED = "not declared"
"""Placeholder for a text that was not given."""
_MARKS = frozenset('",;=\\')


def quoted(name: str) -> str:
    r"""Return a name as it stands in a line: unchanged, or quoted as JSON.

    Examples
    --------
    >>> quoted("vehicle id"), quoted("a, b"), quoted(""), quoted("not declared")
    ('vehicle id', '"a, b"', '""', '"not declared"')
    """
    # Blanks at the ends would vanish where a line is split at its separators.
    is_plain = name.isprintable() and name.strip() == name and name not in ("", NOT_DECLARED)
    return name if is_plain and _MARKS.isdisjoint(name) else json.dumps(name)


def join_names(names: Iterable[str]) -> str:
    """Join names into a line.

    Examples
    --------
    >>> join_names(["bus", "a, b"])
    'bus, "a, b"'
    """
    return ", ".join(map(quoted, names))


def join_pairs(pairs: Mapping[str, str] | Iterable[tuple[str, str]], mark: str = ", ") -> str:
    """Join pairs into a line of key=value; a value with an empty key stands alone.

    Examples
    --------
    >>> join_pairs({"user": "bus", "value": "v=1"})
    'user=bus, value="v=1"'
    """
    items = pairs.items() if hasattr(pairs, "items") else pairs
    return mark.join(f"{quoted(k)}={quoted(v)}" if k else quoted(v) for k, v in items)
