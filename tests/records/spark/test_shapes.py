"""Shapes and odd records that Spark reads as DuckDB does."""

import pyarrow.parquet as pq
import pytest

from cli.test_record_shapes import APART, SHAPES, TIME
from hexveil.base.errors import InputError
from hexveil.model.cells import Cells, Labels
from hexveil.records.read import read
from hexveil.records.select import Select
from hexveil.records.sources.record_format import RecordFormat
from records.engines import PANDAS, agree
from records.test_odd_records import COLUMNS, with_odd

pytestmark = [pytest.mark.filterwarnings(PANDAS)]
FORMATS = ("time_format", "record_path")


def arguments(options):
    """Return the arguments of Python for options of the command."""
    found = {}
    for option, value in zip(options[::2], options[1::2], strict=True):
        found.setdefault(option[2:].replace("-", "_"), []).append(value)
    found = {name: one[0] if len(one) == 1 else one for name, one in found.items()}
    declared = {name: found.pop(name) for name in FORMATS if name in found}
    return found | {"format": RecordFormat(**declared)}


def test_options_are_arguments():
    """Of the command and of Python alike."""
    found = arguments(("--user", "bus", *APART, "--time", "a", "--time", "b", *TIME[:0]))
    assert found["time"] == ["a", "b"]
    assert found["lat"] == "lat"


@pytest.mark.parametrize(
    "shape",
    ["WKT.csv", "pair.parquet", "microseconds.parquet", "halves.csv", "features.geojson",
     "nested.json"],
)  # fmt: skip
def test_shapes_are_read_alike(spark, tmp_path, shape):
    """Users, cells, counts and sums."""
    write, rows, options = SHAPES[shape]
    write(tmp_path / shape, rows)
    told = agree(
        read, str(tmp_path / shape), spark, bounds=(0, 65), select=Select(min_users=1),
        cells=Cells(6, timezone="Asia/Kolkata"), accept_single_records=True, **arguments(options),
    )  # fmt: skip
    assert told["sizes"] == (3, 30)


@pytest.mark.parametrize(
    "odd", [name for name in COLUMNS if "UTF-8" in name or "calendars" in name or "NUL" in name]
)
def test_odd_records_are_read_alike(spark, tmp_path, odd):
    """From a file and from memory; no byte and no time stops a reading, but one that is stated.

    Spark itself fails on milliseconds beyond its calendar in a file (docs/how-to/spark.md).
    """
    _, rows = with_odd(*COLUMNS[odd])
    pq.write_table(rows, tmp_path / "r.parquet")
    sources = [rows, *[str(tmp_path / "r.parquet")] * ("milliseconds" not in odd)]
    for source in sources:
        told = agree(
            read, source, spark, user="bus", value="speed", bounds=(0, 65), time="time",
            timezone="UTC", cells=Labels("ward"), select=Select(min_users=1), max_bad_rows=0.5,
        )  # fmt: skip
        assert len(told["ids"]) >= 3, told


def test_milliseconds_are_refused_by_type_under_private_presence(spark, tmp_path):
    """Spark fails on one beyond its calendar: whether there is one must not be told."""
    plain, odd = with_odd(*COLUMNS["milliseconds beyond calendars"])
    told = []
    for rows in (plain, odd):
        pq.write_table(rows, tmp_path / "r.parquet")
        with pytest.raises(InputError, match="has times in milliseconds") as caught:
            read(
                tmp_path / "r.parquet", engine=spark, protect="presence", user="bus", value="speed",
                bounds=(0, 65), time="time", cells=Labels("ward", values=["x", "y"]),
            )  # fmt: skip
        told.append(str(caught.value))
    assert told[0] == told[1]
