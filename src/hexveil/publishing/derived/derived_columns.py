"""Roll-ups and comparisons of several value columns in one call: each column by itself.

Nothing is joined over columns: the noise of different columns is independent, but errors, units and
verdicts are a column's own, and so is the false discovery rate of a comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hexveil.base.errors import InputError
from hexveil.publishing.columns.column_table import column_prefixes
from hexveil.publishing.derived import derived_folder
from hexveil.publishing.derived.derived_table import DerivedTable
from hexveil.publishing.derived.release_source import open_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_Table = TypeVar("_Table", bound=DerivedTable)


@dataclass(frozen=True, eq=False, repr=False)
class DerivedColumns(Generic[_Table]):
    """Numbers computed from releases of several value columns, at no privacy cost.

    `derived["pm25"]` is the roll-up or the comparison of one column.

    Attributes
    ----------
    tables : mapping of str to DerivedTable
        By value column.
    """

    tables: Mapping[str, _Table]

    def __getitem__(self, column: str) -> _Table:
        return self.tables[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {derived!r}" for name, derived in self.tables.items())
        return f"DerivedColumns({columns})"

    def write(self, folder: str | Path, *, context: str | Path | None = None) -> Path:
        """Write a folder for each column into a new folder and return that.

        Parameters
        ----------
        folder : str or Path
            New; an existing folder is never written into.
        context : str or Path, optional
            See `DerivedTable.write`.

        Raises
        ------
        InputError, StorageError
            As `DerivedTable.write`.
        """
        prefixes = column_prefixes([*self.tables])
        folders = {
            prefixes[name]: (derived.table, derived.statement)
            for name, derived in self.tables.items()
        }
        return derived_folder.write_parts(folders, folder, context=context)


def sources_by_column(release: object, key: str | Path | None) -> dict[str, Any] | None:
    """Return the source or roll-up of each value column; None where there is one column alone.

    Raises
    ------
    InputError
        If a folder of several value columns is not as it was written.
    """
    if isinstance(release, DerivedColumns):
        return dict(release.tables)
    opened = open_columns(release, key=key)
    return None if opened is None else dict(opened)


def check_same_columns(
    before: Mapping[str, object] | None, after: Mapping[str, object] | None
) -> None:
    """Refuse two releases that do not have the same value columns."""
    if before is None or after is None:
        columns = before or after or {}
        raise InputError(
            f"one side has the value columns {', '.join(columns)}, the other has one column alone; "
            "name the folder of that column inside it, or pass one of its .releases."
        )
    if set(before) != set(after):
        odd = min(set(before) ^ set(after))
        raise InputError(
            f"the value column {odd!r} is in one of the releases alone; compare column by column: "
            "name the folder of one inside each."
        )
