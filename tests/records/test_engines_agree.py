"""Both engines, on every shape of good and bad input: the same data set, or the same sentence."""

import datetime as dt
import gzip
import json
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from examples import examples
from hexveil import Cells, InputError, Labels, OneCell, RecordFormat, Select, from_sums, read
from records import test_record_format, test_refusals
from records.engines import PANDAS, agree
from records.printed import sums_query
from records.test_read import (
    GOOD,
    LONGITUDES,
    ONE_SLOT,
    PLACES,
    TIMES,
    USERS,
    VALUES,
    WARSAW,
    arrow,
    grids,
    read_table,
    rules,
    sources,
)
from records.test_refusals import NOON, SENTINEL, SENTINEL_ID, reading, table

pytestmark = [pytest.mark.filterwarnings(PANDAS)]
FEW = examples(
    6,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def many(size, seed=5):
    """Return records of every good and bad kind, many of them alike."""
    draw = random.Random(seed)  # noqa: S311  test data
    kinds = (VALUES, USERS, TIMES, PLACES[:5] * 4 + PLACES, LONGITUDES[:3] * 4 + LONGITUDES)
    rows = [tuple(draw.choice(kind) for kind in kinds) for _ in range(size)]
    return rows + draw.choices(rows, k=size // 4)


@FEW
@given(grids, rules, st.booleans())
def test_every_rule_acts_alike(spark, grid, rule, framed):
    """Bad values, times, places and users, units, selections, repeats: the same tables."""
    rows = arrow(many(400))
    frame = spark.createDataFrame(rows).repartition(3) if framed else None
    found = agree(lambda *a, **m: read_table(*a, grid, rule, **m), rows, spark, frame)
    assert isinstance(found, (dict, tuple))


@pytest.mark.parametrize("kind", ["r.csv.gz", "jsonl.gz", "array.json", "folder"])
def test_every_kind_of_source_gives_the_same(spark, tmp_path, kind):
    """Files, folders, lists: read by Spark as by DuckDB."""
    source = next(source for name, source in sources(tmp_path) if name.endswith(kind))
    found = agree(read_table, source, spark, grid=ONE_SLOT, rule={"min_users": 1})
    assert found["sizes"][1] == 4


def odd_texts():
    """Return records whose ids and labels are odd texts, and sort by bytes unlike by letters."""
    texts = ["a", "a ", " a", "A", "ä", "a\u0308", "é,\"x'", "\U0001f68c", "\uffff", "a\0b", "a\0",
             "-0", "007", "7", "x" * 300, "\n", "\\", None, ""]  # fmt: skip
    size = len(texts)
    return pa.table(
        {
            "user": texts * 3,
            "label": texts + texts[::-1] + texts[5:] + texts[:5],
            "side": [True, None, False] * size,
            "speed": [1.0 * i for i in range(3 * size)],
            "time": [NOON + i // 2 for i in range(3 * size)],
        }
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"cells": Labels("label")},
        {"cells": Labels("side", "label"), "repeats": "keep", "privacy_unit": "user-week"},
        {"cells": Labels("label"), "time": None, "select": Select(min_users=2, top=3)},
        {"cells": OneCell()},
        {"cells": OneCell(), "time": None, "repeats": "keep"},
    ],
)
def test_odd_texts_are_told_apart_alike(spark, arguments):
    """Blanks, accents, emoji, NUL and quotes: ids and labels byte for byte, in the same order."""
    where = {"lat": None, "lon": None, "max_bad_rows": 1, "max_repeats": 1, "timezone": WARSAW}
    arguments = {"select": Select(min_users=1), **where, **arguments}
    rows = odd_texts()
    agree(reading, rows, spark, spark.createDataFrame(rows).repartition(3), **arguments)


def numbers():
    """Return columns of every type of number, of which few fit into a double."""
    size = 40
    big = [2**53 + 1, 2**62, -(2**63), 2**31, 0, None, 7] * 6
    return {
        "decimal": pa.array([Decimal(f"{i}.0005") for i in range(size)], pa.decimal128(12, 4)),
        "long": pa.array([Decimal(i) * 10**30 for i in range(size)], pa.decimal128(38, 0)),
        "big": pa.array(big[:size], pa.int64()),
        "float": pa.array([0.1 * i for i in range(size)], pa.float32()),
        "short": pa.array([i - 20 for i in range(size)], pa.int16()),
        "text": pa.array(["1e1", " 7", "0x1", "1_000", "NaN", "-inf", "٣", "1,5"] * 5),
        "nothing": pa.nulls(size),
        "boolean": pa.array([True, False] * 20),
        "date": pa.array([dt.date(2024, 2, 19)] * size),
        "bytes": pa.array([b"1"] * size),
        "map": pa.array([[("a", 1)]] * size, pa.map_(pa.string(), pa.int64())),
        "day": pa.array([dt.timedelta(1)] * size, pa.duration("us")),
    }


@pytest.mark.parametrize("name", list(numbers()))
def test_every_type_of_value_is_read_or_refused_alike(spark, name):
    """Decimals, whole numbers and text round alike; what is no number is refused alike."""
    rows = table(speed=numbers()[name])
    frame = spark.createDataFrame(rows)
    agree(
        reading, rows, spark, frame, max_bad_rows=1, max_repeats=1, bounds=(-5, "12.5"), time="time"
    )


ID_COLUMNS = {
    "whole": pa.array([7, -3, None, 0] * 10),
    "float": pa.array([7.0, -3.0, None, -0.0] * 10),
    "short float": pa.array([7.0, -3.0, float("nan"), 0.0] * 10, pa.float32()),
    "decimal": pa.array([*map(Decimal, ("7.00", "-3.00")), None, Decimal("0.00")] * 10),
    "small decimal": pa.array(
        [*map(Decimal, ("7", "-3")), None, Decimal(0)] * 10, pa.decimal128(18, 9)
    ),
    "text": pa.array(["7", "-3", None, "0"] * 10),
    "text of floats": pa.array(["7.0", "-3.00", "", "0.0"] * 10),
}
"""The same users, by columns of every type of number."""
EXACT_REFUSED = [
    pa.array([7.5] * 40),
    pa.array([1e300] * 40),
    pa.array([2.0**24] * 40, pa.float32()),
]


@pytest.mark.parametrize("name", ID_COLUMNS)
def test_ids_of_every_type_are_the_same_users(spark, name):
    """Both engines, and the query for warehouses, find the users of the other types."""
    rows = table(user=ID_COLUMNS[name])
    frame = spark.createDataFrame(rows)
    found = agree(reading, rows, spark, frame, max_bad_rows=1, max_repeats=1)
    assert found["ids"] == [b"-3", b"0", b"7"]
    frame.createOrReplaceTempView("trips")
    query = sums_query(
        source="trips", user="user", value="speed", bounds=(0, 65), cells=Labels("lon"),
        dialect="spark",
    )  # fmt: skip
    made = spark.sql(query.rstrip().rstrip(";")).toArrow()
    again = from_sums(made, bounds=(0, 65), cells=Labels("lon"), min_users=1)
    assert again.units.ids() == found["ids"]


@pytest.mark.parametrize("number", range(len(EXACT_REFUSED)))
def test_floats_that_are_no_ids_are_refused_alike(spark, number):
    """With the same sentence; the query for warehouses, which cannot refuse, has no such user."""
    rows = table(user=EXACT_REFUSED[number])
    frame = spark.createDataFrame(rows)
    kind, sentence = agree(reading, rows, spark, frame, max_bad_rows=1, max_repeats=1)
    assert (kind, "(records: 40)" in sentence) == (InputError, True)
    frame.createOrReplaceTempView("trips")
    query = sums_query(
        source="trips", user="user", value="speed", bounds=(0, 65), cells=Labels("lon"),
        dialect="spark",
    )  # fmt: skip
    assert spark.sql(query.rstrip().rstrip(";")).count() == 0


HEADER = "user,speed,time,lat,lon\n"
GOOD_LINES = "".join(f"u{i % 3},{i},{NOON + i},52.2,21\n" for i in range(30))
BAD_LINES = f'{SENTINEL_ID},{SENTINEL}\n"a,b",1\n'
DOCUMENT = {"user": "u", "speed": 1, "time": NOON, "lat": 52.2, "lon": 21.0}
DOCUMENTS = [json.dumps(DOCUMENT | {"time": NOON + i}) for i in range(30)]
TEXTS = {
    "malformed lines": {"r.csv": HEADER + GOOD_LINES + BAD_LINES},
    "too many malformed lines": {"r.csv.gz": HEADER + GOOD_LINES + BAD_LINES * 9},
    "other columns": {
        "1.csv": HEADER + GOOD_LINES,
        "2.csv": f"lon;lat;more;user;time\n21;52.2;x;b;{NOON + 99}\n",
    },
    "malformed documents": {
        "r.ndjson": "\n".join([*DOCUMENTS, f'{{"user": "{SENTINEL_ID}",', "7\n"])
    },
    "broken array": {"r.json": f'[{DOCUMENTS[0]}, {{"user": "{SENTINEL_ID}"'},
}


def written(folder, shape):
    """Write files of a shape; return the source."""
    if shape in TEXTS:
        paths = [folder / name for name in TEXTS[shape]]
        for path, text in zip(paths, TEXTS[shape].values(), strict=True):
            packed = path.suffix == ".gz"
            path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        return paths
    if shape == "other types":
        pq.write_table(table(), folder / "1.parquet")
        pq.write_table(table(speed=["1"] * 40), folder / "2.parquet")
        return str(folder / "*.parquet")
    if shape == "odd names":
        pq.write_table(table(), folder / "a [1]*?{b}%20 é.parquet")
        return folder / "a [1]*?{b}%20 é.parquet"
    for ward in ("a b", "é%2F7", "__HIVE_DEFAULT_PARTITION__", "007"):
        there = folder / f"ward={ward}" / "day=1"
        there.mkdir(parents=True)
        pq.write_table(table(size=8), there / "r.parquet")
    return folder


@pytest.mark.parametrize(
    ("shape", "arguments"),
    [
        ("malformed lines", {}),
        ("too many malformed lines", {}),
        ("other columns", {"max_bad_rows": 1, "max_repeats": 1}),
        ("malformed documents", {}),
        ("broken array", {}),
        ("other types", {}),
        ("odd names", {}),
        ("folders", {"cells": Labels("ward", "day"), "lat": None, "lon": None, "max_bad_rows": 1}),
    ],
)
def test_every_shape_of_files_is_read_or_refused_alike(spark, tmp_path, shape, arguments):
    """Malformed lines are counted, other columns merged or refused, folders are columns."""
    found = agree(reading, written(tmp_path, shape), spark, **arguments)
    assert SENTINEL_ID not in str(found) or isinstance(found, dict)


def test_nothing_in_a_source_is_refused_alike(spark, tmp_path):
    """No record, no file, no kind of file, no column."""
    rows = table().slice(0, 0)
    assert isinstance(agree(reading, rows, spark, spark.createDataFrame(rows)), tuple)
    (tmp_path / "r.csv").write_text("user,speed,time,lat,lon\n")
    for source in (tmp_path / "r.csv", str(tmp_path / "*.x"), tmp_path / "none", 7, []):
        assert isinstance(agree(reading, source, spark), tuple)


@pytest.mark.parametrize("case", test_refusals.REFUSALS)
def test_what_cannot_be_used_is_refused_alike(spark, case):
    """With the same counts and hints; what is wrong with an argument before Spark is asked."""
    columns, arguments, _ = case
    if "engine" not in arguments:
        assert isinstance(agree(reading, table(**columns), spark, **arguments), tuple)


@pytest.mark.parametrize(("n", "steps"), [(3, 2**30), (4, 2**30), (2, 2**31), (2, 2**52)])
def test_squares_are_kept_or_left_out_alike(spark, n, steps):
    """The last that fit are exact; where they do not, sums stay."""
    rows = pa.table({"u": ["a"] * n + ["b"], "v": [float(steps)] * n + [0.0], "w": ["x"] * (n + 1)})
    found = agree(
        read, rows, spark, spark.createDataFrame(rows).repartition(3), user="u", value="v",
        bounds=(0, steps), quantum=1, cells=Labels("w"), select=Select(min_users=1),
    )  # fmt: skip
    assert found["totals"] == [n * steps, 0]
    assert (found["squares"] is None) == (n * steps**2 >= 2**62)


def test_recounts_agree(spark):
    """Counting again on other grids, labels and units gives the same facts on both engines."""
    rows = [r for r in many(400) if None not in r] + list(GOOD)
    grids_asked = (Cells(5, "3h", WARSAW), ONE_SLOT, Cells(0, None))
    for repeats in ("drop", "keep"):
        one, other = (
            read_table(source, ONE_SLOT, {"min_users": 1}, repeats=repeats)
            .public.recount(grids_asked, "user-day")
            for source in (arrow(rows), spark.createDataFrame(arrow(rows)))
        )  # fmt: skip
        for here, there in zip(one, other, strict=True):
            assert here.occupancy.fingerprint == there.occupancy.fingerprint
            assert here.rules == there.rules
            assert here.cells.hexagon.tolist() == there.cells.hexagon.tolist()


def test_spark_reads_declared_formats_alike(spark, tmp_path):
    """Texts, nested records and folders with other columns are the same to both engines."""
    spelled = pa.table(
        {
            "bus": ["a", "b"],
            "ward": ["x", "x"],
            "speed": ["1,5", "2,5"],
            "at": ["01/02/2024 10:00", "02/02/2024 10:00"],
        }
    )
    rules, where = test_record_format.RULES, test_record_format.LOCAL
    declared = RecordFormat(decimal=",", time_format="%d/%m/%Y %H:%M")
    assert isinstance(agree(read, spelled, spark, format=declared, **rules | where), dict)
    (tmp_path / "r.json").write_text(json.dumps({"r": spelled.to_pylist()}, indent=1))
    nested = RecordFormat(**vars(declared) | {"record_path": "r"})
    json_file = str(tmp_path / "r.json")
    assert isinstance(agree(read, json_file, spark, format=nested, **rules | where), dict)
    differ, folder = test_record_format.DIFFER, test_record_format.folder
    csv = folder(tmp_path / "csv", differ)
    parquet = folder(tmp_path / "parquet", differ, pq.write_table, "parquet")
    for source in (csv, parquet):
        assert isinstance(agree(read, source, spark, **rules), dict)
