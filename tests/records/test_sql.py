"""The query that makes sums elsewhere: run where it can be, its text checked where it cannot."""

import ast
import csv
import datetime as dt
import inspect
import io
import os
import pwd
import random
import shutil
import subprocess
import tempfile

import duckdb
import h3
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples, some
from hexveil import Cells, InputError, Labels, OneCell, Select, from_sums, read
from records.printed import printed, sums_query

WARSAW = "Europe/Warsaw"
INSTANTS = [
    dt.datetime.fromisoformat(text)
    for text in (
        "2024-03-31T00:59:59.5+00:00", "2024-03-31T01:00:00+00:00", "2024-10-27T00:30:00+00:00",
        "2024-10-27T01:30:00+00:00", "2024-02-18T22:59:59.999999+00:00",
        "2024-02-18T23:00:00+00:00", "1970-01-01T00:00:00+00:00", "1969-12-31T23:59:59+00:00",
        "2099-12-31T23:59:59+00:00", "2100-01-01T00:00:00+00:00", "1970-01-01T00:07:00+00:00",
    )
]  # fmt: skip
VALUES = [0.0, 0.0005, -0.0005, 1.0005, 30.0, 64.9995, 1e9, -3.5, 999.0, float("nan")]
VALUES += [float("inf"), float("-inf"), None]
USERS = ["7", "007", "é", "", None]
LATITUDES = [52.1, 52.1004, 52.4, -0.0, 0.0, 90.0, 95.0, float("nan"), None]
LONGITUDES = [21.0, 21.0004, 21.5, -180.0, 200.0, float("inf"), None]
WARDS = ["x", "y", "Ä", "", None]
FIELDS = (USERS, VALUES, [*INSTANTS, None], LATITUDES, LONGITUDES, WARDS)
records = st.lists(st.tuples(*map(st.sampled_from, FIELDS)), min_size=1, max_size=40)
KINDS = {
    "bus": pa.string(), "the speed": pa.float64(), "at": pa.timestamp("us", "UTC"),
    "lat": pa.float64(), "lon": pa.float64(), 'w"ard': pa.string(),
}  # fmt: skip
COLUMNS = {"user": "bus", "value": "the speed", "time": "at", "lat": "lat", "lon": "lon"}
selections = st.fixed_dictionaries(
    {
        "hours": st.sampled_from([None, (0, 1, 2, 3)]),
        "dates": st.sampled_from([None, ("2024-02-19", "2024-10-27")]),
        "box": st.sampled_from([None, (-180.0, -10.0, 21.2, 60.0)]),
        "drop_values": st.sampled_from([(), (999, "1.0005")]),
        "top": st.sampled_from([None, 2]),
    }
)
options = st.fixed_dictionaries(
    {
        "privacy_unit": st.sampled_from(["user", "user-day", "user-week"]),
        "repeats": st.sampled_from(["drop", "keep"]),
        "bounds": st.sampled_from([(0, 65), (-5, "2.5")]),
        "quantum": st.sampled_from(["0.001", "0.5", "1/6", "0.0000001"]),
    }
)
grids = st.one_of(
    st.builds(Labels, st.just('w"ard')),
    st.builds(
        Cells,
        resolution=st.sampled_from([0, 7]),
        timeslot=st.sampled_from(["15min", "6h", "1d", None]),
        timezone=st.just(WARSAW),
        slot=st.sampled_from(["calendar", "pooled"]),
    ),
)


def table_of(found):
    """Return records as an Arrow table."""
    columns = zip(*found, strict=True)
    arrays = [pa.array(c, kind) for c, kind in zip(columns, KINDS.values(), strict=True)]
    return pa.table(arrays, names=list(KINDS))


def hexagon(lat, lon, resolution):
    """Return the hexagon of a place."""
    return h3.str_to_int(h3.latlng_to_cell(lat, lon, resolution))


def in_duckdb(query, table):
    """Return what DuckDB makes of a query, with the function of its H3 extension."""

    def cell(lat, lon, resolution):
        places = zip(*(one.to_pylist() for one in (lat, lon, resolution)), strict=True)
        return pa.array([None if None in p else hexagon(*p) for p in places], pa.uint64())

    kinds = [duckdb.sqltypes.DOUBLE, duckdb.sqltypes.DOUBLE, duckdb.sqltypes.INTEGER]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone='America/New_York'")
        connection.create_function(
            "h3_latlng_to_cell", cell, kinds, duckdb.sqltypes.UBIGINT, type="arrow"
        )
        connection.register("trips", table)
        return connection.sql(query).to_arrow_table()


