"""Derived numbers: the releases that they are made of, and their table with its folder.

A folder has tables, a page, a statement for programs and README.txt. It is no release: it has no
price and no receipt of its own, and names those of the releases that it was made from.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.noise_law import law_at
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.optional_packages import installed_version, require_package
from hexveil.publishing import folder as folders
from hexveil.publishing import receipt
from hexveil.publishing.derived.cell_numbers import CellNumbers
from hexveil.publishing.estimates.places import with_places, without_places
from hexveil.publishing.kinds.guarantee import is_private
from hexveil.publishing.kinds.presence_table import OPEN
from hexveil.publishing.markup import document
from hexveil.publishing.published_numbers import Release
from hexveil.publishing.verification.verify import load
from hexveil.report.accuracy_text import CUT_OFF
from hexveil.report.derived_page import render_derived, template_values
from hexveil.report.geography.context import read_context
from hexveil.report.manifest_view import ManifestView, numbers_of
from hexveil.report.origin import describe_origin

BOUND_PER_MEAN = 1.959964 * math.sqrt(math.pi / 2.0)
"""The 95 percent bound of a centred normal number of mean absolute value 1."""


@dataclass(frozen=True, eq=False)
class ReleaseSource:
    """Released numbers of one value column, and the statement that says which release they are.

    Attributes
    ----------
    table : pyarrow.Table
        As released, of open cells alone, or of the coarser cells of a roll-up.
    manifest : mapping
        Its statements, with the grid of `table`.
    identity : mapping
        Data set, request, position in the ledger, price, and the SHA-256 of the receipt if the
        release came from a folder.
    closed_cells : int
        Cells of a map with private presence that it publishes no number of.
    rolled_up : tuple of str and CellNumbers, or None
        Prefix of the statistic of a roll-up, and its numbers; None of a release.
    """

    table: pa.Table
    manifest: Mapping[str, Any]
    identity: Mapping[str, Any]
    closed_cells: int = 0
    rolled_up: tuple[str, CellNumbers] | None = None

    @property
    def is_map(self) -> bool:
        """Whether presence is private: then `table` has the open cells alone."""
        return is_private(self.manifest)

    def view(self, statistic: str = "") -> ManifestView:
        """Return the view of a statistic, by default of the first."""
        return replace(ManifestView.from_manifest(self.manifest), shown=statistic)

    @property
    def has_range(self) -> bool:
        """Whether values were clipped to a private range.

        Not by mechanisms of single cells: their stated bias covers private choices.
        """
        bare = ("cells", "cell_stages")
        steps = self.view().steps
        return not all(step["step"] in bare and "remembered" not in step for step in steps)

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the released statistics."""
        return tuple(self.manifest["plan"]["statistics"])

    def column(self, name: str) -> Floats:
        """Return a column of numbers; InputError if an earlier version did not write it."""
        if name not in self.table.column_names:
            raise InputError(
                f"the release of {self.identity['dataset']} has no column {name!r}, from which "
                "this would be computed: an earlier version of hexveil wrote it; publish it again."
            )
        return numbers_of(self.table, name)

    def require(self, statistic: str) -> None:
        """Refuse the prefix of a statistic that was not released with an interval."""
        if f"{statistic}_low" not in self.table.column_names:
            raise InputError(
                f"the release of {self.identity['dataset']} has no {statistic}; it has "
                f"{', '.join(self.statistics)}."
            )


def open_source(
    release: Release | str | Path, value: str | None = None, *, key: str | Path | None = None
) -> ReleaseSource:
    """Return a value column of a release, or of a folder, which is checked as by `hv.verify`.

    Parameters
    ----------
    release : Release, str or Path
    value : str, optional
        Name of the value column; not needed where there is one alone.
    key : str or Path, optional
        File of the holder's public key.

    Raises
    ------
    InputError
        If the folder is not as it was written, it is neither a release nor a folder, or it has
        several value columns and none of them is named.
    """
    folder = Path(release) if isinstance(release, (str, Path)) else None
    opened = load(folder, key=key) if folder is not None else release
    if not isinstance(opened, Release):
        raise InputError(
            f"a release or its folder is needed, got {type(opened).__name__}; pass what "
            "hv.release or hv.load returned."
        )
    names = [name for name in opened.releases if value in (None, name)]
    if len(names) != 1:
        raise InputError(
            f"the release has the value columns {', '.join(opened.releases)}; name one (value=, "
            "--value)."
        )
    alone = opened.releases[names[0]]
    (manifest,) = alone.statements.values()
    origin, guarantee = describe_origin(alone.table, manifest), manifest["guarantee"]
    identity = {
        "dataset": manifest["dataset"]["name"],
        **{name: manifest[name] for name in ("request", "ledger")},
        **{name: guarantee[name] for name in ("privacy_unit", "epsilon_spent")},
        "receipt_sha256": None if folder is None else receipt.file_digest(folder / receipt.NAME),
        **{name: origin[name] for name in ("period", "brief_period", "publisher")},
        **({"delta": guarantee["delta"]} if "delta" in guarantee else {}),
    }
    # Names for people are made again of the derived cells.
    bare = without_places(alone.table, manifest)
    table = bare.filter(bare[OPEN]) if is_private(manifest) else bare
    return ReleaseSource(table, manifest, identity, bare.num_rows - table.num_rows)


