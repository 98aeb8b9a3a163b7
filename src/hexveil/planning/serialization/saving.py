"""A plan as a folder: all that is public about it, for review before it is released.

plan.json says what was asked, what the plan costs, which records it is for, and the digest of all
contents. cells.parquet and users.parquet have the rows that `Plan.table` and `Plan.users` show,
and beside them the exact numbers of `Rows`; pairs.parquet has the counts of each (cell, user) pair.
Every number is written as the double or the whole number it is, losses and bounds as exact text.

Users are numbers, ids are not known here. The counts by pair are public by the promise, but they
show where the user of each number was: the folder is for those who review, not for publication.
The digest finds edits; it is no signature. A loaded plan's loss is worked out again from its rows
(planning/serialization/loading.py), so that no edit can make a release cheaper than it is.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.base.rational import decimal_text
from hexveil.planning.serialization.saved_words import (
    LABEL,
    TARGET,
    exact_text,
    facts_words,
    interval_words,
    request_words,
    steps_words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.allocation import PlanAllocation
    from hexveil.planning.request import Request

FORMAT = 1
"""Number of this layout; it changes whenever a file or the meaning of a row changes."""
WORDS = "plan.json"
TABLES = ("cells.parquet", "users.parquet", "pairs.parquet")
EXACT = {
    "mean_kept": pa.int64(),
    "noise_records": pa.float64(),
    "variance_kept": pa.int64(),
    "variance_noise": pa.float64(),
}
"""Columns of cells.parquet that hold `PlanAllocation`, beside those that `Plan.table` shows."""
GOES_WITH = (
    "This plan is for the records of this occupancy alone. For other records, such as tomorrow's, "
    "keep the goal in a run file (TOML) and plan those records."
)


class SavablePlan(Protocol):
    """A plan as its folder needs it: `hexveil.planning.plan.Plan`, which imports this module."""

    @property
    def occupancy(self) -> Occupancy:
        """Public counts."""

    @property
    def lower(self) -> NDArray[np.float64]:
        """Lower bound of each cell."""

    @property
    def upper(self) -> NDArray[np.float64]:
        """Upper bound of each cell."""

    @property
    def allocation(self) -> PlanAllocation:
        """Caps, factors and noise."""

    @property
    def request(self) -> Request:
        """Requested loss or errors."""

    @property
    def baseline_error(self) -> float:
        """Assumed mean error of one constant."""

    @property
    def facts(self) -> PublicMetadata | None:
        """Public metadata, where there are records."""

    @property
    def mechanism(self) -> str:
        """Name of the single-cell mechanism."""

    @property
    def epsilon(self) -> Fraction:
        """Privacy loss of the most exposed user."""

    @property
    def cell_epsilon(self) -> Fraction | None:
        """Loss of one cell, where all have the same."""

    @property
    def expected_error(self) -> float | dict[str, float]:
        """Mean planning error."""

    @property
    def worst_case_error(self) -> float | dict[str, float]:
        """Largest planning error."""

    @property
    def bound_kind(self) -> str | None:
        """Subject of the lower bound."""

    @property
    def lower_bound(self) -> float | None:
        """Certified lower bound."""

    @property
    def gap(self) -> float | None:
        """Relative distance from the bound."""

    @property
    def table(self) -> pa.Table:
        """A row per cell."""

    @property
    def users(self) -> pa.Table:
        """A row per user."""

    def losses(self) -> NDArray[np.float64]:
        """Return each user's privacy loss."""