def facts_of(dataset):
    """Return cells, counts, sums and sums of squares of a data set, comparable."""
    occupancy, sums = dataset.occupancy, dataset.sums
    arrays = [occupancy.cell, occupancy.user, occupancy.n, sums.total]
    arrays += [sums.total_sq] if dataset.has_squares else []
    return dataset.public.cells.names(), [array.tolist() for array in arrays]


def asked(grid, given_options, given_select):
    """Return the arguments shared by reading and the query."""
    zone = {"timezone": WARSAW} if isinstance(grid, Labels) else {}
    select = Select(min_users=1, accept_value_dependent_counts=True, **given_select)
    return {**COLUMNS, **given_options, **zone, "cells": grid, "select": select}


def made_into(made, arguments):
    """Return the data set that a query's result gives."""
    same = {name: arguments[name] for name in ("bounds", "quantum", "privacy_unit", "cells")}
    return from_sums(made, **same, min_users=1, top=arguments["select"].top)


def crowd():
    """Return many records that share users, times and places, most of them usable."""
    draw = random.Random(7).choices  # noqa: S311  a fixed table
    weights = [[1 if odd in (None, "") or odd != odd else 6 for odd in field] for field in FIELDS]  # noqa: PLR0124  NaN
    return list(
        zip(*(draw(f, w, k=600) for f, w in zip(FIELDS, weights, strict=True)), strict=True)
    )


CROWDED = [
    (Labels('w"ard'), {}, {}),
    (Labels('w"ard'), {"privacy_unit": "user-week", "bounds": (-5, "2.5"), "quantum": "0.5"}, {}),
    (Labels('w"ard'), {"privacy_unit": "user-day"}, {"box": (-180.0, -10.0, 21.2, 60.0)}),
    (Labels('w"ard'), {"repeats": "keep"}, {"drop_values": (999, "1.0005")}),
    (OneCell(), {"privacy_unit": "user-week"}, {}),
    (OneCell(), {"repeats": "keep"}, {"drop_values": (999,)}),
    (Cells(7, "15min", "America/New_York"), {}, {"top": 3}),
    (Cells(7, "1h", WARSAW), {"privacy_unit": "user-week"}, {}),
    (Cells(0, "6h", "America/New_York", "pooled"), {"privacy_unit": "user-day"}, {}),
    (Cells(7, "1d", WARSAW), {"repeats": "keep"}, {"hours": (0, 2, 3)}),
    (Cells(7, None), {"bounds": (-5, "2.5")}, {}),
    (Cells(0, None, WARSAW), {}, {"dates": ("2024-02-19", "2024-10-27")}),
    (Labels('w"ard'), {"bounds": (-5, "2.5"), "quantum": "1/6"}, {}),
    (Labels('w"ard'), {"bounds": (-500, 2500), "quantum": "12.5"}, {}),
]


@pytest.mark.parametrize(("grid", "odd_options", "odd_select"), some(CROWDED, 4))
def test_duckdb_follows_every_rule(grid, odd_options, odd_select):
    """On records of which many share user and time, the query's sums are those of reading."""
    plain = {"bounds": (0, 65), "quantum": "0.001", "privacy_unit": "user"}
    arguments = asked(grid, plain | odd_options, odd_select)
    table = table_of(crowd())
    made = in_duckdb(sums_query(source="trips", dialect="duckdb", **arguments), table)
    known = read(table, **arguments, max_bad_rows=1, max_repeats=1)
    assert facts_of(made_into(made, arguments)) == facts_of(known)


def test_no_squares_are_printed_where_none_could_be_kept():
    """Where a single square is too large the query leaves them out, as reading does."""
    table = table_of([("a", 10.0, INSTANTS[2], 52.1, 21.0, "x")])
    shared = {"bounds": (0, 65), "quantum": "0.00000001", "cells": Labels('w"ard')}
    query = sums_query(source="trips", user="bus", value="the speed", **shared, dialect="duckdb")
    made = in_duckdb(query, table)
    assert made.column_names == ['w"ard', "user", "n", "sum"]
    assert not from_sums(made, **shared, min_users=1).has_squares


def test_labels_may_have_the_names_of_the_query_s_own_columns():
    """Labels named like the columns that hold the value do not get in the way."""
    labels = {"quanta": ["7", "7"], "Rounded_Value": ["8", "8"], "value": ["9", "9"]}
    table = pa.table({"u": ["a", "a"], "speed": [2.0, 3.0], **labels})
    shared = {"bounds": (0, 65), "cells": Labels("quanta", "Rounded_Value", "value")}
    query = sums_query(source="trips", user="u", value="speed", **shared, dialect="duckdb")
    known = read(table, user="u", value="speed", select=Select(min_users=1), **shared)
    made = in_duckdb(query, table)
    assert facts_of(from_sums(made, **shared, min_users=1)) == facts_of(known)


