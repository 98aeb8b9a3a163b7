"""Published numbers in memory: tables for several libraries, pictures, and the release folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base.errors import InputError
from hexveil.base.optional_packages import require_package
from hexveil.publishing import column_selection
from hexveil.publishing import folder as folders
from hexveil.publishing.catalogue.holder_statements import Catalogue
from hexveil.publishing.components import each_alone, epsilon_spent, statements
from hexveil.publishing.estimates import places
from hexveil.report.cell_differences import CellDifference
from hexveil.report.manifest_view import ManifestView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hexveil.publishing.memory.stored_day import Rows

CRS = "OGC:CRS84"
"""Longitude and latitude, in this order, on WGS 84: what GeoJSON and GeoParquet mean."""


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Published numbers, and the statement of their guarantee.

    A release is a sequence of rows: `len(release)` counts its cells, and iteration yields a dict
    per cell. `release["mean_raw"]` is a column as a read-only array, `release["mean"]` those of a
    statistic (`mean_estimate`, or `mean_raw` without it), `release[["cell", "mean"]]` an Arrow
    table of columns, and `release[release["mean_quality"] != "noise"]` one of rows. Whatever else a
    data frame can do is one call away: `release.to_pandas()`, `release.to_polars()`. Libraries that
    read Arrow or GeoJSON take a release as it is: `pl.DataFrame(release)`, `pa.table(release)`.

    Attributes
    ----------
    table : pyarrow.Table
        A row per cell; the columns are described in docs/reference/python.md.
    manifest : dict
        As written to `manifest.json`.
    epsilon : Fraction
        Loss of the most exposed unit.
    replayed : bool
        Whether the numbers are those of an earlier release, at no cost: the ledger had them, or
        they were loaded from a folder.
    memory : ndarray, optional
        Rows of `memory.npy`: what later releases of an archive read of this one.
    """

    table: pa.Table
    manifest: dict[str, Any]
    epsilon: Fraction
    replayed: bool
    memory: Rows | None = None

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.table.column_names)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each statistic for which one number for all cells would do as well.

        The manifest's `beats_constant`: the typical error is nearly as large as what one number
        would miss, by how much the cells differ according to the noisy numbers.
        """
        from hexveil.report.accuracy_text import describe_one_number  # noqa: PLC0415  as in plot

        several = len(self.statements) > 1
        return tuple(
            f"{column}: {text}" if several else text
            for column, stated in self.statements.items()
            for text in describe_one_number(stated)
        )

    @cached_property
    def releases(self) -> Mapping[str, Release]:
        """The release of each value column, which has everything that a `Release` can do.

        Its manifest names the whole. Of a single column it is the release itself.
        """
        from hexveil.publishing.part_kinds import split_by_column  # noqa: PLC0415  as in plot

        if len(self.statements) == 1:
            return dict.fromkeys(self.statements, self)
        tables = split_by_column(self.table, self.statements)
        return {
            column: Release(tables[column], manifest, epsilon_spent(manifest), self.replayed)
            for column, manifest in zip(tables, each_alone(self.manifest), strict=True)
        }

    @cached_property
    def statements(self) -> dict[str, dict[str, Any]]:
        """Statements of the manifest about each value column, with those that all share."""
        return statements(self.manifest)

    def _of(self, column: str | None) -> Release:
        """Return the release of a value column, by default of the first."""
        name = column or next(iter(self.statements))
        if name not in self.statements:
            raise InputError(
                f"the release has the value columns {', '.join(self.statements)}, got {name!r}."
            )
        return self.releases[name]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield from self.table.to_pylist()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and column_selection.column_name(self.table, name) is not None

    def __getitem__(self, key: str | list[str] | NDArray[np.bool_]) -> Any:  # noqa: ANN401  by key
        return column_selection.select(self.table, key)

    def head(self, n: int = 5) -> Any:  # noqa: ANN401  pandas may not be installed
        """Return the first rows as a pandas data frame; InputError without pandas."""
        require_package("pandas")
        return self.table.slice(0, n).to_pandas()

    def to_arrow(self) -> pa.Table:
        """Return the numbers as an Arrow table."""
        return self.table

    def to_pandas(self) -> Any:  # noqa: ANN401  pandas may not be installed
        """Return the numbers as a pandas data frame; InputError without pandas."""
        require_package("pandas")
        return self.table.to_pandas()

    def to_polars(self) -> Any:  # noqa: ANN401  polars may not be installed
        """Return the numbers as a polars data frame; InputError without polars."""
        require_package("polars")
        import polars as pl  # noqa: PLC0415  an extra

        return pl.from_arrow(self.table)

    def to_geopandas(self) -> Any:  # noqa: ANN401  geopandas may not be installed
        """Return the numbers as a GeoDataFrame, with the outline of each cell's hexagon.

        Coordinates are longitude and latitude (WGS 84).

        Raises
        ------
        InputError
            Without geopandas, or if the cells are labels, which have no outline.
        """
        require_package("geopandas", "geo")
        mapped = places.with_geometry(self.table)
        if mapped is self.table:
            raise InputError(f"{column_selection.NO_OUTLINES}; .to_pandas() has their numbers.")
        import geopandas  # noqa: PLC0415  an extra

        frame = mapped.to_pandas()
        outlines = geopandas.GeoSeries.from_wkb(frame.pop("geometry"), crs=CRS)
        return geopandas.GeoDataFrame(frame, geometry=outlines)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the numbers as an Arrow stream, as libraries ask for it (PyCapsule interface)."""
        return self.table.__arrow_c_stream__(requested_schema)

    @property
    def __geo_interface__(self) -> dict[str, Any]:
        """The cells as a GeoJSON FeatureCollection; AttributeError for labels."""
        features = places.feature_collection(self.table)
        if features is None:
            # Libraries ask with hasattr whether an object has places.
            raise AttributeError(f"{column_selection.NO_OUTLINES}.")
        return features

    def plot(
        self, column: str | None = None, *, slot: str | None = None, ax: Axes | None = None
    ) -> Axes:
        """Draw the numbers with matplotlib, and return the axes.

        Hexagons are drawn as a map of one slot, labels as dots with their intervals. Colours have
        one scale for all slots and are those of the page: paler and fewer the less sure a cell is.
        Under private presence closed hexagons are grey, and closed labels are left out.

        Parameters
        ----------
        column : str, optional
            Of several value columns the name of one, whose first statistic is drawn. Else a
            statistic, or a column of numbers such as "mean_smoothed", "mean_bound95" or "records";
            default the first statistic. A statistic means its estimates, or its raw
            numbers where it has none.
        slot : str, optional
            As in the column `slot`, like "06:00"; default the slot with the most records.
        ax : matplotlib.axes.Axes, optional
            Where to draw; default a new figure.

        Raises
        ------
        InputError
            Without matplotlib, or if the release does not have the column or the slot.
        """
        require_package("matplotlib", "plots")
        if len(self.statements) > 1:
            return self._of(column).plot(slot=slot, ax=ax)
        # Loaded here: a release must not wait for what only draws.
        from hexveil.report import notebook  # noqa: PLC0415

        name = self._plotted(column)
        return notebook.draw_cells(self.table, self._view(), name, slot=slot, axes=ax)

    def difference(
        self, a: str, b: str, *, statistic: str | None = None, column: str | None = None
    ) -> CellDifference:
        """Return the difference between two cells, with its 95% interval, at no cost.

        It is that of the numbers which the page shows, by the rule that the page has: errors are
        joined by their parts, so it is narrower than the two intervals together. Of many pairs
        without a difference, one in twenty is told apart by chance.

        Parameters
        ----------
        a, b : str
            As in the column `cell`. The difference is the first minus the second.
        statistic : str, optional
            Such as "mean", "p85", "share<30" or, under private presence, "users"; by default the
            first.
        column : str, optional
            The value column; by default the first.

        Raises
        ------
        InputError
            If the release has no such cell, statistic or value column, a cell is closed, or both
            are one.

        Examples
        --------
        >>> import hexveil as hv
        >>> release = hv.load("map")  # doctest: +SKIP
        >>> release.difference("866098617ffffff/06:00", "866098617ffffff/12:00")  # doctest: +SKIP
        """
        # As in plot.
        from hexveil.report.cell_differences import difference_of  # noqa: PLC0415

        alone = self._of(column)
        view = alone._view()  # noqa: SLF001  of its own class
        name = column_selection.statistic_prefix(view.statistics, statistic)
        return difference_of(alone.table, replace(view, shown=name), a, b)

    def write(  # noqa: PLR0913  keyword-only, a field of the run file per argument
        self,
        folder: str | Path,
        *,
        context: str | Path | None = None,
        sign: str | Path | None = None,
        catalogue: Catalogue | None = None,
        title: str | None = None,
        subtitle: str | None = None,
        language: str = "en",
        hide_geography: bool = False,
    ) -> Path:
        """Write the release folder and return it.

        Parameters
        ----------
        folder : str or Path
            New; an existing folder is never written into.
        context : str or Path, optional
            GeoJSON file drawn beneath the map; its names of places name the hexagons.
        sign : str or Path, optional
            File of the private key that signs the folder (`hexveil ledger keygen`).
        catalogue : Catalogue, optional
            Publisher, licence and other facts for data portals.
        title, subtitle : str, optional
            Of the page and for data portals; by default those of the manifest, else what is
            averaged, and the name of the data set.
        language : str
            Of page and README.txt: "en", "de", "hi" or "pl"; by default English.
        hide_geography : bool
            Leave coast, rivers, borders and names of places out of the page's map.

        Raises
        ------
        InputError
            If the folder exists or cannot be made, or the context or the key cannot be read, or a
            title has a line break.
        StorageError
            If writing fails midway; nothing half-written stays.
        """
        names = (title or "", subtitle or "", language, not hide_geography)
        options = folders.FolderOptions(context, sign, catalogue, *names)
        return folders.write(self.table, self.manifest, folder, options, self.memory)

    def __repr__(self) -> str:
        columns = ", ".join(map(repr, self.statements))
        return (
            f"Release({columns}, n_cells={self.table.num_rows}, "
            f"epsilon={float(self.epsilon):.6g}, replayed={self.replayed})"
        )

    def _repr_html_(self) -> str:
        """Return the promise, a picture and the first rows for a notebook."""
        from hexveil.report.notebook import summarize  # noqa: PLC0415  as in plot

        return "".join(
            summarize(one.table, one._view(), one._plotted(None))  # noqa: SLF001  as above
            for one in self.releases.values()
        )

    def _view(self) -> ManifestView:
        """Return the view of the only value column, or of the first."""
        return ManifestView.from_manifest(next(iter(self.statements.values())))

    def _plotted(self, column: str | None) -> str:
        return column_selection.require_column(self.table, column or self._view().statistic)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Raise AttributeError that names the data frame which has the attribute."""
            # Types are checked without this method: a checker would take any name for present.
            raise AttributeError(column_selection.describe_missing(self, name), name=name, obj=self)
