"""A cell of private records in a study: its user means, and the stamp on derived outputs.

A study draws simulated noise and books nothing, so its results on own records are as private as
the records are: every file and text made of them says PRIVATE, is readable by its owner alone, and
stays out of release folders. Their privacy is the caller's to keep; no guarantee covers them, nor
a choice (of a mechanism, a cap, an ε) that they led to on the records to be released.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

from hexveil.base import atomic_files
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError, StorageError
from hexveil.records.dataset import Dataset
from hexveil.simulation.cell_selection import CellSelector, select_cell

STAMP = "PRIVATE: computed from the values of own records; not for publication."
"""The first line of whatever is made of own records."""

NOT_COVERED = (
    "Choices made from these numbers on the records to be released are not covered by the "
    "guarantee."
)

_KEY = b"hexveil.private"


@dataclass(frozen=True, eq=False)
class OwnCell:
    """One cell of own records.

    Attributes
    ----------
    name : str
        Of the cell. Public.
    counts : ndarray of int64, shape (n_users,)
        Samples per user. Public.
    bounds : pair of Fraction
        Of a value. Public.
    user_means : ndarray of float, shape (n_users,)
        PRIVATE. Mean of each user's samples, in value units.
    """

    name: str
    counts: Ints
    bounds: tuple[Fraction, Fraction]
    user_means: Floats = field(repr=False)

    def __repr__(self) -> str:
        return f"OwnCell({self.name!r}, n_users={self.counts.size}, means private)"


def own_cell(data: Dataset, cell: CellSelector) -> OwnCell:
    """Return the counts and user means of a cell.

    Parameters
    ----------
    data : Dataset
    cell : str, int, tuple or None
        Its name, its number from 0, or its parts; see `cell_selection.select_cell`.

    Raises
    ------
    InputError
        If there is no such cell.

    Privacy
    -------
    Nothing is protected here: the means are exact up to the quantum, for use in a study whose
    result the caller keeps.
    """
    facts = data.public
    number = select_cell(facts.cells, cell)
    occupancy = facts.occupancy.local()
    of_cell = occupancy.cell == number
    bounds = facts.lattice.lower, facts.lattice.upper
    return OwnCell(
        facts.cells.names()[number], occupancy.n[of_cell], bounds, pair_means(data)[of_cell]
    )


def pair_means(data: Dataset) -> Floats:
    """Return the mean of each (cell, user) pair's samples, in value units. PRIVATE."""
    lattice, n = data.public.lattice, data.public.occupancy.local().n
    # In [0, 1] before it is stretched, so that rounding cannot leave the bounds.
    share = data.sums.total / (n * float(lattice.span_quanta))
    low, high = float(lattice.lower), float(lattice.upper)
    return np.asarray(np.clip(low + (high - low) * share, low, high))


def stamped(table: pa.Table) -> pa.Table:
    """Return a table with metadata that marks it as private."""
    metadata = table.schema.metadata or {}
    return table.replace_schema_metadata({**metadata, _KEY: f"{STAMP} {NOT_COVERED}".encode()})


def is_private(table: pa.Table) -> bool:
    """Return whether a table was made of own records."""
    return _KEY in (table.schema.metadata or {})


def check_folder(folder: str | Path) -> None:
    """Raise InputError if a folder is a release's, stands anywhere inside one, or is a file.

    A release folder is one that holds a manifest.json of a release. One that cannot be read is
    taken for such.
    """
    if Path(folder).is_file():
        raise InputError(f"{folder} is a file; name a folder.")
    for place in (Path(folder).resolve(), *Path(folder).resolve().parents):
        if _is_release(place):
            raise InputError(
                f"{folder} lies in the release folder {place.name}, which is published and never "
                "changes; name a folder outside it."
            )


def _is_release(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return False
    # A manifest that cannot be read may be a release's: writing beside it is not risked.
    except (OSError, ValueError):
        return True
    return isinstance(manifest, dict) and {"guarantee", "schema_version"} <= manifest.keys()


def write_files(folder: str | Path, files: Mapping[str, bytes], *, private: bool) -> list[Path]:
    """Write files to a folder, which is made if need be, and return their paths.

    Each stands under a temporary name until it is whole; one of the same name is replaced.
    Private files are named PRIVATE-..., and they and a folder made for them are their owner's
    alone.

    Raises
    ------
    InputError
        If the folder lies in a release folder, or is a file.
    StorageError
        If the folder or a file cannot be written.
    """
    place = Path(folder)
    check_folder(place)
    # The process's umask still applies to files that are not private.
    mode = 0o600 if private else 0o666
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
        return [
            atomic_files.write(place / (f"PRIVATE-{name}" if private else name), content, mode=mode)
            for name, content in files.items()
        ]
    except OSError as error:
        why = atomic_files.reason(error)
        raise StorageError(f"{place} cannot be written ({why}); name another folder.") from None
