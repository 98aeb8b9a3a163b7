"""What is special to Spark: parting, order, clocks, failing tasks, and what is shown of them."""

import os
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil import Cells, HexveilError, InputError, Select
from records.engines import PANDAS, agree, outcome, told
from records.test_read import WARSAW
from records.test_refusals import NOON, SENTINEL, SENTINEL_ID, reading, table

pytestmark = [pytest.mark.filterwarnings(PANDAS)]


def repeated():
    """Return records of which many share their user and time."""
    size = 400
    return pa.table(
        {
            "user": [f"u{i % 7}" for i in range(size)],
            "speed": [float(i * 37 % 66) for i in range(size)],
            "time": [NOON + i % 50 for i in range(size)],
            "lat": [52.2 + 0.05 * (i % 3) for i in range(size)],
            "lon": [21.0] * size,
        }
    )


def test_parts_and_order_change_nothing(spark):
    """One part, many parts, another order: the same data set, and the same repeats are dropped."""
    rows = repeated()
    found = agree(reading, rows, spark, repeats="drop")
    frame = spark.createDataFrame(rows)
    for parted in (frame.coalesce(1), frame.repartition(7), frame.orderBy("speed"),
                   frame.repartitionByRange(3, "lat")):  # fmt: skip
        again = told(reading(parted, repeats="drop"))
        again["identity"] = again["identity"] | {"source": "in-memory table"}
        assert again == found


@pytest.mark.parametrize("zone", ["America/New_York", "+05:30"])
def test_the_clock_of_the_session_changes_nothing(spark, zone):
    """Instants stay instants and local times local times, whatever clock Spark shows them on."""
    rows = table(time=pa.array([(NOON + i) * 10**6 for i in range(40)], pa.timestamp("us", "UTC")))
    local = table(time=pa.array([(NOON + i) * 10**6 for i in range(40)], pa.timestamp("us")))
    before = spark.conf.get("spark.sql.session.timeZone")
    frames = [spark.createDataFrame(one) for one in (rows, local)]
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for one, frame in zip((rows, local), frames, strict=True):
            agree(reading, one, spark, frame)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize("repeats", ["drop", "keep"])
def test_tasks_that_are_tried_again_change_nothing(spark, tmp_path, repeats):
    """A worker that dies once, after it has handed on records, costs time alone."""
    died = str(tmp_path / "died")

    def dying(batches):
        for batch in batches:
            yield batch
            if not os.path.exists(died):  # noqa: PTH110  runs in a worker
                os.mkdir(died)  # noqa: PTH102  runs in a worker
                os.kill(os.getpid(), 9)

    rows = repeated()
    frame = spark.createDataFrame(rows).repartition(2)
    agree(reading, rows, spark, frame.mapInArrow(dying, frame.schema), repeats=repeats)
    assert os.path.exists(died)  # noqa: PTH110


def test_an_error_in_a_task_shows_no_value(spark, capfd):
    """What the engine says of a record is in no exception, log line or context."""
    deep = "[" * 5000 + SENTINEL_ID
    rows = spark.createDataFrame(table(place=[deep] * 40))

    def quoting(batches):
        for batch in batches:
            raise ValueError(batch.to_pylist())
        yield from ()

    # The engine within a task fails, and a task of the caller's.
    for frame in (rows, rows.mapInArrow(quoting, rows.schema)):
        with pytest.raises(HexveilError) as caught:
            reading(frame, lat=None, lon=None, location="place")
        said = str(caught.value) + "".join(capfd.readouterr())
        assert SENTINEL_ID not in said
        assert str(SENTINEL) not in said
        assert caught.value.__context__ is None


def test_a_frame_is_read_by_its_own_session(spark):
    """Neither engine nor session need be named for a frame, and nothing of it is shown."""
    rows = table()
    frame = spark.createDataFrame(rows)
    found = reading(frame)
    assert told(found)["totals"] == told(reading(rows))["totals"]
    shown = repr(found) + repr(found.public.recount) + repr(found.public.recount.source)
    assert not re.search(f"{SENTINEL_ID}|41409", shown)
    with pytest.raises(InputError, match="a table in memory is for DuckDB"):
        reading(rows, engine="spark")


