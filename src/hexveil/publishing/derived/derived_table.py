"""Table and statement of a roll-up or a comparison, computed from releases alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexveil.base.optional_packages import require_package
from hexveil.publishing.derived import derived_folder

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


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
            GeoJSON file drawn beneath the map; its names of places and streets name the hexagons.

        Raises
        ------
        InputError
            If the folder exists or cannot be made, or the context cannot be read.
        StorageError
            If writing fails midway; nothing half-written stays.
        """
        return derived_folder.write(self.table, self.statement, folder, context=context)
