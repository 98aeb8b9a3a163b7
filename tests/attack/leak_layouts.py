"""The same records in other layouts: orders of rows, files, folders, row groups, formats."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attack import leak_canaries as canaries


def records():
    """Return records of which some repeat a user and time with another place or value."""
    rows = canaries.rows()
    again = [{**row, "speed": row["speed"] - 2.5} for row in rows[::7]]
    moved = [{**row, "lat": 21.25, "lon": 72.85} for row in rows[::11]]
    return pa.Table.from_pylist([*rows, *again, *moved])


def shuffled(table, seed=11):
    """Return the rows in another order."""
    return table.take(np.random.default_rng(seed).permutation(len(table)))


def one_file(folder, table):
    return canaries.write(folder / "one.parquet", table)


def in_reverse(folder, table):
    return canaries.write(folder / "one.parquet", table.take(np.arange(len(table))[::-1]))


def in_any_order(folder, table):
    return canaries.write(folder / "one.parquet", shuffled(table))


def small_groups(folder, table):
    pq.write_table(shuffled(table), folder / "one.parquet", row_group_size=7, use_dictionary=False)
    return folder / "one.parquet"


def many_files(folder, table):
    whole = shuffled(table)
    for number in range(5):
        canaries.write(folder / f"{number}.parquet", whole.take(np.arange(number, len(whole), 5)))
    return folder


def listed(folder, table):
    return [str(path) for path in sorted(many_files(folder, table).iterdir(), reverse=True)]


def hive(folder, table):
    """Write a folder per line, whose column is left out of the files."""
    return _by(folder, table, "line", leave_out=True)


def hive_of_users(folder, table):
    """Write a folder per user, whose column is left out of the files."""
    return _by(folder, table, "bus", leave_out=True)


def hive_that_differs(folder, table):
    """Write folders that are called after columns, with other values than the records have."""
    for number, column in enumerate(("bus", "speed")):
        place = folder / f"{column}=7"
        place.mkdir()
        canaries.write(place / "one.parquet", table.take(np.arange(number, len(table), 2)))
    return folder


def one_key_that_differs(folder, table):
    """Write folders of one key that the records have, too."""
    for number in range(2):
        place = folder / f"speed={number}"
        place.mkdir()
        canaries.write(place / "one.parquet", table.take(np.arange(number, len(table), 2)))
    return folder


def _by(folder, table, column, *, leave_out):
    for name in sorted(set(table[column].to_pylist())):
        part = table.filter(pc.equal(table[column], name))
        place = folder / f"{column}={name}"
        place.mkdir()
        canaries.write(place / "part.parquet", part.drop_columns([column]) if leave_out else part)
    return folder


def csv(folder, table):
    return canaries.write(folder / "one.csv", shuffled(table))


def _in_thirds(folder, table, name):
    whole = shuffled(table)
    for number in range(3):
        place = folder / f"speed={number}"
        place.mkdir()
        canaries.write(place / name, whole.take(np.arange(number, len(whole), 3)))
    return folder


def csvs(folder, table):
    return _in_thirds(folder, table, "part.csv")


def packed(folder, table):
    return canaries.write(folder / "one.csv.gz", shuffled(table))


def array(folder, table):
    return canaries.write(folder / "one.json", shuffled(table))


def lines(folder, table):
    return _in_thirds(folder, table, "part.jsonl")


def memory(_folder, table):
    return shuffled(table)


def chunks(_folder, table):
    whole = shuffled(table)
    return pa.concat_tables([whole.slice(start, 13) for start in range(0, len(whole), 13)])


def codes(_folder, table):
    """Return ids and labels as dictionaries."""
    for name in ("bus", "line"):
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].dictionary_encode())
    return table


def pandas(_folder, table):
    return shuffled(table).to_pandas()


def polars(_folder, table):
    import polars as pl  # noqa: PLC0415  an extra

    return pl.from_arrow(shuffled(table))


LAYOUTS = (
    one_file, in_reverse, in_any_order, small_groups, many_files, listed, hive, hive_of_users,
    hive_that_differs, one_key_that_differs, csv, csvs, packed, array, lines, memory, chunks,
    codes, pandas, polars,
)  # fmt: skip
