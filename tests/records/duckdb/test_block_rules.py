"""Rules applied by numpy to blocks of declared types: the engine's query, record by record."""

import numpy as np
import pyarrow as pa
import pytest

from hexveil.base.arrow_numbers import to_numpy
from hexveil.model.cells import DAY, Cells
from hexveil.model.public_metadata import ValueLattice
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.delimited.typed_columns import TYPES
from hexveil.records.duckdb.packing.bit_layout import clocked_keys
from hexveil.records.duckdb.packing.block_rules import BlockRules
from hexveil.records.duckdb.relation import Relation
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.validation import validate_records
from hexveil.records.read_request import ReadRequest, RecordColumns, Rules
from hexveil.records.select import Select
from hexveil.records.sources.columns import ColumnType
from hexveil.records.utc_offsets import END_OF_TIMES

FIELDS = {"value": "v", "user": "u", "lat": "lat", "lon": "lon", "time": "t"}
COLUMNS = RecordColumns(user="u", value="v", lat="lat", lon="lon", time="t")
ZONE = "America/New_York"
FINE = ValueLattice.of(("-1000.5", 2000), "0.5")
RULES = {
    "user": Rules(FINE, Cells(7, "15min", ZONE), Select()),
    "pooled": Rules(FINE, Cells(7, "1h", "Asia/Kolkata", slot="pooled"), Select(hours="0-9,22")),
    "day": Rules(
        ValueLattice.of((0, 65), "0.1"),
        Cells(7, "1d", ZONE),
        Select(dates=("1970-01-01", "2024-11-03")),
        privacy_unit="user-day",
    ),
    "week": Rules(
        ValueLattice.of(("0.3", "2000.1"), "0.3"),
        Cells(7, "1h", "Pacific/Kiritimati"),
        Select(box=(-10.0, -45.0, 120.5, 60.0), drop_values=(0, "0.25")),
        privacy_unit="user-week",
    ),
    "no slot": Rules(ValueLattice.of((0, 3_000_000_000), 1), Cells(7, None), Select()),
}


def block(n, seed, *, naive, clean):
    """Return records, of which each is a user's only one; few are clean if not all."""
    rng = np.random.default_rng(seed)
    # Halves of quanta, and their neighbours, are where rounding could differ.
    value = rng.integers(-2_500, 5_000, n) / rng.choice([2.0, 4.0, 20.0, 0.0011], n)
    value = np.where(rng.random(n) < 0.2, np.nextafter(value, rng.choice([-1e9, 1e9], n)), value)
    changes = np.array([1_699_164_000, 1_710_054_000, 1_730_613_600, 0, END_OF_TIMES])
    second = rng.choice(changes, n) + rng.integers(-4 * 3600, 4 * 3600, n)
    second = np.where(rng.random(n) < 0.5, rng.integers(0, END_OF_TIMES, n), second)
    time = np.clip(second, 0, END_OF_TIMES - 1) * 10**6 + rng.integers(0, 10**6, n)
    lat, lon = rng.uniform(-90, 90, n), rng.uniform(-180, 180, n)
    nulls = [None] * 5
    if not clean:
        time = np.where(rng.random(n) < 0.1, second * 10**6, time)
        lat, lon = (np.where(rng.random(n) < 0.1, 2 * degrees, degrees) for degrees in (lat, lon))
        value[rng.random(n) < 0.05] = rng.choice([0.0, -0.0, 0.25, 1e300, -1e300])
        nulls = rng.random((5, n)) < 0.05
    if naive:  # whatever is accepted as such is not before 1970
        time = np.maximum(time, 0)
    kinds = [pa.float64(), pa.int32(), pa.float64(), pa.float64()]
    kinds.append(pa.timestamp("us", None if naive else "UTC"))
    columns = (value, np.arange(n), lat, lon, time)
    arrays = [
        pa.array(column, mask=mask).cast(kind)
        for column, mask, kind in zip(columns, nulls, kinds, strict=True)
    ]
    # Sliced: a batch begins anywhere in its columns.
    return pa.record_batch(arrays, list(FIELDS.values())).slice(3)


def by_engine(batch, types, request):
    """Return the numbers of kept records in the order of users, and the counts of reasons."""
    schema = {name: TYPES[kind] for name, kind in types.items()}
    schema["u"] = ColumnType("number", is_integer=True)
    with Session("200MB") as session:
        session.register("block", pa.table(batch))
        relation = Relation("SELECT * FROM block", schema)
        records = validate_records(session, relation, request)
        grid, unit = request.rules.cells, request.rules.privacy_unit
        keys = clocked_keys(aggregation.group_keys(session, grid, unit, records.places))
        clocked = [f"{expression} + {DAY} AS {name}" for name, expression in keys.items()]
        columns = ", ".join(
            ["whole_user_id AS user_id", *clocked, "quanta", "place0", "place1", "time_us"]
        )
        table = session.arrow(
            f"SELECT {columns} FROM ({records.query}) WHERE reject_reason = 0 ORDER BY user_id"
        )
        counts = session.rows(
            f"SELECT reject_reason, count(*) FROM ({records.query}) "
            "WHERE reject_reason > 0 GROUP BY ALL"
        )
    return {name: to_numpy(table[name]) for name in table.column_names}, dict(counts)


@pytest.mark.parametrize("name", RULES)
def test_records_are_those_of_the_query(name):
    rules = RULES[name]
    request = ReadRequest(COLUMNS, rules)
    for seed, (naive, clean) in enumerate(((0, 0), (1, 0), (0, 1))):
        if naive and rules.naive is None:
            continue
        batch = block(700, seed, naive=naive, clean=clean)
        types = dict.fromkeys(("v", "lat", "lon"), "number")
        types |= {"u": "text", "t": "naive time" if naive else "time"}
        block_rules = BlockRules(request, FIELDS, timed=True)
        assert block_rules.fit(types)
        kept = block_rules.apply(batch, types)
        expected, counts = by_engine(batch, types, request)
        assert list(kept.columns) == list(expected)
        for column, numbers in expected.items():
            # Bit by bit, where numbers of different widths are equal.
            assert np.array_equal(kept.columns[column], numbers), column
        found = {int(i): int(kept.left_out[i]) for i in np.flatnonzero(kept.left_out)}
        assert found == counts
        assert kept.columns["quanta"].size > 30
        assert clean or sum(counts.values()) > 100


def test_text_and_numbers_as_times_are_left_to_the_engine():
    rules = BlockRules(ReadRequest(COLUMNS, RULES["day"]), FIELDS, timed=False)
    types = dict.fromkeys(("v", "lat", "lon"), "number") | {"u": "text", "t": "time"}
    assert rules.fit(types)
    for column, kind in (("t", "number"), ("t", "text"), ("v", "text"), ("lat", "text")):
        assert not rules.fit(types | {column: kind})


def test_records_are_private():
    request = ReadRequest(COLUMNS, RULES["user"])
    types = dict.fromkeys(("v", "lat", "lon"), "number") | {"u": "text", "t": "time"}
    batch = block(50, 1, naive=False, clean=True)
    assert "array" not in repr(BlockRules(request, FIELDS, timed=True).apply(batch, types))
