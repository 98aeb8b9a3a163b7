"""Read a table of sums per (cell, user) that another system made.

Given sums are projected to the nearest feasible ones (`hexveil.records.feasible_sums`), so a wrong
table can spoil the estimates but not the privacy. `hexveil inspect --sql` prints a query that makes
such a table.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.base.arrow_tables import to_numpy, to_table
from hexveil.base.optional_packages import require_package
from hexveil.base.rational import Number, decimal_text
from hexveil.model.cells import Cells, Labels
from hexveil.model.public_metadata import PublicMetadata, Unit, ValueLattice
from hexveil.records import feasible_sums, sums_table
from hexveil.records.dataset import Dataset
from hexveil.records.read_request import Rules, check_arguments
from hexveil.records.reading_arguments import refuse_declared, terms_of
from hexveil.records.select import Select, selection_counts
from hexveil.records.sources.record_format import NOT_DECLARED, join_names, quoted
from hexveil.records.sources.source_files import resolve_source
from hexveil.records.sums_table import doubles, nearest_bins
from hexveil.records.units import refuse_single_records, split_unit_ids, warn_of_similar_ids


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
    id_space: str | None = None,
) -> Dataset:
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
    id_space : str, optional
        Name of what an id names, as for `read`; "user" by default. Name the records' column of ids,
        where an account has releases of the records themselves, too.

    Returns
    -------
    Dataset
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
    a row was made from the records of its user alone.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"cell": ["x", "x"], "user": ["a", "b"], "n": [2, 1], "sum": [30.5, 9.0]})
    >>> from_sums(table, bounds=(0, 65), min_users=1)
    Dataset('value', privacy_unit='user', n_cells=1, n_users=2, n_pairs=2)
    """
    grid = Labels("cell") if cells is None else cells
    check_arguments(locals() | {"cells": grid})
    refuse_declared(grid)
    require_package("duckdb", "publish")
    select = Select(min_users=min_users, top=top)
    scale = ValueLattice.of(bounds, quantum)
    rules = Rules(
        scale,
        grid,
        select,
        privacy_unit,
        accept_single_records=accept_single_records,
        terms=terms_of(statistics, is_private=False),
        id_space=id_space,
    )
    sums_table.check_labels(grid, by_bin=bool(rules.terms))
    source = resolve_source(table)
    rows, counts = sums_table.read_rows(source, grid, by_bin=bool(rules.terms))
    feasible_sums.refuse_overflow(to_numpy(rows["n"]), rules.scale)
    _check_ids(rows, rules)
    from hexveil.records.duckdb.reading import group_sums  # noqa: PLC0415  the engine

    occupancy, sums, ids, used, everything = group_sums(_feasible(rows, rules), rules)
    columns = (
        *sums_table.cell_columns(grid),
        *sums_table.SUMS_COLUMNS[: 3 + ("square_sum" in rows.column_names)],
        *[sums_table.BIN] * bool(rules.terms),
    )
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
            "version": quoted(version) if version else NOT_DECLARED,
            "columns": join_names(columns),
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
        id_space=rules.id_space or "user",
    )
    return Dataset(facts, sums, split_unit_ids(ids, privacy_unit))


def _check_ids(rows: pa.Table, rules: Rules) -> None:
    """Warn of ids that are much alike; refuse sums of single records, unless accepted."""
    of_ids = rows.select(["user_id", "n"]).group_by("user_id").aggregate([("n", "sum")])
    units = split_unit_ids(of_ids["user_id"].combine_chunks(), rules.privacy_unit)
    warn_of_similar_ids(units.users, "user")
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
    names, n, scale = rows.column_names, to_numpy(rows["n"]), rules.scale
    given = {name: doubles(rows[name]) for name in names[names.index("n") + 1 :]}
    columns: dict[str, Any] = {name: rows[name] for name in names[: names.index("n")]}
    columns |= {"n": n, "total": feasible_sums.project_totals(given["value_sum"], n, scale)}
    if "square_sum" in names and feasible_sums.squares_fit(int(n.max()), scale):
        total = columns["total"]
        columns["total_sq"] = feasible_sums.project_squares(given["square_sum"], n, total, scale)
    if rules.bins is not None:
        columns["fine_bin"] = nearest_bins(given["fine_bin"], rules.bins.n_bins)
    return to_table(columns)
