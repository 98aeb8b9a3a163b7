"""A cell of private records in a study: its user means, and the stamp on derived outputs.

A study draws simulated noise and books nothing, so its results on own records are as private as
the records are: every file and text made of them says PRIVATE, is readable by its owner alone, and
stays out of release folders. Their privacy is the caller's to keep; no guarantee covers them, nor
a choice (of a mechanism, a cap, an ε) that they led to on the records to be released.

The cell of a data set that a caller names: by name, number, or hexagon and slot. All public.

Counts of one cell from a small file: samples per user. Public.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from hexveil.base import atomic_files
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError, StorageError
from hexveil.model.cells import CellTable
from hexveil.records.dataset import Dataset

CellSelector = str | int | tuple[object, ...] | None
"""A cell's name, its number from 0, its parts (hexagon and slot, or labels); None for the only."""

SHOWN = 3
"""Cells or slots that a message names as examples."""

DIGITS = 18
"""Largest number of digits of a cell's number."""

_BETWEEN = re.compile(r"[\s,/]+")
_WHOLE_MINUTE = re.compile(r"(?<=\d\d:\d\d):00(\.0+)?$")


def select_cell(cells: CellTable, cell: CellSelector) -> int:
    """Return the number of the cell that a selector means.

    Parameters
    ----------
    cells : CellTable
    cell : str, int, tuple or None
        A name; a number from 0, also in digits; the hexagon and the slot as a release shows them,
        as a pair or in one text, of which the slot may be left out where the hexagon has a single
        one; a label of each column; None if there is only one cell.

    Raises
    ------
    InputError
        If there is no such cell, or several.
    """
    names = cells.names()
    if cell is None and len(names) == 1:
        return 0
    if cell is None:
        raise InputError(f"a cell is needed: {some_cells(names)}.")
    if isinstance(cell, str):
        if cell in names:
            return names.index(cell)
        cell = int(cell) if cell.isdecimal() and len(cell) <= DIGITS else cell
    if isinstance(cell, (int, np.integer)) and not isinstance(cell, bool):
        return int(cell) if 0 <= cell < len(names) else _refuse(names, cell)
    if isinstance(cell, tuple) and cells.labels:
        return _with_labels(cells, cell)
    if isinstance(cell, (str, tuple)) and cells.hexagon is not None:
        pieces = cell if isinstance(cell, tuple) else _split(cell)
        return _in_hexagon(cells, *pieces) if len(pieces) in (1, 2) else _refuse(names, cell)
    return _refuse(names, cell)


def some_cells(names: Sequence[str]) -> str:
    """Return how to name a cell, with the first few as examples.

    Examples
    --------
    >>> some_cells(("17/06:00", "17/07:00", "18/06:00", "18/07:00"))
    'name one of 4 (17/06:00, 17/07:00, 18/06:00, ...), or its number from 0'
    """
    return f"name one of {len(names)} ({_examples(names)}), or its number from 0"


def _refuse(names: Sequence[str], cell: object) -> int:
    raise InputError(f"there is no cell {cell!r}; {some_cells(names)}.")


def _split(text: str) -> tuple[str, ...]:
    """Return the hexagon and the slot of a text: a date and a time may have a blank between."""
    return tuple(_BETWEEN.split(text.strip(), maxsplit=1))


def _with_labels(cells: CellTable, labels: tuple[object, ...]) -> int:
    """Return the number of the cell with these labels, one for each column."""
    rows = zip(*cells.labels.values(), strict=True)
    texts = tuple(map(str, labels))
    number = next((i for i, row in enumerate(rows) if row == texts), None)
    return _refuse(cells.names(), labels) if number is None else number


