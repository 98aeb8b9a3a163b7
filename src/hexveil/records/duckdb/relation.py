"""Relations of records: their query, their columns, and hints on a missing column.

Names of columns are shown only where they cannot be records themselves.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hexveil.base.errors import ColumnError, InputError
from hexveil.base.work_share import COUNTING, QUERY, READING, steps_of_work
from hexveil.records.duckdb.formats.delimited_text import TextSource
from hexveil.records.duckdb.formats.json_documents import document_schema
from hexveil.records.duckdb.session import Session
from hexveil.records.sources.columns import (
    ColumnRef,
    Schema,
    all_names,
    find_column,
    record_lists,
    resolve,
    resolve_location,
)
from hexveil.records.sources.headers import MARKS, is_confirmed
from hexveil.records.sources.vocabulary import is_envelope

T = TypeVar("T")

_NEAR = 0.8
"""Least similarity of a key of a JSON document that a message suggests: keys can be ids."""
_KEYS = "check how the documents spell it; their keys are not listed, for keys can be data."
_FILE_NAMES = ("filename", "file_name", "file")
_NO_FILE_NAMES = (
    "user: ids are read from a column, never from names of files: files of one vehicle on two days "
    "would count as two vehicles. Write the id into the records first, for example by duckdb -c "
    "\"COPY (SELECT *, parse_filename(filename, true) AS vehicle FROM read_csv('*.csv', "
    "filename=true, all_varchar=true)) TO 'records.parquet'\", and take from the name what is the "
    "vehicle's alone."
)
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
    pack_file : function, or None
        How a file is packed for a task of Spark that opens it (see `unpack_file`), where Spark's
        own reader fails on types of the files; None elsewhere.
    respelled : frozenset of str
        Columns of text that hold numbers in some of the files, which the engine writes in its own
        way: no ids can be read from them.
    configured : collection of str
        Names of the configured columns. The names in a text file are shown only if some of
        these are among them.
    one_schema : bool
        Whether all files declare the same columns in the same order: Parquet files alone.
    load : function, or None
        Decodes files that the engine cannot read itself, some by their paths or all: until then
        their rows are missing. None where it can.
    """

    query: str
    schema: Schema
    documents: bool = False
    text: TextSource | None = None
    select_files: Callable[[Sequence[str]], str] | None = None
    pack_file: Callable[[str], str] | None = None
    respelled: frozenset[str] = frozenset()
    configured: Collection[str] = ()
    one_schema: bool = False
    load: Callable[[Sequence[str] | None], None] | None = None

    def load_files(self, paths: Sequence[str] | None = None) -> None:
        """Decode all files, or those about to be read, if the engine cannot read them itself."""
        if self.load is not None:
            with steps_of_work(READING, 0.0, 0.5, QUERY), steps_of_work(COUNTING, 0.0, 0.5, QUERY):
                self.load(paths)

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
        try:
            ref = self.find(session, "user", name)
        except ColumnError as error:
            is_file = name.lower() in _FILE_NAMES and self.select_files is not None
            raise (InputError(_NO_FILE_NAMES) if is_file else error) from None
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
        schema = self.schema
        try:
            return look(schema)
        except ColumnError as error:
            missing = error
        if self.documents:
            schema = document_schema(session, self.query, limit=None)
            try:
                return look(schema)
            except ColumnError as error:
                missing = error
        # Not from within a handler: the error's context would hold the names that are left out.
        hint = _list_hint(schema, missing.column)
        raise self._careful(missing, tuple(all_names(schema)), hint or _KEYS)

    def _careful(
        self, missing: ColumnError, names: Sequence[str], document_hint: str
    ) -> ColumnError:
        """Return the error with only those names that may be shown.

        A first line can be a record, and keys of JSON documents can be ids or values.
        """
        role, column = missing.role, missing.column
        confirmed = is_confirmed(names, self.configured)
        if not self.documents:
            # Parquet and tables declare their columns: their names are never records.
            typed = self.text is None
            hint = None if typed or confirmed else _unconfirmed_hint(len(names))
            return missing if hint is None else ColumnError(role, column, (), hint)
        closest = _closest_key(column, names) if confirmed else ()
        return ColumnError(role, column, closest, None if closest else document_hint)


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
        f"it is a header, separated by one of {marks} or by spaces."
    )


def _closest_key(column: str, names: Sequence[str]) -> Sequence[str]:
    """Return the closest key, if any; not one with digits of its own, which may be an id."""
    digits = {letter for letter in column if letter.isdigit()}
    candidates = [n for n in names if all(c in digits for c in n if c.isdigit())]
    return difflib.get_close_matches(column, candidates, n=1, cutoff=_NEAR)
