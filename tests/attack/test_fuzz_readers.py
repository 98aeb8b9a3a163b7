"""Records of any kind in every form: counted as slow plain rules count them, or one sentence."""

import csv
import datetime as dt
import decimal
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import hexveil as hv
from attack import fuzz_bytes, fuzz_oracle
from examples import examples
from hexveil.base.errors import InputError
from records import oracle

pytestmark = pytest.mark.slow

MANY = 2000 if fuzz_bytes.LONG else 12
NAMES = list(fuzz_oracle.NAMES)
USERS = ["7", "007", "", "a,b", 'q"x', "'", "z\n", "\t", " ", "null", "NaN", "é", "e\u0301"]
USERS += ["\u202ebus", "\U0001f68c", "\u2028", "A", "a", "İ", "\x01", "\\", "{}", None]
EDGES = [0.0, -0.0, -5.0, -5.25, 60.0, 60.25, 0.25, 0.75, 1e300, -1e300, 5e-324, 2.0**53]
EDGES += [float("nan"), float("inf"), float("-inf"), None]
FIRST, LAST = -(10**15), 2 * oracle.LAST * 10**6
ZONES = [dt.timedelta(minutes=m) for m in (0, 330, 345, -570, 840, -720)]

texts = st.one_of(
    st.sampled_from(USERS), st.text(st.characters(codec="utf-8", exclude_characters="\0\r"))
)
values = st.one_of(st.sampled_from(EDGES), st.floats(-100, 100))
moments = st.one_of(
    st.none(),
    st.sampled_from([-1, 0, oracle.LAST * 10**6 - 1, oracle.LAST * 10**6, 10**15]),
    st.integers(FIRST, LAST),
)
records = st.lists(
    st.tuples(texts, values, st.sampled_from(["x", "y", "=z", "", None]), moments), max_size=30
).flatmap(
    lambda rows: (
        st.lists(st.sampled_from(rows), max_size=10).map(rows.__add__) if rows else st.just(rows)
    )
)


def iso(micros, number):
    """Return an instant as ISO text on the clock of one of several zones."""
    if micros is None:
        return None
    at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)
    return at.astimezone(dt.timezone(ZONES[number % len(ZONES)])).isoformat()


def arrow(rows):
    """Return records as a typed table."""
    kinds = [pa.string(), pa.float64(), pa.string(), pa.timestamp("us", "UTC")]
    columns = zip(*rows, strict=True) if rows else [()] * len(NAMES)
    arrays = [pa.array(c, k, from_pandas=False) for c, k in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names=NAMES)


def documents(rows):
    return [
        {"user": user, "speed": finite(value), "route": label, "time": iso(micros, number)}
        for number, (user, value, label, micros) in enumerate(rows)
    ]


def finite(value):
    """Return what JSON can say of a number: NaN and infinity as their names."""
    return value if value is None or np.isfinite(value) else str(value)


