"""Published quantiles, shares and histograms in memory, and their folder."""

from __future__ import annotations

import io
import itertools
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from hexveil.base import atomic_files, csv_safety
from hexveil.base.errors import InputError, StorageError
from hexveil.base.optional_packages import require_package
from hexveil.model.statistic_terms import Quantile, parse_statistics
from hexveil.publishing import geometry, receipt
from hexveil.publishing.distribution.distribution_decoding import column_names
from hexveil.publishing.distribution.distribution_manifest import SCHEMA_VERSION
from hexveil.publishing.folder import GEOJSON_LIMIT, check_writable
from hexveil.publishing.markup import document
from hexveil.publishing.verification.verify import DISTRIBUTIONS
from hexveil.report.promise import promise

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = "distribution.md"
SLACK = Fraction(1, 10**9)


@dataclass(frozen=True, eq=False, repr=False)
class DistributionRelease:
    """Published numbers, and the statement of their guarantee.

    Attributes
    ----------
    table : pyarrow.Table
        A row per cell.
    manifest : dict
        As written to `manifest.json`.
    epsilon : Fraction
        Loss of the most exposed unit, over all statistics.
    replayed : bool
        Whether the ledger had the numbers before, so that nothing was drawn.
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
        require_package("pandas")
        return self.table.to_pandas()

    def __repr__(self) -> str:
        statistics = ", ".join(self.manifest["statistics"])
        return (
            f"DistributionRelease({statistics}, n_cells={self.table.num_rows}, "
            f"epsilon={float(self.epsilon):.6g}, replayed={self.replayed})"
        )

    def write(self, folder: str | Path) -> Path:
        """Write cells.parquet, cells.csv, manifest.json, README.txt and a receipt; return the path.

        Hexagons have cells.geojson as well.

        Raises
        ------
        InputError
            If the folder exists or cannot be made.
        StorageError
            If writing fails midway; nothing half-written stays.
        """
        path = check_writable(folder)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_files.folder(path) as temporary:
                _write_files(temporary, self.table, self.manifest)
        except OSError as error:
            raise StorageError(
                f"the release could not be written to {path} ({atomic_files.reason(error)}); "
                "nothing was left there. Repeating the request costs nothing."
            ) from None
        return path


def _write_files(folder: Path, table: pa.Table, manifest: dict[str, Any]) -> None:
    pa.parquet.write_table(
        geometry.with_geometry(table), folder / "cells.parquet", compression="zstd"
    )
    csv_safety.write(table, folder / "cells.csv")
    features = geometry.geojson(table)
    is_mapped = features is not None and len(features) <= GEOJSON_LIMIT
    if features is not None and is_mapped:
        (folder / "cells.geojson").write_bytes(features)
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "manifest.json").write_text(text + "\n", "utf-8")
    (folder / "README.txt").write_text(
        render_distribution_readme(table, manifest, mapped=is_mapped), "utf-8"
    )
    # Last: it has the checksum of every other file.
    receipt.write(folder, manifest)


def render_distribution_readme(table: pa.Table, manifest: dict[str, Any], *, mapped: bool) -> str:
    """Return the text of README.txt."""
    dataset, losses = manifest["dataset"], manifest["losses"]
    columns = [
        {
            "name": field.name,
            "unit": (field.metadata or {}).get(b"unit", b"").decode(),
            "description": (field.metadata or {})[b"description"].decode(),
        }
        for field in table.schema
    ]
    values = {
        "statistics": ", ".join(manifest["statistics"]),
        "value": dataset["value"],
        "value_unit": dataset["value_unit"],
        "dataset": dataset["name"],
        "cells": table.num_rows,
        "guarantee": manifest["guarantee"],
        "units": f"{losses['units']:,}",
        "median_loss": f"{losses['median']:.4g}",
        "components": manifest["plan"]["components"],
        "quantum": manifest["bounds"]["quantum"],
        "columns": columns,
        "mapped": mapped,
    }
    return document(TEMPLATE, values).to_text() + "\n"


def verify_distribution(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder with unchanged files that agree.

    Checked: the receipt's checksums, with no file missing or added; CSV and README.txt against the
    Parquet table and the manifest; that the components' losses add up to no more than the stated
    one; and that the statistics of each cell agree.

    Raises
    ------
    InputError
        Naming the first difference.
    """
    problem = _find_problem(folder)
    if problem:
        raise InputError(f"{folder} is not as it was written: {problem}")
    return dict(json.loads((folder / "manifest.json").read_text("utf-8")))


def _find_problem(folder: Path) -> str:
    """Return the first difference of a folder from the written one; empty if there is none."""
    stated = receipt.parse_checksums(_content(folder / receipt.NAME))
    if stated is None:
        return f"{receipt.NAME} is missing or no receipt."
    names = {path.name for path in folder.iterdir()} - {receipt.NAME}
    if names != set(stated):
        return f"{min(names ^ set(stated))} is missing or was added."
    for name in sorted(names):
        if receipt.file_digest(folder / name) != stated[name]:
            return f"{name} was changed: its checksum is not the one in {receipt.NAME}."
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    if manifest.get("kind") != DISTRIBUTIONS or manifest.get("schema_version") != SCHEMA_VERSION:
        return "manifest.json is of another kind or version."
    table = pa.parquet.read_table(folder / "cells.parquet")
    if "geometry" in table.column_names:
        table = table.drop_columns("geometry")
    expected = io.BytesIO()
    csv_safety.write(table, expected)
    if (folder / "cells.csv").read_bytes() != expected.getvalue():
        return "cells.csv and cells.parquet do not have the same rows."
    return _contradiction(table, manifest)


def _contradiction(table: pa.Table, manifest: dict[str, Any]) -> str:
    """Return the first contradiction between statements and numbers; empty if there is none."""
    guarantee = manifest["guarantee"]
    components = sum(Fraction(one["epsilon"]) for one in manifest["plan"]["components"])
    # No unit loses more than its largest loss in each component.
    if Fraction(guarantee["epsilon_spent"]) > components + SLACK:
        return "the stated epsilon is above the sum of its components."
    if (
        promise(guarantee["privacy_unit"], Fraction(guarantee["epsilon_spent"]))
        != (guarantee["promise"])
    ):
        return "the promise is not that of the stated epsilon."
    numbers = {name: table[name].to_numpy() for name in table.column_names}
    terms = parse_statistics(manifest["statistics"])[1]
    prefixes = [prefix for term in terms for prefix in column_names(term)]
    for prefix in prefixes:
        low, middle, high = (numbers[f"{prefix}_{key}"] for key in ("low", "estimate", "high"))
        if not ((low <= middle) & (middle <= high)).all():
            return f"{prefix}_estimate is outside its interval."
    levels = [numbers[f"{term.column}_estimate"] for term in terms if isinstance(term, Quantile)]
    if any((later < earlier).any() for earlier, later in itertools.pairwise(levels)):
        return "a quantile is above one of a higher level."
    return ""


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