def test_duckdb_takes_a_location_in_geojson_order():
    """One field with longitude first stands for both degrees; a short list is no place."""
    table = pa.table(
        {"bus": ["a", "b"], "v": [1.0, 2.0], "where": pa.array([[21.0, 52.1], [21.0]])}
    )
    grid = Cells(resolution=5, timeslot=None)
    query = sums_query(
        source="trips", user="bus", value="v", bounds=(0, 65), location="where", cells=grid,
        dialect="duckdb",
    )  # fmt: skip
    made = in_duckdb(query, table)
    expected = [hexagon(52.1, 21.0, 5)]
    assert (made["hexagon"].to_pylist(), made["user"].to_pylist()) == (expected, ["a"])


@pytest.fixture(scope="module")
def postgres(postgres_programs):
    """Return a function that runs SQL in a PostgreSQL server of its own, as CSV."""
    folder, binaries = tempfile.mkdtemp(prefix="hexveil-pg-"), postgres_programs
    # PostgreSQL refuses to run as root.
    other = {"user": "nobody"} if os.geteuid() == 0 else {}
    if other:
        os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)

    def run(name, *arguments, text=None):
        return subprocess.run(
            [binaries / name, *arguments],
            input=text, capture_output=True, check=True, text=True, cwd=folder,
            env={"LC_ALL": "C.UTF-8", "PATH": os.defpath, "PGTZ": "America/New_York"}, **other,
        ).stdout  # fmt: skip

    try:
        data = f"{folder}/data"
        run("initdb", "-D", data, "-U", "me", "-A", "trust", "--no-sync", "-E", "UTF8")
        server = f"-c listen_addresses= -c fsync=off -k {folder}"
        run("pg_ctl", "-D", data, "-w", "-l", f"{folder}/log", "-o", server, "start")
        try:
            yield lambda sql: run("psql", "-h", folder, "-U", "me", "-d", "postgres", "-X", "-q",
                                  "--csv", "-v", "ON_ERROR_STOP=1", text=sql)  # fmt: skip
        finally:
            run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def as_inserts(found):
    """Return SQL that makes the table trips."""

    def literal(value):
        if value is None:
            return "NULL"
        return "'" + str(value).replace("'", "''") + "'"

    rows = ", ".join(f"({', '.join(literal(v) for v in row)})" for row in found)
    return (
        'DROP TABLE IF EXISTS trips; CREATE TABLE trips (bus text, "the speed" float8, '
        f'at timestamptz, lat float8, lon float8, "w""ard" text); INSERT INTO trips VALUES {rows};'
    )


@examples(20)
@given(
    found=records,
    grid=st.sampled_from([Labels('w"ard'), Cells(7, "6h", WARSAW), Cells(0, None)]),
    given_options=options,
    given_select=selections,
)
def test_postgres_makes_the_sums_that_reading_makes(
    postgres, found, grid, given_options, given_select
):
    """The query run in PostgreSQL, with a stand-in for hexagons, gives what reading gives."""
    table = table_of(found)
    if isinstance(grid, Cells) and grid.timezone is None:
        given_options = given_options | {"privacy_unit": "user"}
        given_select = given_select | {"hours": None, "dates": None}
    arguments = asked(grid, given_options, given_select)
    resolution = grid.resolution if isinstance(grid, Cells) else 0
    places = {row[3:5] for row in found if None not in row[3:5]}
    good = [(a, b) for a, b in places if abs(a) <= 90 and abs(b) <= 180]
    cases = " ".join(
        f"WHEN ($1)[0] = {lon!r} AND ($1)[1] = {lat!r} THEN '{hexagon(lat, lon, resolution):x}'"
        for lat, lon in good
    )
    body = f"SELECT CASE {cases} ELSE NULL END" if cases else "SELECT NULL::text"
    setup = (
        "SET client_min_messages = error; CREATE OR REPLACE FUNCTION h3_latlng_to_cell(point, int)"
        f" RETURNS text LANGUAGE sql AS $body$ {body} $body$; {as_inserts(found)}\n"
    )
    text = postgres(setup + sums_query(source="public.trips", dialect="postgres", **arguments))
    names, *rows = csv.reader(io.StringIO(text))
    try:
        known = read(table, **arguments, max_bad_rows=1, max_repeats=1)
    except InputError:
        assert rows == []
        return
    made = pa.table([pa.array(c) for c in zip(*rows, strict=True)], names=names)
    assert facts_of(made_into(made, arguments)) == facts_of(known)


