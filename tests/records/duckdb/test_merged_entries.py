"""Cached tables added up as packed integers: what the engine's grouping gives."""

from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil.records.duckdb.aggregation import GroupKeys
from hexveil.records.duckdb.packing import merged_entries, numbered_rows
from hexveil.records.duckdb.packing.merged_entries import merge_entries

KEYS = {
    "hexagons by user": GroupKeys({"hexagon": "", "slot": ""}, {"user_id": ""}),
    "labels by day": GroupKeys({"label0": "", "label1": ""}, {"user_id": "", "day": ""}),
}
NAMES = np.array(["b", "a", "é", "Z", "7", "007", "a b", "ab"])


def tables(folder, keys, rng, n_tables=5, rows=200):
    """Write tables with few distinct keys and huge sums; return their paths and all rows."""
    paths, everything = [], {}
    for i in range(n_tables):
        columns = {
            "hexagon": rng.choice(np.array([2**63 + 5, 3, 2**61], np.uint64), rows),
            "slot": rng.choice([-3600, 0, 7200], rows),
            "label0": rng.choice(NAMES, rows),
            "label1": rng.choice(NAMES[: i + 1], rows),
            "user_id": rng.choice(NAMES[: 3 + i], rows),
            "day": rng.integers(19_000, 19_004, rows),
        }
        columns = {name: columns[name] for name in keys.all}
        sums = rng.integers(0, 2**40, (3, rows))
        kept = {}
        for row in range(rows):
            key = tuple(column[row].item() for column in columns.values())
            kept.setdefault(key, sums[:, row])
        for key, one in kept.items():
            everything[key] = everything.get(key, 0) + one.astype(object)
        table = {
            name: list(values)
            for name, values in zip(columns, zip(*kept, strict=True), strict=True)
        }
        arrays = {n: pa.array(v, pa.uint64() if n == "hexagon" else None) for n, v in table.items()}
        n, total, squares = (pa.array([one[j] for one in kept.values()]) for j in range(3))
        arrays |= {"n": n, "total": total, "total_sq": squares.cast(pa.decimal128(38, 0))}
        paths.append(str(folder / f"{i}.pairs"))
        pq.write_table(pa.table(arrays), paths[-1])
    return paths, everything


@pytest.mark.parametrize("at_once", [1, 300, 10_000])
@pytest.mark.parametrize("name", KEYS)
def test_sums_and_order_are_those_of_a_plain_sum(name, at_once, tmp_path, monkeypatch):
    monkeypatch.setattr(merged_entries, "_ROWS_BEFORE_MERGING", at_once)
    keys = KEYS[name]
    paths, everything = tables(tmp_path, keys, np.random.default_rng(8))
    found = merge_entries(paths, keys, {0: 7}, 1e8)
    keyed = found.keyed().to_pydict()
    rows = list(zip(*(keyed[key] for key in keys.all), strict=True))
    assert set(rows) == set(everything)
    assert len(rows) == len(everything)
    for i, row in enumerate(rows):
        assert [keyed[s][i] for s in ("n", "total", "total_sq")] == everything[row].tolist()
    encoded = [tuple(k.encode() if isinstance(k, str) else k for k in row) for row in rows]
    assert all(before < after for before, after in pairwise(encoded))
    assert found.cells["users"].to_pylist() == np.bincount(found.cell).tolist()
    records = np.bincount(found.cell, weights=np.array(keyed["n"]))
    assert found.cells["records"].to_pylist() == records.tolist()
    units = found.units.to_pydict()
    assert all(
        row[len(keys.cell) :] == tuple(units[key][unit] for key in keys.unit)
        for row, unit in zip(rows, found.unit, strict=True)
    )
    assert found.left_out == {0: 7}


def test_what_does_not_fit_is_left_to_the_engine(tmp_path, monkeypatch):
    monkeypatch.setattr(merged_entries, "_PAIRS_ALWAYS_HELD", 0)
    paths, everything = tables(tmp_path, KEYS["labels by day"], np.random.default_rng(9))
    least = len(everything) * merged_entries._BYTES_OF_PAIR
    assert merge_entries(paths, KEYS["labels by day"], {}, least / 2) is None
    assert merge_entries(paths, KEYS["labels by day"], {}, least * 4) is not None


def test_low_bits_of_decimals_wrap():
    exact = [2**63 - 1, 2**64 + 5, 10**30]
    decimals = [Decimal(0), *map(Decimal, exact)]
    column = pa.chunked_array([pa.array(decimals, pa.decimal128(38, 0))[1:]])
    wrapped = np.array([e % 2**64 for e in exact], dtype=np.uint64).view(np.int64)
    assert numbered_rows._low_bits(column).tolist() == wrapped.tolist()