def _in_hexagon(cells: CellTable, hexagon: object, slot: object = None) -> int:
    """Return the number of the cell of a hexagon, in a slot if it has several."""
    identifier = format(hexagon, "x") if isinstance(hexagon, (int, np.integer)) else str(hexagon)
    identifier = identifier.strip().lower()
    rows = [i for i, name in enumerate(cells.hexagon_names() or ()) if name == identifier]
    if not rows:
        raise InputError(
            f"there is no cell in the hexagon {identifier!r}; {some_cells(cells.names())}."
        )
    slots = cells.slot_names()
    if slots is None and slot is not None:
        raise InputError(f"cells have no slots here: name the hexagon {identifier} alone.")
    if slots is None:
        return rows[0]
    starts = [slots[row] for row in rows]
    if slot is None:
        if len(rows) == 1:
            return rows[0]
        raise InputError(
            f"the hexagon {identifier} has {len(rows)} slots: name one of them after it "
            f"({_examples(starts)})."
        )
    text = slot_text(slot)
    if text not in starts:
        raise InputError(
            f"the hexagon {identifier} has no cell in the slot {text!r}; name one of "
            f"{len(starts)} ({_examples(starts)})."
        )
    return rows[starts.index(text)]


def slot_text(slot: object) -> str:
    """Return a slot as releases write its start.

    Examples
    --------
    >>> slot_text("2024-01-01 07:00:00"), slot_text("07:00"), slot_text(time(7))
    ('2024-01-01T07:00', '07:00', '07:00')
    """
    if isinstance(slot, (datetime, time)):
        # A slot starts on the local clock: an offset would not stand in its name.
        return slot.replace(tzinfo=None).isoformat(timespec="minutes")
    return _WHOLE_MINUTE.sub("", re.sub(r"\s+", "T", str(slot).strip()))


def _examples(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def read_counts(file: str | Path) -> Ints:
    """Return the counts of a file, one per user.

    Parameters
    ----------
    file : str or Path
        A JSON list of whole numbers, or a CSV or Parquet file with one column of them (or, of
        several, the column `n` or `counts`); a CSV file may have no header.

    Raises
    ------
    InputError
        If it cannot be read as such.
    """
    path = Path(file)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"counts {path} must be a .json, .csv or .parquet file.")
    try:
        return _to_integers(reader(path), path)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; check the name of the counts.") from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InputError(f"the counts {path} cannot be read: {why}.") from None
    except InputError:
        raise
    except (pa.ArrowInvalid, ValueError, OverflowError):  # whose error can hold the text
        pass
    raise InputError(f"the counts {path} cannot be read as {path.suffix[1:]}.")


def _to_integers(column: pa.ChunkedArray | pa.Array, path: Path) -> Ints:
    """Return a column as whole numbers of at least 1, or refuse it."""
    try:
        integers = pc.cast(column, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        integers = None
    if integers is None or integers.null_count or not len(integers) or pc.min(integers).as_py() < 1:
        raise InputError(
            f"the counts {path} must be whole numbers of at least 1, one per user, none missing."
        )
    return np.asarray(integers, dtype=np.int64)


def _of_json(path: Path) -> pa.Array:
    counts = json.loads(path.read_text("utf-8"))
    # type, not isinstance: true and false are integers in Python.
    if not isinstance(counts, list) or not all(type(item) is int for item in counts):
        raise InputError(f"the counts {path} must be one list of whole numbers, like [9, 3, 1].")
    return pa.array(counts, pa.int64())


def _of_csv(path: Path) -> pa.ChunkedArray:
    with path.open(encoding="utf-8") as file:
        # A first line of digits is a count, and no name of a column.
        bare = file.readline().strip().isdigit()
    how = pyarrow.csv.ReadOptions(autogenerate_column_names=bare)
    return _column(pyarrow.csv.read_csv(path, read_options=how), path)


def _of_parquet(path: Path) -> pa.ChunkedArray:
    return _column(pyarrow.parquet.read_table(path), path)


def _column(table: pa.Table, path: Path) -> pa.ChunkedArray:
    candidates = [name for name in ("n", "counts") if name in table.column_names]
    if table.num_columns != 1 and len(candidates) != 1:
        raise InputError(f"the counts {path} must have one column, or one that is named n.")
    return table.column(candidates[0] if candidates else 0)


_READERS: dict[str, Callable[[Path], pa.Array | pa.ChunkedArray]] = {
    ".json": _of_json,
    ".csv": _of_csv,
    ".parquet": _of_parquet,
}


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
        Its name, its number from 0, or its parts; see `select_cell`.

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