def save(plan: SavablePlan, folder: str | Path) -> Path:
    """Write a plan into a new folder and return its path: see `Plan.save`."""
    path = Path(folder)
    words, tables = _words(plan), _tables(plan)
    words["digest"] = digest(words, tables)
    text = json.dumps(words, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    _check_new(path)
    try:
        with atomic_files.folder(path) as temporary:
            for name, table in tables.items():
                pa.parquet.write_table(table, temporary / name, compression="zstd")
            (temporary / WORDS).write_text(text, "utf-8")
    except OSError as error:
        raise StorageError(
            f"the plan could not be saved to {path} ({atomic_files.reason(error)}); nothing was "
            f"left "
            "there."
        ) from None
    return path


def digest(words: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> str:
    """Return the SHA-256 of the contents of a plan's files, whatever their bytes.

    Parameters
    ----------
    words : mapping
        What plan.json says, without "digest".
    tables : mapping of file name to Table
    """
    total = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for name in TABLES:
        for column in tables[name].column_names:
            values = tables[name][column].combine_chunks()
            head = [name, column, str(values.type), len(values), values.null_count]
            total.update(json.dumps(head).encode())
            total.update(_canonical(values))
    return total.hexdigest()


def _canonical(values: pa.Array) -> bytes:
    """Return bytes that equal columns share: little-endian numbers, or JSON of anything else."""
    normalized = not values.null_count and (
        pa.types.is_integer(values.type)
        or pa.types.is_floating(values.type)
        or pa.types.is_boolean(values.type)
    )
    if not normalized:
        return json.dumps(values.to_pylist(), default=str).encode()
    numbers = values.to_numpy(zero_copy_only=False)
    return bytes(np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("<")).tobytes())


def _words(plan: SavablePlan) -> dict[str, Any]:
    """Return the contents of plan.json, without the digest."""
    occupancy = plan.occupancy
    return {
        "format": FORMAT,
        "hexveil": importlib.metadata.version("hexveil"),
        "goes_with": GOES_WITH,
        "request": request_words(plan.request),
        "plan": {
            "mechanism": plan.mechanism,
            "epsilon": decimal_text(plan.epsilon),
            "epsilon_shown": float(plan.epsilon),
            "cell_epsilon": exact_text(plan.cell_epsilon),
            "mean_error": plan.expected_error,
            "max_error": plan.worst_case_error,
            "certifies": plan.bound_kind,
            "lower_bound": plan.lower_bound,
            "gap": plan.gap,
            "baseline_error": plan.baseline_error,
            "interval": None
            if plan.allocation.clipping_range is None
            else interval_words(plan.allocation.clipping_range),
            "steps": None
            if plan.allocation.two_stage is None
            else steps_words(plan.allocation.two_stage),
        },
        "occupancy": {
            "cells": occupancy.n_cells,
            "users": occupancy.n_users,
            "pairs": occupancy.n_pairs,
            "fingerprint": occupancy.fingerprint,
        },
        "records": None if plan.facts is None else facts_words(plan.facts),
    }


def _tables(plan: SavablePlan) -> dict[str, pa.Table]:
    """Return the tables of the folder by file name."""
    occupancy, rows = plan.occupancy.local(), plan.allocation
    pairs = {"cell": occupancy.cell, "user": occupancy.user, "n": occupancy.n}
    if rows.suppressed_pairs is not None:
        pairs["dropped"] = np.asarray(rows.suppressed_pairs, dtype=bool)
    if rows.clipping_range is not None:
        pairs["weight"] = rows.clipping_range.weight
    users = plan.users
    if rows.two_stage is not None:
        pairs["own_weight"] = rows.two_stage.weight
        users = users.append_column("class", pa.array(rows.two_stage.labels))
        users = users.append_column("class_weight", pa.array(rows.two_stage.cluster_weight))
    tables = (_cells(plan), users, pa.table(pairs))
    return dict(zip(TABLES, tables, strict=True))


def _cells(plan: SavablePlan) -> pa.Table:
    """Return `Plan.table` with the exact allocation, the targets and the cells."""
    rows = plan.allocation
    exact = (
        rows.contribution_cap,
        rows.noise_scale_records,
        rows.variance_cap,
        rows.variance_noise,
    )
    columns: dict[str, pa.Array] = {
        name: pa.array(values, type=kind)
        for (name, kind), values in zip(EXACT.items(), exact, strict=True)
    }
    if rows.two_stage is not None:
        columns["own_noise"] = pa.array(rows.two_stage.noise, type=pa.float64())
    for name, goal in (plan.request.target or {}).items():
        columns[TARGET + name] = pa.array(goal, type=pa.float64())
    if plan.facts is not None:
        cells = plan.facts.cells
        if cells.hexagon is not None:
            columns["hexagon"] = pa.array(cells.hexagon, type=pa.uint64())
        if cells.slot is not None:
            columns["slot"] = pa.array(cells.slot, type=pa.int64())
        for name, column in cells.labels.items():
            columns[LABEL + name] = pa.array(column, type=pa.string())
    table = plan.table
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


def _check_new(path: Path) -> None:
    """Refuse a folder that exists, or that cannot be made."""
    try:
        if path.exists() or path.is_symlink():
            raise InputError(f"{path} exists; a saved plan is never changed: name a new folder.")
        atomic_files.check_writable(path)
    except OSError as error:
        raise InputError(
            f"the folder {path} cannot be made ({atomic_files.reason(error)}); name one in a "
            f"folder that "
            "exists and that you may write."
        ) from None
