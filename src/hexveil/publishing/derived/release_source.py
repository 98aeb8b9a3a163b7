"""A release as the source of derived numbers: its table, its manifest, and its identity."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.publishing import receipt
from hexveil.publishing.columns.column_release import ColumnReleases
from hexveil.publishing.columns.column_table import column_prefixes
from hexveil.publishing.places import without_places
from hexveil.publishing.presence.presence_manifest import MODEL
from hexveil.publishing.presence.presence_table import OPEN
from hexveil.publishing.published_numbers import Release
from hexveil.publishing.verification.loaded_release import load
from hexveil.publishing.verification.verify import has_columns
from hexveil.report.origin import describe_origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class ReleaseSource:
    """Released numbers, and the statement that says which release they are.

    Attributes
    ----------
    table : pyarrow.Table
        As released.
    manifest : mapping
        Its manifest.
    identity : mapping
        Data set, request, position in the ledger, price, and the SHA-256 of the receipt if the
        release came from a folder.
    closed_cells : int
        Cells of a map with private presence that it publishes no number of.
    """

    table: pa.Table
    manifest: Mapping[str, Any]
    identity: Mapping[str, Any]
    closed_cells: int = 0

    @property
    def is_map(self) -> bool:
        """Whether presence is private: then `table` has the open cells alone."""
        return bool(self.manifest.get("model") == MODEL)

    @property
    def strategy(self) -> str:
        """Word for a private clipping range; "" within public bounds.

        It is "" for mechanisms of single cells too: their stated bias covers private choices.
        """
        # Means beside quantiles and shares have a plan of their own.
        plan = self.manifest.get("moments", self.manifest)["plan"]
        steps = plan.get("privacy_steps") or ()
        if all(step["step"] in _WITHOUT_RANGE for step in steps):
            return ""
        return "range"

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the released statistics."""
        return tuple(self.manifest["plan"]["statistics"])


_WITHOUT_RANGE = ("cells", "cell_stages")
"""Private steps of releases within public bounds."""


def open_columns(
    release: object, *, key: str | Path | None = None
) -> dict[str, ReleaseSource] | None:
    """Return each value column of a release or folder that has several; None of another one.

    Raises
    ------
    InputError
        If the folder is not as it was written.
    """
    folder = Path(release) if isinstance(release, (str, Path)) else None
    if folder is not None:
        if not has_columns(folder):
            return None
        release = load(folder, key=key)
    if not isinstance(release, ColumnReleases):
        return None
    prefixes = column_prefixes([*release.releases])
    return {
        column: _from_release(
            one,
            None
            if folder is None
            else receipt.file_digest(folder / prefixes[column] / receipt.NAME),
        )
        for column, one in release.releases.items()
    }


def open_source(
    release: Release | ReleaseSource | str | Path, *, key: str | Path | None = None
) -> ReleaseSource:
    """Return a release in memory or in a folder, which is checked as by `hv.verify`.

    A source that was opened before is returned as it is.

    Raises
    ------
    InputError
        If the folder is not as it was written, or it is neither a release nor a folder.
    """
    if isinstance(release, ReleaseSource):
        return release
    if isinstance(release, (str, Path)):
        loaded = load(release, key=key)
        checksum = receipt.file_digest(Path(release) / receipt.NAME)
        return _from_release(loaded, checksum)
    if not isinstance(release, Release):
        raise InputError(
            f"a release or its folder is needed, got {type(release).__name__}; pass what "
            "hv.release or hv.load returned."
        )
    return _from_release(release, None)


def _from_release(release: Release, checksum: str | None) -> ReleaseSource:
    if isinstance(release, ColumnReleases):
        raise InputError(
            "a release of several value columns is no source of one table; name the folder of one "
            "inside it, or pass one of its .releases."
        )
    manifest = release.manifest
    origin = describe_origin(release.table, manifest)
    identity = {
        "dataset": manifest["dataset"]["name"],
        "request": manifest["request"],
        "ledger": manifest["ledger"],
        "privacy_unit": manifest["guarantee"]["privacy_unit"],
        "epsilon_spent": manifest["guarantee"]["epsilon_spent"],
        "receipt_sha256": checksum,
        **{name: origin[name] for name in ("period", "publisher")},
    }
    if "delta" in manifest["guarantee"]:
        identity["delta"] = manifest["guarantee"]["delta"]
    # Names for people are made again of the derived cells.
    bare = without_places(release.table, manifest)
    if manifest.get("model") != MODEL:
        return ReleaseSource(bare, manifest, identity)
    table = bare.filter(bare[OPEN])
    return ReleaseSource(table, manifest, identity, bare.num_rows - table.num_rows)
