"""Data sets of several value columns, with their units numbered together: read so, or combined.

Data sets with private presence: declared facts, and pairs out of reach of public code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base.arrow_tables import to_arrow
from hexveil.base.errors import HexveilError, InputError
from hexveil.model.declared_grid import ColumnFacts, DeclaredColumns, DeclaredFacts
from hexveil.model.private_pairs import PrivatePairs
from hexveil.records.dataset import Dataset
from hexveil.records.units import Units


class ReadingCounts:
    """PRIVATE. Numbers of records by rule, for the holder's eyes alone.

    Counts show whether a reading worked, and whether somebody is in the records. They are neither
    shown by the repr nor pickled; only `lines` shows them, marked as private.
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: Mapping[str, int], pairs: PrivatePairs) -> None:
        self._counts = {
            **counts,
            # Saturated counts: exact below a million records of a unit in a cell.
            "records on the declared grid": int(pairs.records.sum()),
            "units on the declared grid": pairs.begin.size,
        }

    def lines(self) -> list[str]:
        """Return the counts as text, each line marked. PRIVATE."""
        width = max(map(len, self._counts), default=0)
        return [f"PRIVATE  {rule:<{width}}  {n:>14,}" for rule, n in self._counts.items()]

    def __repr__(self) -> str:
        return "ReadingCounts(private)"

    def __reduce__(self) -> NoReturn:
        raise HexveilError("private counts are not pickled.")


@dataclass(frozen=True, eq=False, repr=False)
class PrivateDataset:
    """Records aggregated into pairs of private presence. A plan sees `public` alone.

    Attributes
    ----------
    public : DeclaredFacts
    pairs : PrivatePairs
        Private.
    counts : ReadingCounts
        Private.
    """

    public: DeclaredFacts
    pairs: PrivatePairs
    counts: ReadingCounts

    def __repr__(self) -> str:
        facts = self.public
        return (
            f"PrivateDataset({facts.value!r}, privacy_unit={facts.privacy_unit!r}, "
            f"n_cells={facts.grid.n_cells} declared, records private)"
        )