def roll_up_statement(source: ReleaseSource, statistic: str, basis: str) -> dict[str, Any]:
    """Return the statements of `roll-up.json` that cells and days share."""
    manifest = source.manifest
    return {
        "kind": "roll-up",
        "source": dict(source.identity),
        **{name: dict(manifest[name]) for name in ("dataset", "bounds", "grid", "selection")},
        "catalogue": dict(manifest.get("catalogue", {})),
        "statistic": statistic,
        "basis": basis,
        "promise": manifest["guarantee"]["promise"],
    }


def numbers_to_compare(source: ReleaseSource, statistic: str) -> CellNumbers:
    """Return a statistic of a release with public occupancy, to compare it; see `cell_numbers`.

    Raises
    ------
    InputError
        If the statistic was not released, or was released without an interval.
    """
    view, table = source.view(statistic), source.table
    has_posterior = view.has_posterior(table)
    if f"{statistic}_scale" in table.column_names and not has_posterior:
        return numbers_with_noise(source, statistic)
    source.require(statistic)
    number = source.column(f"{statistic}_{'estimate' if has_posterior else 'raw'}")
    # Not the ends in the table: where estimates were smoothed, those are about another number.
    return CellNumbers.of_interval(number, *view.bound_limits(table))


def numbers_with_noise(source: ReleaseSource, statistic: str) -> CellNumbers:
    """Return released numbers of a statistic with a noise scale; see `cell_numbers`."""
    number, scale, bias, error, bound, low, high = (
        source.column(f"{statistic}_{key}")
        for key in ("noisy", "scale", "bias", "error", "bound95", "low", "high")
    )
    is_gaussian = "delta" in source.manifest["guarantee"]
    law, is_one_draw = law_at(is_gaussian), statistic == "mean" or not source.has_range
    scales = np.where(is_one_draw and not is_gaussian, scale, np.nan)
    noise = law.limit95 * scale if is_one_draw else np.maximum(bound - bias, 0.0)
    drawn = (number, noise, noise)
    if not source.has_range:
        return CellNumbers(*drawn, bias, bias, scales, "proven", is_gaussian)
    typical = BOUND_PER_MEAN * np.maximum(error - law.mean_absolute * scale, 0.0)
    below, above = np.maximum(number - low, typical), np.maximum(high - number, typical)
    if f"{statistic}_estimate" in source.table.column_names:
        estimate = source.column(f"{statistic}_estimate")
        far = BOUND_PER_MEAN * source.column(f"{statistic}_expected_error")
        below = np.clip(number - estimate + far, typical, below)
        above = np.clip(estimate - number + far, typical, above)
    is_cut = np.array(source.table[f"{statistic}_quality"].to_pylist()) == CUT_OFF
    # Estimates that remember earlier days have no cells cut off, but the noisy numbers may.
    is_cut |= f"{statistic}_today" in source.table.column_names
    below, above = (np.where(is_cut, side, typical) for side in (below, above))
    return CellNumbers(*drawn, below, above, scales, "model", is_gaussian and is_one_draw)


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

    def __repr__(self) -> str:
        # Of the release, or of the first of two.
        source = self.statement.get("source") or self.statement["before"]
        return f"{type(self).__name__}({source['dataset']!r}, n_cells={len(self)})"

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
            "software": {"hexveil": installed_version()},
        }
        with folders.new_folder(folder) as place:
            table = with_places(self.table, self.statement)
            folders.write_tables(place, table)
            folders.write_json(place / f"{kind}.json", versions | self.statement)
            files = sorted(file.name for file in place.iterdir())
            page = render_derived(self.table, self.statement, context=lines, files=files)
            (place / f"{kind}.html").write_text(page, "utf-8")
            texts = self.texts() | {"columns": table.column_names}
            readme = document("derived.md", texts).to_text()
            (place / "README.txt").write_text(readme + "\n", "utf-8")
        return Path(folder)
