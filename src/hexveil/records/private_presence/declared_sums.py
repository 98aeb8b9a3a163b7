"""PRIVATE. Sums per (cell, unit) that another system made, placed on the declared grid.

Nothing is taken from the table but its columns: a row without a usable count, sum, unit or declared
cell is left out without a word, as is a unit outside of the declared days. A mean is clipped to the
bounds where it is used, so a wrong sum can spoil the estimates but not the privacy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hexveil.base.arrays import Bools
from hexveil.model.cells import CellTable
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.pair_bins import PairBins
from hexveil.model.private_pairs import PrivatePairs
from hexveil.model.public_metadata import ValueLattice
from hexveil.records.feasible_sums import LARGEST_SUM, project_totals
from hexveil.records.private_presence.private_dataset import PrivateDataset, ReadingCounts
from hexveil.records.read_request import Rules
from hexveil.records.reading_arguments import facts_of, refuse_documents
from hexveil.records.sources.source_files import resolve_source
from hexveil.records.sums_table import (
    SUMS_COLUMNS,
    cell_columns,
    cell_keys,
    check_labels,
    doubles,
    fetch_columns,
    is_present,
    nearest_bins,
)
from hexveil.records.unambiguous_names import join_names
from hexveil.records.units import first_day

NOWHERE = -1
"""Number of a cell outside of the declared grid; pairs leave it out."""
WEEK = 7


def read_private_sums(
    table: object, rules: Rules, *, value: str, value_unit: str, version: str
) -> PrivateDataset:
    """Return the data set of a table of sums with private presence; see `hexveil.from_sums`.

    Raises
    ------
    InputError
        If a declaration or a column is missing, or the source cannot be used, whatever its rows
        are.
    """
    by_bin = rules.bins is not None
    check_labels(rules.cells, by_bin=by_bin)
    columns = (*cell_columns(rules.cells), *SUMS_COLUMNS[:3])
    identity = {
        "version": version,
        "columns": join_names(columns),
        "value": value,
        "repeats": "as in the sums",
        "select": "as in the sums",
        "privacy_unit": rules.privacy_unit,
        "timezone": rules.clock or "none",
    }
    if rules.select.dates is not None:
        identity["select"] += f"; dates {' to '.join(rules.select.dates)}"
    # Every declaration is checked before a file is opened.
    facts = facts_of(rules, value, value_unit, identity)
    source = resolve_source(table)
    refuse_documents(source, "sums")
    facts = replace(facts, identity=identity | {"source": source.label})
    rows, malformed = fetch_columns(source, cell_columns(rules.cells), None, by_bin=by_bin)
    pairs, counts = _placed(rows, facts)
    counts = {"rows read": rows.num_rows + malformed, "unparsable": malformed, **counts}
    return PrivateDataset(facts, pairs, ReadingCounts.of(counts, pairs))


def _placed(rows: pa.Table, facts: DeclaredFacts) -> tuple[PrivatePairs, dict[str, int]]:
    """Return the pairs of usable rows, and how many rows were left out. PRIVATE."""
    n, sums = doubles(rows["n"]), doubles(rows["value_sum"])
    # A missing number is NaN here, which fails each comparison.
    counted = (n >= 1) & (n <= _largest_count(facts.lattice)) & (np.floor(n) == n)
    usable = counted & np.isfinite(sums) & is_present(rows["user"])
    kept = np.flatnonzero(usable)
    texts = rows["user"].take(pa.array(kept))
    ids = pc.unique(texts)
    # In the order of their bytes, as engines number units.
    ids = ids.take(pc.array_sort_indices(ids))
    unit = pc.index_in(texts, ids).to_numpy()
    cell = cell_numbers(rows.take(pa.array(kept)), facts.cells)
    cell[~_is_declared(ids, facts)[unit]] = NOWHERE
    records = n[kept].astype(np.int64)
    total = project_totals(sums[kept], records, facts.lattice)
    left_out = {
        "without a usable count, sum or user": int(usable.size - kept.size),
        "outside of the declared cells or days": int((cell == NOWHERE).sum()),
    }
    if facts.bins is None:
        return PrivatePairs(cell, unit, records, total), left_out
    fine_bin = nearest_bins(doubles(rows["fine_bin"])[kept], facts.bins.n_bins)
    binned = PairBins(np.arange(kept.size), fine_bin, records)
    return PrivatePairs(cell, unit, records, total, by_bin=binned), left_out


def _largest_count(lattice: ValueLattice) -> int:
    """Return the largest count of a row with sums of 64 bits, about 0 and the lower bound."""
    reach = max(abs(lattice.lower), abs(lattice.upper), lattice.span) / lattice.quantum
    return int(LARGEST_SUM / reach)


def _is_declared(ids: pa.Array, facts: DeclaredFacts) -> Bools:
    """Return which units the declared days hold: the ledger books those alone. PRIVATE."""
    if facts.days is None or facts.privacy_unit == "user":
        return np.ones(len(ids), dtype=np.bool_)
    begin, end = facts.days
    if facts.privacy_unit == "user-week":
        begin -= WEEK - 1  # the first week may have begun before the first day
    days = (first_day(text, facts.privacy_unit) for text in ids.to_pylist())
    inside = (day is not None and begin <= day <= end for day in days)
    return np.fromiter(inside, dtype=np.bool_, count=len(ids))


def cell_numbers(rows: pa.Table, cells: CellTable) -> NDArray[np.int64]:
    """Return the number of each row's cell in the grid, `NOWHERE` outside of it. PRIVATE.

    Parameters
    ----------
    rows : pyarrow.Table
        Columns `place0`, `place1`, ... of text: the hexagon and the slot, or labels.
    cells : CellTable
        Of the declared grid.
    """
    from hexveil.records.duckdb.reading import NUMBER, declared_table  # noqa: PLC0415  the engine

    keys = cell_keys(rows, cells.grid)
    given = pa.table({**keys, "row": np.arange(rows.num_rows)})
    placed = given.join(declared_table(cells), list(keys), join_type="inner")
    number = np.full(rows.num_rows, NOWHERE, dtype=np.int64)
    number[placed["row"].to_numpy()] = placed[NUMBER].to_numpy()
    return number