@dataclass(frozen=True, eq=False, repr=False)
class ColumnDatasets:
    """Records aggregated into sums for each value column. A plan sees `public` alone.

    Attributes
    ----------
    datasets : mapping of str to Dataset
        By column, in the order in which the columns were named.
    public : ColumnFacts
    units : Units
        Private. Units of all columns.
    """

    datasets: Mapping[str, Dataset]
    public: ColumnFacts
    units: Units

    @classmethod
    def of(cls, datasets: Mapping[str, Dataset]) -> ColumnDatasets:
        """Return data sets of the same records as one, with a number for each unit."""
        units, numbers = number_units([ids_of(dataset) for dataset in datasets.values()])
        by_column = dict(zip(datasets, numbers, strict=True))
        facts = ColumnFacts(
            {column: dataset.public for column, dataset in datasets.items()},
            by_column,
            len(units.users),
        )
        return cls(dict(datasets), facts, units)

    def __repr__(self) -> str:
        columns = ", ".join(
            f"{column!r}: {dataset.public.occupancy.n_cells} cells"
            for column, dataset in self.datasets.items()
        )
        return (
            f"ColumnDatasets({columns}, privacy_unit={self.public.privacy_unit!r}, "
            f"n_users={self.public.n_units})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class PrivateColumns:
    """Pairs of private presence for each value column. A plan sees `public` alone.

    Attributes
    ----------
    datasets : mapping of str to PrivateDataset
        By column, in the order in which the columns were named.
    """

    datasets: Mapping[str, PrivateDataset]

    @property
    def public(self) -> DeclaredColumns:
        """Declared facts of each column."""
        return DeclaredColumns(
            {column: dataset.public for column, dataset in self.datasets.items()}
        )

    def __repr__(self) -> str:
        facts = self.public
        return (
            f"PrivateColumns({', '.join(map(repr, self.datasets))}, "
            f"privacy_unit={facts.privacy_unit!r}, n_cells={facts.leading.grid.n_cells} declared, "
            "records private)"
        )


def ids_of(dataset: Dataset) -> Units:
    """Return the units of a data set with public occupancy; refuse one without ids. PRIVATE."""
    if dataset.units is None:
        raise InputError("value columns are matched by ids, which a data set lacks; read it again.")
    return dataset.units


def number_units(columns: list[Units]) -> tuple[Units, list[NDArray[np.int64]]]:
    """Return the units of all columns, each once, and their numbers by column. PRIVATE.

    A unit is a user, or a user and the first day: the same in each column.
    """
    users = pa.concat_arrays([units.users.cast(pa.string()) for units in columns])
    codes = users.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    days = [
        np.zeros(len(units.users), np.int64) if units.days is None else units.days
        for units in columns
    ]
    keys = np.stack([codes, np.concatenate(days)])
    _, unit_rows, numbers = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    together = Units(
        users.take(to_arrow(unit_rows)),
        None if columns[0].days is None else np.concatenate(days)[unit_rows],
    )
    ends = np.cumsum([len(units.users) for units in columns])[:-1]
    # Inverse numbers have the shape of the keys in some versions of numpy.
    return together, np.split(numbers.reshape(-1).astype(np.int64), ends)


NO_SECOND_CLOCK = ("none", "not usable")
"""Of times without an offset, where there are none or they are left out."""


def combine_columns(
    datasets: Mapping[str, Dataset] | Mapping[str, PrivateDataset],
) -> ColumnDatasets | Any:  # noqa: ANN401  by the privacy model
    """Return data sets of one value each as value columns of one release.

    However each was read: by `hexveil.read`, with a cache or by Spark, or by `hexveil.from_sums`.
    `hexveil.read` with several value columns does this itself.

    Parameters
    ----------
    datasets : mapping of str to Dataset, or of str to PrivateDataset
        By the name of the value column.

    Returns
    -------
    ColumnDatasets or PrivateColumns

    Raises
    ------
    InputError
        If there are fewer than two, one is of another kind, or they differ in what a release has
        once: the privacy model, the grid, the privacy unit, or the days and the clock of its units.

    Privacy
    -------
    Neighbours: the same records; the values of one unit change within the bounds, in all data sets
    at once. Units are matched by their canonical ids (`records/units.py`), and of a unit of days by
    its first day: what one loses in all data sets adds up. Left to the caller: that a vehicle has
    the same id in each of them. With different ids it is two units, and loses as much as both.

    Of `PrivateDataset` neighbours differ in all records of one unit, in all data sets at once. In
    each of them these are the records of one unit, whatever its id there, and the sum of losses is
    booked for any unit: no ids are compared. Left to the caller: that a vehicle has one id in each.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from hexveil.records.from_sums import from_sums
    >>> rows = pa.table({"cell": ["x", "x"], "user": ["a", "b"], "n": [2, 1], "sum": [3.5, 9.0]})
    >>> tables = {"pm25": rows, "pm10": rows.slice(1)}
    >>> combine_columns(
    ...     {name: from_sums(one, bounds=(0, 65), min_users=1) for name, one in tables.items()}
    ... )
    ColumnDatasets('pm25': 1 cells, 'pm10': 1 cells, privacy_unit='user', n_users=2)
    """
    by_column = _by_column(datasets)
    _check_common(by_column)
    renamed: dict[str, Any] = {
        column: replace(dataset, public=replace(dataset.public, value=column))
        for column, dataset in by_column.items()
    }
    if isinstance(next(iter(by_column.values())), PrivateDataset):
        return PrivateColumns(renamed)
    if len({ids_of(dataset).days is not None for dataset in renamed.values()}) > 1:
        raise InputError(
            "the ids of some data sets say their day and those of others do not; end every id of "
            'the sums with a space and the day, like "bus 7 2026-11-20".'
        )
    return ColumnDatasets.of(renamed)


def _by_column(datasets: object) -> dict[str, Any]:
    """Return the data sets by column; refuse anything else."""
    by_column = dict(datasets) if isinstance(datasets, Mapping) else {}
    if len(by_column) < 2:
        raise InputError('two data sets or more are needed, by column: {"pm25": one, "pm10": two}.')
    for column, dataset in by_column.items():
        if not column or not isinstance(dataset, (Dataset, PrivateDataset)):
            raise InputError(
                f"{column!r} must be a data set of one value, as hv.read or hv.from_sums returns "
                f"it, got {type(dataset).__name__}."
            )
    return by_column


def _check_common(by_column: Mapping[str, Any]) -> None:
    """Refuse data sets that differ in a fact that a release has once."""
    leading_name, leading = next(iter(by_column.items()))
    for column, dataset in by_column.items():
        pairs = zip(_common_facts(dataset), _common_facts(leading), strict=False)
        for (fact, stated), (_, expected) in pairs:
            if stated != expected:
                raise InputError(
                    f"{column!r} and {leading_name!r} differ in {fact}, which a release has once; "
                    "read them alike, or release them one by one."
                )


def _common_facts(dataset: Dataset | PrivateDataset) -> Iterator[tuple[str, object]]:
    """Yield the common facts of all columns, by name."""
    facts = dataset.public
    yield "the privacy model (protect)", isinstance(facts, DeclaredFacts)
    if isinstance(facts, DeclaredFacts):
        # Of cells that are declared to be in use none is tested: another map.
        yield "their cells (the grid)", (facts.grid.fingerprint(), facts.grid.is_in_use)
    else:
        yield "their cells (the grid)", facts.cells.grid
    yield "the privacy unit", facts.privacy_unit
    yield "what their ids name (id_space)", facts.id_space
    if facts.privacy_unit == "user":
        return
    if isinstance(facts, DeclaredFacts):
        # The ledger books any unit of each declared day, once for all columns.
        yield "the declared days (dates)", facts.days
    # A day by one clock overlaps two by another: they would be different units.
    clock = facts.identity.get("timezone", "none")
    yield "the clock of their days (timezone)", clock
    other_clock = facts.identity.get("naive_times", "none")
    is_same = other_clock in (*NO_SECOND_CLOCK, clock)
    yield "the clock of their days (naive_times)", clock if is_same else other_clock
