"""Table of a roll-up or a comparison, and its folder.

A folder has tables, a page, a statement for programs and README.txt. It is no release: it has no
price and no receipt of its own, and names those of the releases that it was made from.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from hexveil.base.optional_packages import require_package
from hexveil.publishing import folder as folders
from hexveil.publishing.estimates.places import with_places
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
            GeoJSON file drawn beneath the map; its names of places and streets name the hexagons.

        Raises
        ------
        InputError
            If the folder exists or cannot be made, or the context cannot be read.
        StorageError
            If writing fails midway; nothing half-written stays.
        """
        lines = None if context is None else read_context(context)
        kind = self.statement["kind"]
        versions = {
            "statement_version": STATEMENT_VERSION,
            "software": {"hexveil": importlib.metadata.version("hexveil")},
        }
        with folders.new_folder(folder) as place:
            folders.write_tables(place, with_places(self.table, self.statement), tiled=False)
            folders.write_json(place / f"{kind}.json", versions | self.statement)
            files = sorted(file.name for file in place.iterdir())
            page = render_derived(self.table, self.statement, context=lines, files=files)
            (place / f"{kind}.html").write_text(page, "utf-8")
            readme = document("derived.md", self.texts()).to_text()
            (place / "README.txt").write_text(readme + "\n", "utf-8")
        return Path(folder)