IDS = {
    "bigint": ["-3", "0", "7"],
    "real": ["-3.0", "-0.0", "7", "16777216", "7.5", "NaN", "Infinity"],
    "double precision": ["-3", "-0.0", "7.0", "9007199254740992", "7.5", "NaN", "-Infinity"],
    "numeric(20, 5)": ["-3", "0", "7"],
    "decimal(38, 9)": ["-3", "0", "7"],
    "text": ["-3", "0", "7", ""],
    "varchar": ["-3.0", "-0.00", "7.00", "7", "", "0.0"],
    "boolean": ["true", "false"],
}
"""The same users, by columns of every type of number; floats that are no ids are left out."""


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("engine", ["duckdb", pytest.param("postgres", marks=pytest.mark.server)])
def test_ids_of_every_type_are_the_same_users(request, kind, engine):
    """The query spells ids as reading does, whatever the type of their column."""
    rows = ", ".join(f"('{name}', 1.0, 'x')" for name in IDS[kind])
    double = "double precision"
    setup = (
        f"DROP TABLE IF EXISTS fleet; CREATE TABLE fleet (bus {kind}, v {double}, w text); "
        f"INSERT INTO fleet VALUES {rows};\n"
    )
    query = sums_query(
        source="fleet", user="bus", value="v", bounds=(0, 65), cells=Labels("w"), dialect=engine
    )
    if engine == "duckdb":
        with duckdb.connect() as connection:
            connection.execute(setup)
            users = [row[1] for row in connection.sql(query).fetchall()]
    else:
        text = request.getfixturevalue("postgres")(setup + query)
        users = [row["user"] for row in csv.DictReader(io.StringIO(text))]
    assert sorted(users) == ([] if kind == "boolean" else ["-3", "0", "7"])


TRIPS = {"source": "shop.trips", "user": "bus", "value": "the speed", "bounds": (0, 65)}
HEXAGONS = {
    "duckdb": "h3_latlng_to_cell(lat, lon, 8)",
    "postgres": "h3_latlng_to_cell(point(lon, lat), 8)",
    "bigquery": "`carto-os`.carto.H3_FROMLONGLAT(lon, lat, 8)",
    "spark": "h3_longlatash3(lon, lat, 8)",
}


@pytest.mark.parametrize("dialect", sorted(HEXAGONS))
def test_every_dialect_applies_every_rule(dialect):
    """Each dialect's text has each rule, quotes names its own way and names what it needs."""
    grid = Cells(8, "1h", "Asia/Kolkata")
    select = Select(hours="7-8", dates=("2024-02-19", "2024-02-20"), box=(72, 21, 73, 22), top=5)
    text = sums_query(
        **TRIPS, time="at", lat="lat", lon="lon", cells=grid, select=select,
        privacy_unit="user-day",
        dialect=dialect,
    )  # fmt: skip
    mark = "`" if dialect in ("bigquery", "spark") else '"'
    comment, query = text.split("\nWITH ")
    assert all(line.startswith("-- ") for line in comment.split("\n"))
    for said in (f"({dialect})", "Needs ", "min_users=10, top=5", "text is not parsed"):
        assert said in comment
    for part in (
        f"FROM {mark}shop{mark}.{mark}trips{mark}",
        f"CAST({mark}the speed{mark} AS ",
        "local_s BETWEEN 1708300800 AND 1708473599",
        "LEAST(GREATEST(value, 0.0e0), 65.0e0) * 1000.0e0 / 1.0e0 AS scaled_value",
        ", 0), 65000) AS quanta",
        "ROW_NUMBER() OVER (PARTITION BY user_id, observed_at ORDER BY lat, lon, quanta)",
        "COUNT(*) OVER (PARTITION BY user_id, observed_at, lat, lon) AS place_records",
        "WHERE place_rank = MOD(drawn, repeats) + 1",
        f"{HEXAGONS[dialect]} AS {mark}hexagon{mark}",
        "'Asia/Kolkata'",
        f"/ 1000.0e0 * 1.0e0 / 1000.0e0 AS {mark}sum_sq{mark}",
        f"GROUP BY {mark}hexagon{mark}, {mark}slot{mark}, {mark}user{mark};",
    ):
        assert part in query
    assert max(len(line) for line in text.split("\n")) < 180


