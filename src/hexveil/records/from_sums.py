"""Read a table of sums per (cell, user) that another system made.

Given sums are projected to the nearest feasible ones (`hexveil.records.feasible_sums`), so a wrong
table can spoil the estimates but not the privacy. `hexveil inspect --sql` prints a query that makes
such a table.

PRIVATE. Sums per (cell, unit) that another system made, placed on the declared grid.

Nothing is taken from the table but its columns: a row without a usable count, sum, unit or declared
cell is left out without a word, as is a unit outside of the declared days. A mean is clipped to the
bounds where it is used, so a wrong sum can spoil the estimates but not the privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hexveil.base.arrays import Bools
from hexveil.base.arrow_tables import to_numpy, to_table
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, decimal_text
from hexveil.model.cells import Cells, CellTable, Labels
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.pair_bins import PairBins
from hexveil.model.private_pairs import PrivatePairs
from hexveil.model.public_metadata import PublicMetadata, Unit, ValueLattice
from hexveil.records.column_datasets import PrivateDataset, ReadingCounts
from hexveil.records.dataset import Dataset
from hexveil.records.feasible_sums import (
    LARGEST_SUM,
    project_squares,
    project_totals,
    refuse_overflow,
    squares_fit,
)
from hexveil.records.read_request import SUMS_USER, Rules
from hexveil.records.reading_arguments import (
    Protect,
    check_protect,
    facts_of,
    refuse_documents,
    terms_of,
)
from hexveil.records.select import Select, selection_counts
from hexveil.records.sources.source_files import resolve_source
from hexveil.records.sources.versions import NOT_DECLARED, join_names, quoted
from hexveil.records.sums_table import (
    BIN,
    SUMS_COLUMNS,
    cell_columns,
    cell_keys,
    check_labels,
    doubles,
    fetch_columns,
    is_present,
    nearest_bins,
    read_rows,
)
from hexveil.records.units import (
    first_day,
    refuse_single_records,
    split_unit_ids,
    warn_of_similar_ids,
)


def from_sums(  # noqa: PLR0913  a public door: keyword-only, a field per argument
    table: object,
    *,
    bounds: object,
    quantum: Number = "0.001",
    privacy_unit: Unit = "user",
    value: str = "value",
    value_unit: str | None = None,
    cells: Cells | Labels | None = None,
    min_users: int = 10,
    top: int | None = None,
    version: str | None = None,
    accept_single_records: bool = False,
    statistics: Sequence[str] | str = (),
    protect: Protect = "values",
    dates: tuple[str, str] | None = None,
    id_space: str | None = None,
) -> Dataset | Any:  # noqa: ANN401  by `protect`
    """Read a table of sums as public metadata and private sums per (cell, user).

    The table has a row per cell and user, with the columns `user`, `n` (records), `sum` (of the
    clamped values, in value units) and perhaps `sum_sq` (of their squares about 0, in squared
    value units), and those of the cell. Rows of the same cell and user are added up. Rows without
    a usable sum (present, finite, a number), user or cell are dropped and counted in the public
    rules.

    Parameters
    ----------
    table : str, path, list of them, or table
        A Parquet, CSV or JSON file, or a pandas, polars or Arrow table.
    bounds : pair of numbers
        Bounds the values were clamped to; both are multiples of `quantum`. Public.
    quantum : number
        Step on which sums are kept, in value units.
    privacy_unit : "user", "user-day" or "user-week"
        What one id in the column `user` stands for, and what is protected. To be released, each
        id of a user-day ends with a blank and the day, like "bus 7 2026-11-20"; that of a
        user-week with its Monday.
    value : str
        Name of the value.
    value_unit : str, optional
        Its unit of measure.
    cells : Cells, Labels or None
        What a cell is. None: any text in the column `cell`. `Labels` name their columns. With
        `Cells` there is a column `hexagon` (hex text or whole number) and, with a timeslot,
        `slot` (its local start, like "2024-02-19T15:00", or "15:00" for pooled slots).
    min_users : int
        Users (privacy units) a cell must have.
    top : int, optional
        Only this many cells of most records; ties go to the smaller cell.
    version : str, optional
        Version of the records, as their holder declares it.
    accept_single_records : bool
        Whether nearly every user may have a single record; see `read`.
    statistics : sequence of str, optional
        Statistics that will be published, as for `read`. With quantiles, shares or histograms among
        them the table has a row per cell, user and fine bin of the value, and the number of the bin
        in the column `bin`. A number that is none counts as the nearest one, in silence: it is
        private.
    protect : "values" or "presence"
        Privacy model. With "presence" the cells are declared, by `area` or `values`; a row without
        a usable count, sum, user or declared cell is left out without a word.
    dates : (str, str), optional
        With "presence": first and last declared day, for calendar slots, user-days and user-weeks.
    id_space : str, optional
        Name of what an id names, as for `read`; "user" by default. Name the records' column of ids,
        where an account has releases of the records themselves, too.

    Returns
    -------
    Dataset or PrivateDataset
        With sums of squares where the table has them, unless they could overflow (see `read`).
        Without a recount: the records are not at hand.

    Raises
    ------
    ColumnError
        If a column is missing.
    InputError
        If an argument, a count or a cell cannot be used, sums could overflow, or no cell is left.
        Never because of a sum.

    Privacy
    -------
    Neighbours as in `read`; who is in the table, n, and whether a sum is usable are taken to be
    public. Every row's sums are moved to the nearest that n values within the bounds can have
    (`hexveil.records.feasible_sums` proves that this keeps each user's contribution within what a
    sensitivity assumes), so nothing is assumed about the size of sums. Left to the caller: that
    a row was made from the records of its user alone. With protect="presence" all rows of one
    unit are added or removed, and nothing but the names of columns is taken to be public.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"cell": ["x", "x"], "user": ["a", "b"], "n": [2, 1], "sum": [30.5, 9.0]})
    >>> from_sums(table, bounds=(0, 65), min_users=1)
    Dataset('value', privacy_unit='user', n_cells=1, n_users=2, n_pairs=2)
    """
    grid = Labels("cell") if cells is None else cells
    is_private = check_protect(protect, grid)
    if dates is not None and not is_private:
        raise InputError('dates declare days under protect="presence"; leave them out.')
    select = Select(min_users=min_users, top=top, dates=dates)
    scale = ValueLattice.of(bounds, quantum)
    rules = Rules(
        scale,
        grid,
        select,
        privacy_unit,
        accept_single_records=accept_single_records,
        terms=terms_of(statistics, is_private=is_private),
        id_space=id_space,
    )
    declared_version = quoted(version) if version else NOT_DECLARED
    if is_private:
        return read_private_sums(
            table, rules, value=value, value_unit=value_unit or "", version=declared_version
        )
    check_labels(grid, by_bin=bool(rules.terms))
    source = resolve_source(table)
    rows, counts = read_rows(source, grid, by_bin=bool(rules.terms))
    refuse_overflow(to_numpy(rows["n"]), rules.scale)
    _check_ids(rows, rules)
    from hexveil.records.duckdb.reading import group_sums  # noqa: PLC0415  the engine

    occupancy, sums, ids, used, everything = group_sums(_feasible(rows, rules), rules)
    columns = (*cell_columns(grid), *SUMS_COLUMNS[: 3 + ("square_sum" in rows.column_names)])
    facts = PublicMetadata(
        occupancy=occupancy,
        cells=used,
        lattice=rules.scale,
        privacy_unit=privacy_unit,
        value=value,
        value_unit=value_unit or "",
        rules={**counts, **selection_counts(everything, len(used), occupancy.n_records)},
        identity={
            "source": source.label,
            "version": declared_version,
            "columns": join_names((*columns, *[BIN] * bool(rules.terms))),
            "value": value,
            "value_unit": value_unit or "",
            "quantum": decimal_text(rules.scale.quantum),
            "repeats": "as in the sums",
            # What was selected before, the sums do not say.
            "select": f"as in the sums; min_users {min_users}; top {top or 'all'}",
            "privacy_unit": privacy_unit,
            "timezone": rules.clock or "none",
        },
        bins=rules.bins,
        id_space=rules.id_space or SUMS_USER,
    )
    return Dataset(facts, sums, split_unit_ids(ids, privacy_unit))


def _check_ids(rows: pa.Table, rules: Rules) -> None:
    """Warn of ids that are much alike; refuse sums of single records, unless accepted."""
    of_ids = rows.select(["user_id", "n"]).group_by("user_id").aggregate([("n", "sum")])
    units = split_unit_ids(of_ids["user_id"].combine_chunks(), rules.privacy_unit)
    warn_of_similar_ids(units.users, SUMS_USER)
    if rules.accept_single_records or (rules.privacy_unit != "user" and units.days is None):
        return  # the users behind the units are not known
    user = np.asarray(units.users.dictionary_encode().indices)
    records = np.bincount(user, weights=of_ids["n_sum"])
    refuse_single_records(records.size, int((records == 1).sum()), "user")


def _feasible(rows: pa.Table, rules: Rules) -> pa.Table:
    """Return the rows with their nearest feasible sums, in whole numbers.

    Rows are clamped before they are added: sums of possible sums are possible, and the order of
    rows does not matter. Sums of squares are left out where one row's could overflow.
    """
    names, n = rows.column_names, to_numpy(rows["n"])
    columns: dict[str, Any] = {name: rows[name] for name in names[: names.index("n")]}
    columns |= {"n": n, "total": project_totals(doubles(rows["value_sum"]), n, rules.scale)}
    if "square_sum" in names and squares_fit(int(n.max()), rules.scale):
        squares = doubles(rows["square_sum"])
        columns["total_sq"] = project_squares(squares, n, columns["total"], rules.scale)
    if rules.bins is not None:
        columns["fine_bin"] = nearest_bins(doubles(rows["fine_bin"]), rules.bins.n_bins)
    return to_table(columns)


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
    rows, malformed = fetch_columns(source, cell_columns(rules.cells), by_bin=by_bin)
    pairs, counts = _placed(rows, facts)
    counts = {"rows read": rows.num_rows + malformed, "unparsable": malformed, **counts}
    return PrivateDataset(facts, pairs, ReadingCounts.of(counts, pairs))


def _placed(rows: pa.Table, facts: DeclaredFacts) -> tuple[PrivatePairs, dict[str, int]]:
    """Return the pairs of usable rows, and how many rows were left out. PRIVATE."""
    n, sums = doubles(rows["n"]), doubles(rows["value_sum"])
    # A missing number is NaN here, which fails each comparison.
    counted = (n >= 1) & (n <= _largest_count(facts.lattice)) & (np.floor(n) == n)
    usable = counted & np.isfinite(sums) & is_present(rows["user_id"])
    kept = np.flatnonzero(usable)
    texts = rows["user_id"].take(pa.array(kept))
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