def as_csv(rows, place):
    with (place / "r.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        lines.writerow(NAMES)
        lines.writerows(
            ["" if field is None else field for field in document.values()]
            for document in documents(rows)
        )
    return place / "r.csv"


def as_ndjson(rows, place):
    lines = (json.dumps(document, ensure_ascii=len(rows) % 2 == 0) for document in documents(rows))
    (place / "r.ndjson").write_text("\n".join(lines), "utf-8")
    return place / "r.ndjson"


def as_array(rows, place):
    (place / "r.json").write_text(json.dumps(documents(rows), indent=len(rows) % 3), "utf-8")
    return place / "r.json"


def as_parquet(rows, place):
    pq.write_table(arrow(rows), place / "r.parquet", row_group_size=7)
    return place / "r.parquet"


def as_arrow(rows, _place):
    table = arrow(rows)
    kinds = [pa.large_string(), pa.string_view(), pa.string()]
    table = table.set_column(0, "user", table["user"].cast(kinds[len(rows) % 3]))
    return table.set_column(2, "route", table["route"].combine_chunks().dictionary_encode())


def as_pandas(rows, _place):
    pytest.importorskip("pandas")
    frame = arrow(rows).to_pandas(date_as_object=False, timestamp_as_object=True)
    return frame.astype({"user": object})


def as_polars(rows, _place):
    return pytest.importorskip("polars").from_arrow(arrow(rows))


FORMS = (as_csv, as_ndjson, as_array, as_parquet, as_arrow, as_pandas, as_polars)


@pytest.mark.parametrize("form", FORMS)
@examples(MANY, suppress_health_check=[HealthCheck.too_slow])
@given(rows=records)
def test_any_records_are_counted_as_the_rules_say(tmp_path_factory, form, rows):
    """In every form: exact counts, sums and squares of every pair, and every public count."""
    if form is as_csv:  # a quote ends with its line
        rows = [row for row in rows if not {*"\n\r"}.intersection(f"{row[0]}{row[2]}")]
    outcome = fuzz_oracle.read(form(rows, tmp_path_factory.getbasetemp()))
    fuzz_oracle.check(outcome, rows)
    if isinstance(outcome, Exception):
        assert isinstance(outcome, InputError)


N = 3
ODD = {
    "null": pa.nulls(N),
    "boolean": pa.array([True, False, None]),
    "small": pa.array([1, 2, None], pa.int8()),
    "unsigned": pa.array([1, 2**64 - 1, None], pa.uint64()),
    "half": pa.array(np.array([1, 2, 3], np.float16)),
    "single": pa.array([1.5, 2, None], pa.float32()),
    "double": pa.array([1e308, float("nan"), float("inf")]),
    "decimal": pa.array([decimal.Decimal("1.5"), None, None], pa.decimal128(38, 3)),
    "long decimal": pa.array([decimal.Decimal("1.5"), None, None], pa.decimal256(76, 3)),
    "text": pa.array(["a", "1", None]),
    "view": pa.array(["a", "1", None], pa.string_view()),
    "bytes": pa.array([b"a", b"\xff", None]),
    "names": pa.array(["a", "b", None]).dictionary_encode(),
    "coded numbers": pa.array([1, 2, None]).dictionary_encode(),
    "date": pa.array([dt.date(2024, 1, 1), None, dt.date(1, 1, 1)]),
    "seconds": pa.array([0, 2**62, None], pa.timestamp("s")),
    "seconds of UTC": pa.array([0, 2**62, None], pa.timestamp("s", "UTC")),
    "nanoseconds": pa.array([0, 2**62, -(2**63) + 1], pa.timestamp("ns")),
    "time of nowhere": pa.array([0, 10**9, None], pa.timestamp("ms", "Nowhere/City")),
    "clock": pa.array([1, 2, None], pa.time64("ns")),
    "duration": pa.array([1, 2, None], pa.duration("s")),
    "months": pa.array([(1, 2, 3), None, None], pa.month_day_nano_interval()),
    "list": pa.array([[72.0, 21.0], [], None]),
    "pair": pa.array([[72.0, 21.0], [1.0, 1.0], None], pa.list_(pa.float64(), 2)),
    "struct": pa.array([{"a": 1}, None, {"a": 2}]),
    "point": pa.array([{"coordinates": [72.0, 21.0]}, None, {"coordinates": []}]),
    "empty struct": pa.array([{}, None, {}], pa.struct([])),
    "map": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    "union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])]
    ),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array([1.0, 2.0])),
    "broken letters": pa.Array.from_buffers(
        pa.string(),
        N,
        [None, pa.py_buffer(np.array([0, 1, 2, 3], np.int32).tobytes()), pa.py_buffer(b"a\xffb")],
    ),
    "nulls inside": pa.array(["a\0b", "a", "\0"]),
    "identifiers": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([b"0" * 16, b"1" * 16, None], pa.binary(16))
    ),
}
PLACES = {"lat": [21.0, 21.1, 21.2], "lon": [72.0, 72.1, 72.2]}
USUAL = {
    "user": ["a", "b", "c"],
    "speed": [1.0, 2.0, 3.0],
    "route": ["x"] * N,
    "time": pa.array([0, 10**9, 10**9], pa.timestamp("s", "UTC")),
    **PLACES,
}
ROLES = ("user", "speed", "time", "location")
if fuzz_bytes.LONG:
    ROLES += ("route", "lat", "lon")


@pytest.mark.parametrize("kind", ODD)
def test_any_type_of_any_column_is_read_or_refused(tmp_path, kind):
    """Each Arrow type in each role, in memory (and from Parquet): a data set or one sentence."""
    for role in ROLES:
        column = "lat" if role == "location" else role
        table = pa.table(USUAL | {column: ODD[kind]})
        sources = [table]
        if fuzz_bytes.LONG:
            sources.append(_parquet(table, tmp_path / "odd.parquet"))
        for source in sources:
            if source is not None:
                outcome = fuzz_oracle.read(source, **_roles(role))
                if not isinstance(outcome, Exception) and role != "location":
                    fuzz_oracle.check(outcome, None)


def _roles(role):
    """Return how a table is read so that a column of this role matters."""
    if role == "location":
        return {"location": "lat", "cells": hv.Cells(5, None)}
    if role in PLACES:
        box = hv.Select(min_users=1, box=(-180, -90, 180, 90))
        return {"lat": "lat", "lon": "lon", "select": box}
    return {}


def _parquet(table, path):
    """Return a file of a table; None if its types cannot be written."""
    try:
        pq.write_table(table, path)
    except (pa.ArrowException, TypeError):
        return None
    return path