def test_only_named_columns_are_asked_for(spark):
    """A column that cannot be read at all does no harm if it is not named."""
    # Parted anew, since what is made of rows at hand is made at once.
    frame = (
        spark.createDataFrame(table())
        .repartition(2)
        .selectExpr(
            "*", "raise_error('read') AS bad", "make_interval(1) AS span", "parse_json('1') AS any"
        )
    )
    assert reading(frame).occupancy.n_users == 5


def test_variants_are_read_as_json(spark):
    """A variant's fields are named with dots, as those of JSON text are."""
    frame = spark.createDataFrame(table()).selectExpr(
        "*", "parse_json(concat('{\"kmh\": ', speed, '}')) AS inside"
    )
    assert told(reading(frame, value="inside.kmh"))["totals"] == told(reading(table()))["totals"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"engine": "duckdb"}, "reads no Spark DataFrame"),
        ({"engine": 7}, "engine must be"),
        ({"cache": "folder", "version": "1"}, "DataFrames and addresses are read each time"),
        ({"version": {"*": "1"}}, "version by files is for a cache"),
    ],
)
def test_what_spark_cannot_do_is_refused(spark, arguments, sentence):
    """Each in a sentence, before anything is read."""
    with pytest.raises(InputError, match=sentence):
        reading(spark.createDataFrame(table()), **arguments)


def test_addresses_are_read_by_spark(spark, tmp_path):
    """Parquet at an address; text, tables and mixtures are refused with what to do."""
    pq.write_table(table(), tmp_path / "r.parquet")
    address = (tmp_path / "r.parquet").as_uri()
    assert told(reading(address, engine=spark))["totals"] == told(reading(table()))["totals"]
    for source, sentence in (
        ("s3://bucket/r.csv.gz", "cannot be read by Spark as Parquet"),
        ([address, str(tmp_path / "r.parquet")], "cannot be combined"),
        (f"{tmp_path.as_uri()}/none.parquet", "cannot be read by Spark as Parquet"),
    ):
        with pytest.raises(InputError, match=sentence):
            reading(source, engine=spark)


def test_folders_of_tables_are_refused_by_both_engines(spark, tmp_path):
    """The log of a table says which files count, so its files are not read past it."""
    (tmp_path / "_delta_log").mkdir()
    pq.write_table(table(), tmp_path / "r.parquet")
    kind, sentence = agree(reading, tmp_path, spark)
    assert kind is InputError
    assert "is a Delta table" in sentence
    with pytest.raises(InputError, match="is a Delta table; pass "):
        reading(tmp_path.as_uri(), engine=spark)


def test_nothing_is_kept_in_spark_after_reading(spark):
    """Counts are let go, here and where reading is refused."""
    reading(spark.createDataFrame(repeated()))
    outcome(reading, spark.createDataFrame(repeated()), select=Select(min_users=99))
    assert len(spark.sparkContext._jsc.getPersistentRDDs()) == 0


def test_a_grid_without_cells_is_counted_as_none(spark):
    """Other grids are counted one by one; where none has enough users, there is none."""
    rows = repeated()
    seldom = rows.set_column(2, "time", pa.array([NOON + 3600 * i for i in range(len(rows))]))
    frame, everywhere = spark.createDataFrame(seldom), Cells(7, None, WARSAW)
    recount = reading(frame, cells=everywhere, select=Select(min_users=7)).public.recount
    assert [facts is None for facts in recount((Cells(6, "1h", WARSAW), everywhere), "user")] == [
        True, False,
    ]  # fmt: skip


def test_a_release_becomes_a_table_of_spark(spark, tmp_path):
    """Every column of the numbers is there, under its name."""
    dataset = reading(repeated(), cells=Cells(7, "1h", WARSAW))
    plan = hv.plan(dataset, epsilon=6, advise=False)
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=10)
    shown = hv.release(dataset, plan, ledger=book, accept_noise=True)
    frame = spark.createDataFrame(shown.table)
    assert frame.columns == shown.table.column_names
    assert [row["mean_raw"] for row in frame.collect()] == shown.table["mean_raw"].to_pylist()
