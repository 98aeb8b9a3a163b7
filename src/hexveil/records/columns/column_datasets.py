"""Data sets of several value columns of the same records, with their units numbered together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base.arrow_numbers import to_arrow
from hexveil.base.errors import InputError
from hexveil.model.column_facts import ColumnFacts, DeclaredColumns
from hexveil.records.dataset import Dataset
from hexveil.records.private_presence.private_dataset import PrivateDataset
from hexveil.records.units import Units


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

    def close(self) -> None:
        """Release pairs that are not in memory; without any, do nothing."""
        for dataset in self.datasets.values():
            dataset.close()

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

    def close(self) -> None:
        """Release resources kept elsewhere."""
        for dataset in self.datasets.values():
            dataset.close()

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
