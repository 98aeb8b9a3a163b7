"""Columns that the files of a source have in common, and refusals of files that differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from hexveil.base.errors import MAX_LISTED, InputError
from hexveil.records.sources.headers import is_confirmed
from hexveil.records.sources.record_format import RecordFormat
from hexveil.records.sources.source_files import Files, safe_path

if TYPE_CHECKING:
    Columns = Mapping[str, str]
    """Type of each column, by name."""


def uncommon_columns(
    source: Files,
    columns: Sequence[Columns],
    configured: Collection[str] = (),
    record_format: RecordFormat | None = None,
) -> frozenset[str]:
    """Return the columns to leave out: all that not every file has with one type.

    None is left out of files with equal columns, nor of files that the caller listed one by one.

    Parameters
    ----------
    source : Files
    columns : sequence of mapping of str to str
        Of each file, the type of each column.
    configured : collection of str
        Names of the configured columns.
    record_format : RecordFormat, optional
        Without one, as for sums, the caller cannot declare that unused columns may differ.

    Raises
    ------
    InputError
        If files of a folder differ, in a column that is used or without that declaration.
    """
    odd = next((n for n, file_columns in enumerate(columns) if file_columns != columns[0]), None)
    if source.enumerated or odd is None:
        return frozenset()
    used = [_used(file_columns, configured) for file_columns in columns]
    odd_used = next((n for n, file_used in enumerate(used) if file_used != used[0]), None)
    unused = record_format is not None and odd_used is None
    if record_format is None or record_format.file_columns == "same" or odd_used is not None:
        number = odd if odd_used is None else odd_used
        raise _different(source, columns, number, configured, unused=unused)
    names = {name for file_columns in columns for name in file_columns}
    return frozenset(
        name
        for name in names
        if any(file_columns.get(name) != columns[0].get(name) for file_columns in columns)
    )


def _used(columns: Columns, configured: Collection[str]) -> Columns:
    """Return the columns of a file that are used."""
    used = used_names(columns, configured)
    return {column: kind for column, kind in columns.items() if column in used}


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
    source: Files,
    columns: Sequence[Columns],
    number: int,
    configured: Collection[str],
    *,
    unused: bool,
) -> InputError:
    """Return the error of a file with other columns than the first."""
    pair = (set(columns[number]), set(columns[0]))
    show_names = source.kind == "parquet" or (
        source.kind == "csv" and all(is_confirmed(fields, configured) for fields in pair)
    )
    paths = (source.paths[0], source.paths[number])
    files = " and ".join(safe_path(name, source.paths) for name in paths)
    advice = "list the files by name to read them together"
    if unused:
        advice = (
            'the run uses none of them: add file_columns = "common" (in [format], or '
            "--set format.file_columns=common) to read only the columns that all files have, or "
            f"{advice}"
        )
    difference = _difference(*pair, show_names=show_names)
    return InputError(f"source: {files} have different columns ({difference}); {advice}.")


def _difference(names: set[str], other_names: set[str], *, show_names: bool) -> str:
    """Return how the columns of two files differ, without names that can be data."""
    differing = sorted(names ^ other_names)
    if not differing:
        return "their types differ"
    if not show_names or len(differing) > MAX_LISTED:
        return f"{len(differing)} are only in one of them"
    return f"only one of them has {', '.join(differing)}"
