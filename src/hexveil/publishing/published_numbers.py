"""Published numbers in memory: tables for several libraries, and the release folder."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.publishing import folder as folders

if TYPE_CHECKING:
    from fractions import Fraction
    from pathlib import Path

    import pyarrow as pa

SHOWN_ROWS = 20
"""Rows of the table that a notebook shows."""
SHOWN_KEYS = ("raw", "bound95", "quality")
"""Columns of a statistic that it shows."""
SHOWN_POSTERIOR = ("estimate", "low", "high", "quality")
"""Columns of a mean with an estimate before clipping that it shows."""


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Published numbers, and the statement of their guarantee.

    Attributes
    ----------
    table : pyarrow.Table
        A row per cell; the columns are described in docs/reference/python.md.
    manifest : dict
        As written to `manifest.json`.
    epsilon : Fraction
        Loss of the most exposed unit.
    replayed : bool
        Whether the ledger had these numbers from an earlier release of this request, at no cost.
    """

    table: pa.Table
    manifest: dict[str, Any]
    epsilon: Fraction
    replayed: bool

    def to_arrow(self) -> pa.Table:
        """Return the numbers as an Arrow table."""
        return self.table

    def to_pandas(self) -> Any:  # noqa: ANN401  pandas may not be installed
        """Return the numbers as a pandas data frame; InputError without pandas."""
        _require("pandas")
        return self.table.to_pandas()

    def to_polars(self) -> Any:  # noqa: ANN401  polars may not be installed
        """Return the numbers as a polars data frame; InputError without polars."""
        _require("polars")
        import polars as pl  # noqa: PLC0415  an extra

        return pl.from_arrow(self.table)

    def to_spark(self, session: Any) -> Any:  # noqa: ANN401  pyspark may not be installed
        """Return the numbers as a Spark data frame, for example to be written as a table.

        Parameters
        ----------
        session : pyspark.sql.SparkSession

        Raises
        ------
        InputError
            If it is not a session.
        """
        if not hasattr(session, "createDataFrame"):
            raise InputError(
                f"to_spark needs a Spark session, got {type(session).__name__}; pass the session "
                "of the cluster."
            )
        return session.createDataFrame(self.table)

    def write(
        self,
        folder: str | Path,
        *,
        context: str | Path | None = None,
        sign: str | Path | None = None,
    ) -> Path:
        """Write the release folder and return it.

        Parameters
        ----------
        folder : str or Path
            New; an existing folder is never written into.
        context : str or Path, optional
            GeoJSON file drawn beneath the map.
        sign : str or Path, optional
            File of the private key that signs the folder (`hexveil ledger keygen`).

        Raises
        ------
        InputError
            If the folder exists or cannot be made, or the context or the key cannot be read.
        StorageError
            If writing fails midway; nothing half-written stays.
        """
        return folders.write(self.table, self.manifest, folder, context=context, sign=sign)

    def __repr__(self) -> str:
        return (
            f"Release({self.manifest['dataset']['value']!r}, n_cells={self.table.num_rows}, "
            f"epsilon={float(self.epsilon):.6g}, replayed={self.replayed})"
        )

    def _repr_html_(self) -> str:
        """Return a short table for a notebook."""
        import html  # noqa: PLC0415  only notebooks ask

        statistic = self.manifest["plan"]["statistics"][0]
        has_posterior = f"{statistic}_estimate" in self.table.column_names
        keys = SHOWN_POSTERIOR if has_posterior else SHOWN_KEYS
        names = ["cell", "users", *(f"{statistic}_{key}" for key in keys)]
        # Names and labels come from the records: they must not become markup of the notebook.
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        rows = [
            "".join(f"<td>{html.escape(_format(row[name]))}</td>" for name in names)
            for row in self.table.slice(0, SHOWN_ROWS).select(names).to_pylist()
        ]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        promise = html.escape(self.manifest["guarantee"]["promise"])
        summary = f"{self.table.num_rows} cells. {promise}"
        return f"<p>{summary}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _require(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise InputError(f'{package} is not installed: pip install "hexveil[{package}]".')


def _format(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