@pytest.mark.parametrize(
    "grid", [Labels("ward", "it's"), OneCell(), Cells(7, "6h", WARSAW, "pooled")]
)
def test_the_comment_shows_the_call_that_takes_the_result(grid):
    """The call in the leading comment can be copied, and means the cells that were asked for."""
    places = {"lat": "lat", "lon": "lon", "time": "at"}
    text = sums_query(**TRIPS, **places, cells=grid, dialect="duckdb")
    lines = [line.removeprefix("-- ").strip() for line in text.split("\n")[1:4]]
    call = ast.parse(" ".join(lines), mode="eval").body
    assert ast.unparse(call.func) == "hv.from_sums"
    given_arguments = {k.arg: k.value for k in call.keywords}
    assert set(given_arguments) <= set(inspect.signature(from_sums).parameters)
    cells = given_arguments["cells"]
    plain = [ast.literal_eval(a) for a in cells.args]
    named = {k.arg: ast.literal_eval(k.value) for k in cells.keywords}
    assert {"hv.Cells": Cells, "hv.Labels": Labels, "hv.OneCell": OneCell}[ast.unparse(cells.func)](
        *plain, **named
    ) == grid


@pytest.mark.parametrize(
    ("dialect", "quoted"),
    [
        ("duckdb", '"a""b`\\c"'),
        ("postgres", '"a""b`\\c"'),
        ("bigquery", '`a"b\\`\\\\c`'),
        ("spark", '`a"b``\\c`'),
    ],
)
def test_names_cannot_leave_their_quotes(dialect, quoted):
    """Quotes and backslashes in names are escaped as the dialect wants it."""
    text = sums_query(**{**TRIPS, "user": 'a"b`\\c'}, cells=Labels("w"), dialect=dialect)
    assert f"CAST({quoted} AS " in text


@pytest.mark.parametrize("odd", ["a\nb", "a\rb", "a\u2028b", "a\x00b"])
@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "bigquery", "spark"])
def test_names_cannot_leave_their_line(odd, dialect):
    """A name with a control character, which could end a comment, is refused in each place."""
    for place in ({"value": odd}, {"user": odd}, {"cells": Labels(odd)}):
        with pytest.raises(InputError, match=r"cannot be written in a query|null character"):
            sums_query(**{**TRIPS, "cells": Labels("w"), **place}, dialect=dialect)


def test_a_file_is_a_table_of_its_name_elsewhere():
    """Engines that read no files are given the file's name as that of a table."""
    for source in ("in/2024.csv.gz", "2024.parquet", "/in/2024", "in/2024/"):
        text = sums_query(**{**TRIPS, "source": source}, cells=Labels("w"), dialect="spark")
        assert "FROM `2024`" in text


def test_a_folder_is_not_one_table():
    """DuckDB is not asked to read a folder; its files are to be named."""
    with pytest.raises(InputError, match=r"cannot read the folder 'in/all'.*'in/all/\*.parquet'"):
        sums_query(**{**TRIPS, "source": "in/all"}, cells=Labels("w"), dialect="duckdb")
    query = sums_query(**{**TRIPS, "source": "in/*.csv"}, cells=Labels("w"), dialect="duckdb")
    assert "FROM read_csv('in/*.csv', types={'bus': 'VARCHAR'})" in query


def test_ids_of_a_text_file_stay_text(tmp_path):
    """DuckDB guesses the types of other columns, but 007 stays what it is, and 7.0 is 7."""
    (tmp_path / "r.csv").write_text("bus,v,w\n007,1.0,x\n7.0,2.0,x\n")
    query = sums_query(
        source=str(tmp_path / "r.csv"), user="bus", value="v", bounds=(0, 65), cells=Labels("w"),
        dialect="duckdb",
    )  # fmt: skip
    with duckdb.connect() as connection:
        assert sorted(row[1] for row in connection.sql(query).fetchall()) == ["007", "7"]


def test_a_query_is_of_one_table_and_in_one_dialect(tmp_path):
    """Several sources are refused, and a dialect that there is not."""
    run = tmp_path / "run.toml"
    run.write_text(
        'source = ["a", "b"]\ncolumns = { user = "u", value = "v" }\n'
        'values.bounds = [0, 1]\ncells.labels = ["w"]\n'
    )
    with pytest.raises(InputError, match="a query needs a single source; name one table or file"):
        printed("inspect", run, "--sql", "spark")
    with pytest.raises(InputError, match="sql must be one of duckdb, postgres, bigquery, spark"):
        printed("inspect", run, "--sql", "oracle", "--set=source=a")
