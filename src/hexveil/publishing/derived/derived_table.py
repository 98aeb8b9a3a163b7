"""Tables of roll-ups and comparisons, of one value column or several, and their folders.

A folder has tables, a page, a statement for programs and README.txt. It is no release: it has no
price and no receipt of its own, and names those of the releases that it was made from. Nothing is
joined over value columns: the noise of different columns is independent, but errors, units and
verdicts are a column's own, and so is the false discovery rate of a comparison. Each has its own
folder.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.parquet

from hexveil.base import atomic_files
from hexveil.base.arrow_tables import write_csv
from hexveil.base.errors import InputError, StorageError
from hexveil.base.optional_packages import require_package
from hexveil.base.work_share import WRITING, tell_share
from hexveil.publishing.components import column_prefixes
from hexveil.publishing.estimates import places
from hexveil.publishing.estimates.places import with_places
from hexveil.publishing.folder import round_to_intervals
from hexveil.publishing.markup import document
from hexveil.report import read_context
from hexveil.report.derived_page import render_derived, template_values

STATEMENT_VERSION = 1


@dataclass(frozen=True, eq=False, repr=False)
class DerivedTable:
    """Numbers computed from releases, at no privacy cost.

    Attributes
    ----------
    table : pyarrow.Table
    statement : dict
        The releases, and the meaning of the intervals.
    """

    table: pa.Table
    statement: dict[str, Any]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def texts(self) -> dict[str, Any]:
        """Return the sentences that page, README.txt and command have in common."""
        return template_values(self.table, self.statement)

    def to_arrow(self) -> pa.Table:
        """Return the numbers as an Arrow table."""
        return self.table

    def to_pandas(self) -> Any:  # noqa: ANN401  pandas may not be installed
        """Return the numbers as a pandas data frame; InputError without pandas."""
        require_package("pandas")
        return self.table.to_pandas()

    def write(self, folder: str | Path, *, context: str | Path | None = None) -> Path:
        """Write table, page and statement into a new folder and return it.

        Parameters
        ----------
        folder : str or Path
            New; an existing folder is never written into.
        context : str or Path, optional
            GeoJSON file drawn beneath the map; its names of places name the hexagons.

        Raises
        ------
        InputError
            If the folder exists or cannot be made, or the context cannot be read.
        StorageError
            If writing fails midway; nothing half-written stays.
        """
        return _write(folder, context, {"": self})


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
        names = column_prefixes([*self.tables]).values()
        return _write(folder, context, dict(zip(names, self.tables.values(), strict=True)))


def of_columns(tables: dict[str, _Table]) -> _Table | DerivedColumns[_Table]:
    """Return the table of each value column; alone where it has no name."""
    return tables[""] if "" in tables else DerivedColumns(tables)


def check_writable(folder: str | Path) -> Path:
    """Return the folder's path if it can be made; InputError if not."""
    path = Path(folder)
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists, and is never written into; name a new folder (--out).")
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; create it, or name another.")
    return path


def _write(
    folder: str | Path, context: str | Path | None, tables: Mapping[str, DerivedTable]
) -> Path:
    """Write the files of each table into a folder inside a new one; those of "" into that."""
    path = check_writable(folder)
    lines = None if context is None else read_context(context)
    try:
        with atomic_files.folder(path) as temporary:
            for name, derived in tables.items():
                place = temporary / name
                place.mkdir(exist_ok=True)
                _write_files(place, derived, lines)
                # Files at the top are made durable with their folder.
                for file in place.iterdir() if name else ():
                    atomic_files.fsync(file)
    except OSError as error:
        raise StorageError(
            f"nothing could be written to {path} ({atomic_files.reason(error)}); nothing was left "
            "there."
        ) from None
    return path


def _write_files(folder: Path, derived: DerivedTable, context: dict[str, Any] | None) -> None:
    table, statement = derived.table, derived.statement
    kind = statement["kind"]
    placed = with_places(table, statement)
    rounded = round_to_intervals(placed)
    write_csv(rounded, folder / "cells.csv")
    tell_share(WRITING, 0.2)
    pyarrow.parquet.write_table(
        places.with_geometry(placed), folder / "cells.parquet", compression="zstd"
    )
    tell_share(WRITING, 0.4)
    features = places.geojson(rounded)
    if features is not None:
        (folder / "cells.geojson").write_bytes(features)
    versions = {
        "statement_version": STATEMENT_VERSION,
        "software": {"hexveil": importlib.metadata.version("hexveil")},
    }
    text = json.dumps(versions | statement, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / f"{kind}.json").write_text(text + "\n", "utf-8")
    tell_share(WRITING, 0.6)
    files = sorted(file.name for file in folder.iterdir())
    page = render_derived(table, statement, context=context, files=files)
    (folder / f"{kind}.html").write_text(page, "utf-8")
    readme = document("derived.md", derived.texts()).to_text()
    (folder / "README.txt").write_text(readme + "\n", "utf-8")
