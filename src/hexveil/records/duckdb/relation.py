"""Relations of records: their query, their columns, and hints on a missing column.

Names of columns are shown only where they cannot be records themselves. Also the types of columns,
names that the engine confuses, and columns that the files of a source have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from duckdb.sqltypes import DuckDBPyType

from hexveil.base.errors import MAX_LISTED, ColumnError, InputError
from hexveil.records.duckdb.expressions import JsonColumn
from hexveil.records.duckdb.formats.delimited_text import TextSource
from hexveil.records.duckdb.formats.json_documents import DOCUMENT, document_schema
from hexveil.records.duckdb.session import Session
from hexveil.records.sources.columns import (
    ColumnRef,
    ColumnType,
    Schema,
    TypeName,
    all_names,
    find_column,
    record_lists,
    resolve,
    resolve_location,
)
from hexveil.records.sources.headers import MARKS, is_confirmed
from hexveil.records.sources.source_files import Files, safe_path
from hexveil.records.sources.vocabulary import is_envelope

RECORDS = "records_in_memory"
"""The relation that queries read where what feeds it changes: a table, or some of the files."""
Columns = Mapping[str, str]
"""Type of each column, by name."""

T = TypeVar("T")

_KEYS = "check how the documents spell it; their keys are not listed, for keys can be data."
_ENVELOPE = (
    "the documents hold lists of others, as answers of an exchange do; name the list that holds "
    'the records, for example record_path = "{0}" (in [format], or --set format.record_path={0}).'
)


@dataclass(frozen=True)
class Relation:
    """Records to select from.

    Attributes
    ----------
    query : str
        A SELECT of all rows.
    schema : mapping of str to ColumnType
        What the columns hold.
    documents : bool
        Whether each row is one JSON document.
    text : TextSource or None
        The files of delimited text, whose malformed lines are missing from the rows.
    select_files : function, or None
        The SELECT of the rows of some of the files, by their paths; None for a table.
    respelled : frozenset of str
        Columns of text that hold numbers in some of the files, which the engine writes in its own
        way: no ids can be read from them.
    configured : collection of str
        Names of the configured columns. The names in a text file are shown only if some of
        these are among them.
    one_schema : bool
        Whether all files declare the same columns in the same order: Parquet files alone.
    check_files : function, or None
        Refuses packed files that are damaged or too large, by their paths or all.
    """

    query: str
    schema: Schema
    documents: bool = False
    text: TextSource | None = None
    select_files: Callable[[Sequence[str]], str] | None = None
    respelled: frozenset[str] = frozenset()
    configured: Collection[str] = ()
    one_schema: bool = False
    check_files: Callable[[Collection[str]], None] = lambda _: None

    @property
    def document(self) -> JsonColumn | None:
        """The column of JSON documents, if records are such."""
        return JsonColumn(DOCUMENT) if self.documents else None

    def skipped(self, paths: Sequence[str] | None = None) -> int:
        """Return how many malformed lines the last scans skipped, of all files or of some."""
        return 0 if self.text is None else self.text.skipped(paths)

    def find(self, session: Session, role: str, name: str) -> ColumnRef:
        """Return where a configured column is found."""
        return self._search(session, lambda schema: resolve(role, name, schema))

    def find_user(self, session: Session, name: str) -> ColumnRef:
        """Return where the configured column of user ids is found.

        Raises
        ------
        InputError
            If some files have text there, and some numbers.
        """
        ref = self.find(session, "user", name)
        if ref.column in self.respelled:
            raise InputError(
                f"user: the column {ref.column!r} holds text in some files and numbers in "
                "others, so that one vehicle could count as two; write its ids in one type."
            )
        return ref

    def find_location(self, session: Session, name: str) -> tuple[ColumnRef, ColumnRef]:
        """Return where latitude and longitude of a configured location are found."""
        return self._search(session, lambda schema: resolve_location(name, schema))

    def _search(self, session: Session, look: Callable[[Schema], T]) -> T:
        """Look in the schema; a key of JSON documents may first occur late, so look twice."""
        for again in (False, True)[: 1 + self.documents]:
            schema = document_schema(session, self.query, limit=None) if again else self.schema
            try:
                return look(schema)
            except ColumnError as error:
                missing = error
        # Not from within a handler: the error's context would hold the names that are left out.
        raise self._careful(missing, schema)

    def _careful(self, missing: ColumnError, schema: Schema) -> ColumnError:
        """Return the error with only those names that may be shown.

        A first line can be a record, and keys of JSON documents can be ids or values.
        """
        names = tuple(all_names(schema))
        if self.documents:
            hint = _list_hint(schema, missing.column) or _KEYS
        elif self.text is None or is_confirmed(names, self.configured):
            # Parquet and tables declare their columns: their names are never records.
            return missing
        else:
            hint = _unconfirmed_hint(len(names))
        return ColumnError(missing.role, missing.column, (), hint)


def _list_hint(schema: Schema, column: str) -> str | None:
    """Return the path of the list in which a column is missed; None without any list of objects."""
    lists = list(record_lists(schema))
    if not lists:
        return None
    # Only keys that are known to be no data are shown, those of a list with the column first.
    envelopes = [
        (find_column(column, inner) is None, path) for path, inner in lists if is_envelope(path)
    ]
    return _ENVELOPE.format(min(envelopes)[1] if envelopes else "results")


def _unconfirmed_hint(number: int) -> str:
    """Return the hint that replaces the names in a first line that may be a record."""
    count = "one column was" if number == 1 else f"{number} columns were"
    marks = " ".join(repr(mark) for mark in MARKS)
    return (
        f"{count} found, whose names are not shown, for the first line may be a record; check that "
        f"it is a header, separated by one of {marks}."
    )


def check_names(
    describe: Callable[[], str], names: Sequence[str], *, show_names: bool = True
) -> None:
    """Refuse columns that the engine takes for one: it reads names without regard to case.

    It would rename the second, perhaps to the name of a third.
    """
    by_folded_name: dict[bytes, str] = {}
    for name in names:
        # bytes.lower changes ASCII alone, as the engine does.
        earlier = by_folded_name.setdefault(name.encode(errors="replace").lower(), name)
        if name == earlier and list(names).count(name) > 1:
            raise InputError(f"source: {describe()} has two columns of one name; rename one.")
        if name != earlier:
            columns = f"columns {earlier!r} and {name!r}" if show_names else "two columns"
            raise InputError(
                f"source: {describe()} has {columns}, which differ in capital letters alone; "
                "rename one."
            )


def typed_schema(session: Session, query: str) -> Schema:
    """Return the types of the columns of a query."""
    return {name: _kind(duckdb_type) for name, duckdb_type in session.types(query).items()}


_NESTED = ("struct", "list", "array")
_KINDS: Mapping[TypeName, Collection[str]] = {
    "text": ("varchar", "enum", "uuid"),
    "boolean": ("boolean",),
    "date": ("date",),
    "naive time": ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"),
    "time": ("timestamp with time zone", "timestamptz_ns"),
    "time of day": ("time", "time_ns", "time with time zone"),
    "number": ("decimal", "null"),  # null: a column that is declared to hold nothing
    "map": ("map", "union"),
}
_FLOAT_BITS = {"float": 24, "double": 53}


def _kind(duckdb_type: DuckDBPyType) -> ColumnType:
    name = duckdb_type.id
    children = {} if name not in _NESTED else dict(duckdb_type.children)
    # An array's children include its size, a plain number.
    inner = {n: _kind(t) for n, t in children.items() if isinstance(t, DuckDBPyType)}
    if name == "struct":
        return ColumnType("struct", inner)
    if name in _NESTED:
        return ColumnType("list", element=inner["child"])
    if name.endswith(("int", "integer")):
        return ColumnType("number", is_integer=True)
    if name in _FLOAT_BITS:
        return ColumnType("number", float_bits=_FLOAT_BITS[name])
    return ColumnType(next((kind for kind, names in _KINDS.items() if name in names), "other"))


def refuse_different_columns(
    source: Files, columns: Sequence[Columns], configured: Collection[str] = ()
) -> None:
    """Raise InputError if files of a folder differ in a column that is used.

    Parameters
    ----------
    source : Files
        Files that the caller listed one by one may differ.
    columns : sequence of mapping of str to str
        Of each file, the type of each column.
    configured : collection of str
        Names of the configured columns.
    """
    if source.enumerated or all(file_columns == columns[0] for file_columns in columns):
        return
    used = [
        {name: file_columns[name] for name in used_names(file_columns, configured)}
        for file_columns in columns
    ]
    odd = next((n for n, file_used in enumerate(used) if file_used != used[0]), None)
    if odd is not None:
        raise _different(source, columns, odd, configured)


def used_names(columns: Iterable[str], configured: Collection[str]) -> list[str]:
    """Return the columns that are configured, or that contain or split one that is.

    Examples
    --------
    >>> used_names(["bus", "line", "at/coordinates/0"], {"bus", "at"})
    ['bus', 'at/coordinates/0']
    """
    return [
        column
        for column in columns
        if any(
            name == column
            or name.startswith(f"{column}.")
            or column.startswith((f"{name}/", f"{name}."))
            for name in configured
        )
    ]


def _different(
    source: Files, columns: Sequence[Columns], number: int, configured: Collection[str]
) -> InputError:
    """Return the error of a file with other columns than the first."""
    pair = (set(columns[number]), set(columns[0]))
    show_names = source.kind == "parquet" or (
        source.kind == "csv" and all(is_confirmed(fields, configured) for fields in pair)
    )
    paths = (source.paths[0], source.paths[number])
    files = " and ".join(safe_path(name, source.paths) for name in paths)
    differing = sorted(set.symmetric_difference(*pair))
    difference = f"only one of them has {', '.join(differing)}"
    if not differing:
        difference = "their types differ"
    # Names can be data.
    elif not show_names or len(differing) > MAX_LISTED:
        difference = f"{len(differing)} are only in one of them"
    return InputError(
        f"source: {files} have different columns ({difference}); "
        "list the files by name to read them together."
    )
