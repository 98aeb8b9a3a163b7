"""Bad input: each is one clear sentence, and none says anything private."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples import some
from hexveil import Cells, ColumnError, HexveilError, InputError, Labels, Select, from_sums, read

NOON = 1_708_340_400
SENTINEL_ID, SENTINEL = "bus-9182736455", 41.40917
GRID = Cells(5, "1h", "Europe/Warsaw")


def table(size=40, **columns):
    """Return good records of a few users, some columns replaced."""
    good = {
        "user": [f"u{i % 4}" for i in range(size - 1)] + [SENTINEL_ID],
        "speed": [float(i) for i in range(size - 1)] + [SENTINEL],
        "time": [NOON + i for i in range(size)],
        "lat": [52.2 + 0.0001 * i for i in range(size)],
        "lon": [21.0] * size,
    }
    return pa.table(good | columns)


def reading(source, **more):
    """Read the table above."""
    arguments = {
        "user": "user", "value": "speed", "lat": "lat", "lon": "lon", "time": "time",
        "bounds": (0, 65), "cells": GRID, "select": Select(min_users=1), "max_repeats": 1,
    }  # fmt: skip
    return read(source, **(arguments | more))


def refused(source, sentence, **more):
    """Assert that reading is refused with a sentence that says nothing private."""
    with pytest.raises(InputError, match=sentence) as caught:
        reading(source, **more)
    text = str(caught.value)
    assert SENTINEL_ID not in text
    assert str(SENTINEL) not in text
    assert text.endswith((".", "?"))
    assert "\n" not in text
    assert caught.value.exit_code == 2
    assert caught.value.__cause__ is None
    return caught.value


NO_PLACE = {"lat": None, "lon": None}
REFUSALS = [
    ({}, {"bounds": (65, 0)}, "bounds must run from the smaller"),
    ({}, {"bounds": (0, float("inf"))}, "upper bounds must be a finite number"),
    ({}, {"bounds": (float("nan"), 65)}, "lower bounds must be a finite number"),
    ({}, {"bounds": (0, "0.0005")}, "upper bound 0.0005 is not a multiple of the quantum"),
    ({}, {"bounds": (0, 10**9), "quantum": "0.0000001"}, "coarser quantum"),
    ({}, {"quantum": 0}, "quantum must be positive"),
    ({}, {"timezone": "Europe/Warsav"}, "did you mean 'Europe/Warsaw'"),
    ({}, {"privacy_unit": "day"}, "unit must be one of"),
    ({}, {"repeats": "maybe"}, "repeats must be"),
    ({}, {"max_bad_rows": 2}, "max_bad_rows must be a share"),
    ({}, {"max_bad_rows": True}, "max_bad_rows must be a share"),
    ({}, {"memory": "a lot"}, "memory must be a size"),
    ({}, {"memory": "1MB"}, "memory must be a size"),
    ({}, {"engine": "sparks"}, "engine must be"),
    ({}, {"cells": 8}, "cells must be"),
    ({}, {"select": {}}, "select must be"),
    ({}, {"lon": None}, "lat and lon are named together"),
    ({}, {"location": "place"}, "cannot be combined"),
    ({}, NO_PLACE, "hexagons need places"),
    ({}, {"time": None}, "timeslots need times"),
    ({}, {"user": ""}, "user must be the name of a column"),
    ({}, {"value": None}, "value must be the name of a column"),
    ({}, {"time": None, "cells": Cells(5, None), "privacy_unit": "user-day"}, "-day' needs"),
    ({}, {"cells": Cells(5, None), "select": Select(hours=[7])}, "hours needs .* name timezone"),
    ({}, NO_PLACE | {"cells": Labels("user"), "select": Select(box=(20, 50, 22, 54))}, "box needs"),
    ({}, {"accept_single_records": "yes"}, "accept_single_records must be true or false"),
    # Columns that are not there, or of a type that cannot be meant.
    ({}, NO_PLACE | {"location": "spot"}, "location: the source has no column 'spot'"),
    ({}, NO_PLACE | {"location": "lat"}, "holds no list"),
    ({}, {"cells": Labels("route")}, "label: the source has no column 'route'"),
    ({}, {"user": "users"}, "no column 'users'"),
    ({}, {"value": "time.x"}, "value and time cannot be"),
    ({"speed": [True] * 40}, {}, "holds boolean values, not numbers"),
    ({"time": [True] * 40}, {}, "holds boolean values, not times"),
    ({"user": [["a"]] * 40}, {}, "is nested"),
    # A value would be published without noise as an id, a place, a time, a label, or a degree.
    *[
        ({}, {role: "speed"}, f"value and {role} cannot be")
        for role in ("user", "lat", "lon", "time")
    ],
    ({}, NO_PLACE | {"cells": Labels("speed")}, "cannot be the same column"),
    ({}, NO_PLACE | {"cells": Labels("inside"), "value": "inside.speed"}, "cannot be the same"),
    *[
        ({}, NO_PLACE | {"value": value, "location": "place"}, "cannot be the same column")
        for value in ("place", "place.coordinates.0", "place/1")
    ],
    # Nothing usable: the rule that left records out, from public counts.
    ({"speed": [None] * 40}, {}, "no record has a usable value"),
    ({"speed": [float("nan")] * 40}, {"max_bad_rows": 1}, "no record has a usable value"),
    ({"speed": ["fast"] * 40}, {}, "no record has a usable value"),
    ({"user": [None] * 40}, {"max_bad_rows": 1}, "no record has a user"),
    ({"time": [-5] * 40}, {}, "usable time; 40 times are before 1970"),
    ({"time": [4_102_444_800] * 40}, {}, "usable time; 0 times are before 1970 and 40 after"),
    (
        {"time": ["20224-02-19 15:58:20"] * 40},
        {},
        "no record has a usable time; other times than ISO",
    ),
    ({"lat": [200.0] * 40}, {"max_bad_rows": 1}, r"latitude runs from -90 .* metres \(UTM\)"),
    ({"lon": [None] * 40}, {}, "no record has a usable place"),
    ({"lat": [95.0] * 5 + [52.2] * 35}, {}, r"5 of 40 .* max_bad_rows=0.1 .* usable place \(5\)"),
    # Nothing left after selection.
    ({}, {"select": Select(box=(0, 0, 1, 1))}, "no record lies inside the box"),
    ({}, {"select": Select(dates=("2023-01-01", "2023-01-02"))}, "outside the dates; widen"),
    ({}, {"select": Select(hours=[3])}, "40 are outside the hours; widen"),
    ({"lat": [52.2] * 40}, {"select": Select(min_users=50)}, "none of 1 cells has min_users=50"),
    # Swapped degrees: out of range, against the box.
    ({"lat": [121.5] * 40, "lon": [31.2] * 40}, {}, "latitude and longitude look swapped"),
    (
        {},
        {"lat": "lon", "lon": "lat", "select": Select(box=(20, 51, 22, 53), min_users=1)},
        "latitude and longitude look swapped",
    ),
]
"""Columns of the table, arguments, and what is said of them."""


@pytest.mark.parametrize(("columns", "arguments", "sentence"), REFUSALS)
def test_what_cannot_be_used_is_refused(columns, arguments, sentence):
    """Each in one sentence; what is wrong with an argument before a record is read."""
    refused(table(**columns), sentence, **arguments)


@pytest.mark.parametrize("role", ["user", "value", "lat", "lon", "time"])
def test_a_misspelt_column_is_named_with_the_nearest(role):
    """The message offers the column that was probably meant."""
    name = {"value": "speed"}.get(role, role)
    error = refused(table(), f"no column '{name}x'; did you mean '{name}'", **{role: name + "x"})
    assert isinstance(error, ColumnError)
    assert "speed" in error.available


def test_missing_and_empty_sources_are_refused(tmp_path):
    """No file, no match, an empty file or folder, and no record are told apart."""
    refused(str(tmp_path / "none.csv"), "there is no file")
    refused(str(tmp_path / "*.csv"), "no file matches")
    refused(str(tmp_path), "holds no Parquet, CSV or JSON file")
    (tmp_path / "r.csv").write_text("")
    refused(tmp_path / "r.csv", "is empty")
    (tmp_path / "r.csv").write_text("user,speed,time,lat,lon\n")
    refused(tmp_path / "r.csv", "no record")
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(b""))
    refused(tmp_path / "r.csv.gz", "is empty")
    (tmp_path / "b.csv.gz").write_bytes(b"not packed")
    refused(tmp_path / "b.csv.gz", "cannot be opened or unpacked")
    (tmp_path / "r.xlsx").write_text("x")
    refused(tmp_path / "r.xlsx", "not a kind of file")
    refused(7, "source must be a path")
    refused([], "must name one file or more")
    refused(table().slice(0, 0), "no record")


def test_a_truncated_parquet_file_is_refused(tmp_path):
    """Without its end, or with a damaged middle, the file is not read."""
    path = tmp_path / "r.parquet"
    pq.write_table(table(), path, compression="none")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused(path, "not a readable Parquet file; it may be truncated")
    path.write_bytes(whole[:4] + b"\xff" * 400 + whole[404:])
    with pytest.raises(HexveilError) as caught:
        reading(path)
    assert SENTINEL_ID not in str(caught.value)


@pytest.mark.slow
def test_malformed_lines_are_counted_and_never_shown(tmp_path):
    """Lines that cannot be parsed are a public count, up to the share that is allowed."""
    header = "user,speed,time,lat,lon\n"
    good = "".join(f"u{i},1,{NOON + i},52.2,21\n" for i in range(10))
    bad = f"{SENTINEL_ID},{SENTINEL}\n"
    path = tmp_path / "r.csv"
    path.write_text(header + good + bad)
    assert reading(path).public.rules["unparsable"] == 1
    path.write_text(header + good + bad * 2)
    refused(path, r"2 of 12 records cannot be used.*unparsable \(2\)")
    lines = tmp_path / "r.ndjson"
    document = json.dumps({"user": "u", "speed": 1, "time": NOON, "lat": 52.2, "lon": 21.0})
    lines.write_text((document + "\n") * 10 + f'{{"user": "{SENTINEL_ID}", {SENTINEL}\n')
    assert reading(lines).public.rules["unparsable"] == 1
    lines.write_text(document + "\n" + f'{{"user": "{SENTINEL_ID}", {SENTINEL}\n' * 3 + "7\n")
    refused(lines, r"4 of 5 records cannot be used.*unparsable \(4\)")
    (tmp_path / "r.json").write_text(f'[{document}, {{"user": "{SENTINEL_ID}"')
    refused(tmp_path / "r.json", "could not be read to its end")


def test_naive_times_without_a_timezone_ask_for_it():
    """Text without an offset, and typed local times, need a declared clock."""
    naive = ["2024-02-19T12:00:00"] * 40
    grid = Cells(5, None)
    refused(table(time=naive), "or declare their timezone", cells=grid)
    typed = pa.array([NOON] * 40, pa.timestamp("s"))
    refused(table(time=typed), "declare their timezone", cells=grid)
    assert reading(table(time=naive), cells=grid, timezone="UTC").occupancy.n_users == 5


def test_files_with_other_columns_are_refused_unless_listed(tmp_path, shared):
    """A folder of mixed schemas is refused; the same files listed by name are read."""
    pq.write_table(table(), tmp_path / "1.parquet")
    pq.write_table(table(extra=[1] * 40), tmp_path / "2.parquet")
    assert reading(tmp_path).public.rules["records read"] == 80  # nobody uses it
    pq.write_table(table().drop_columns("speed"), tmp_path / "2.parquet")
    refused(tmp_path, "different columns \\(only one of them has speed\\)")
    pq.write_table(table(extra=[1] * 40), tmp_path / "2.parquet")
    both = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    assert reading(both).public.rules["records read"] == 80
    pq.write_table(table(speed=["1"] * 40), tmp_path / "2.parquet")
    refused(str(tmp_path / "*.parquet"), "their types differ")
    mixed = shared / "data" / "itms_sample"
    refused(str(mixed / "*.json"), "their keys are not listed")
    refused(str(mixed), "several kinds")


@pytest.mark.parametrize(
    "name", ["a[1]*?.csv", 'it\'s \\ "é".csv', "a[1]*?.json", "a[1]*?.parquet"]
)
def test_file_names_are_taken_literally(tmp_path, name):
    """Brackets, stars and quotes in the name of one file are part of it."""
    path = tmp_path / name
    if name.endswith(".csv"):
        path.write_bytes(f"\ufeffuser,speed,time,lat,lon\r\na,1,{NOON},52.2,21\r\n".encode())
    elif name.endswith(".json"):
        row = {"user": "a", "speed": 1, "time": NOON, "lat": 52.2, "lon": 21.0}
        path.write_text(json.dumps([row]))
    else:
        pq.write_table(table().slice(1, 1), path)
    assert reading(path).sums.total.tolist() == [1000]


@pytest.mark.parametrize("header", ["user,user\n", "user,\n", "\n"])
def test_a_csv_header_must_name_every_column_once(tmp_path, header):
    """Two columns of one name, and one without, are refused."""
    (tmp_path / "r.csv").write_text(header + "a,1\n")
    refused(tmp_path / "r.csv", "column")


@pytest.mark.slow
def test_a_key_that_first_occurs_late_in_json_is_found(tmp_path):
    """Keys are looked for in all documents before a column counts as missing."""
    document = {"user": "u", "speed": 1, "time": NOON, "lat": 52.2, "lon": 21.0}
    lines = [json.dumps(document | {"time": NOON + i}) for i in range(1500)]
    late = json.dumps(document | {"time": NOON, "reading": {"kmh": 7}})
    (tmp_path / "r.jsonl").write_text("\n".join([*lines, late]) + "\n")
    found = reading(tmp_path / "r.jsonl", value="reading.kmh", max_bad_rows=1)
    assert found.sums.total.tolist() == [7000]
    refused(tmp_path / "r.jsonl", "their keys are not listed", value="reading.kmk")


def test_a_file_without_a_line_of_names_shows_no_record(tmp_path):
    """Where names are looked for stands a record; it is neither listed nor offered."""
    row = f"{SENTINEL_ID},{SENTINEL},{NOON},52.2,21\n"
    for number in (1, 2):
        (tmp_path / f"{number}.csv").write_text(row.replace(SENTINEL_ID, f"{SENTINEL_ID}{number}"))
    said = "5 columns were found, whose names are not shown, for the first line may be a record"
    assert refused(tmp_path / "1.csv", said).available == ()
    refused(tmp_path, "names are not shown")


@pytest.mark.parametrize(
    "line",
    [
        f'{{"user": "{SENTINEL_ID}"}}',
        f"{SENTINEL_ID}~x~y",
        f"{SENTINEL_ID},speed,x",
        f"speeds,{SENTINEL_ID}",
        f"user={SENTINEL_ID},x",
    ],
)
def test_names_that_no_configured_columns_confirm_are_not_shown(tmp_path, line):
    """One configured name can stand in a record by chance; less than two show no line of names."""
    (tmp_path / "r.csv").write_text(f"{line}\n" * 2)
    error = refused(tmp_path / "r.csv", r"(columns were|column was) found, whose names are not")
    assert error.available == ()
    assert "speeds" not in str(error)


def test_names_that_configured_columns_confirm_are_shown(tmp_path):
    """With two of them there the others are names, too, and the nearest is offered."""
    (tmp_path / "r.csv").write_text("user,sped,lat,lon,time\n")
    error = refused(tmp_path / "r.csv", "did you mean 'sped'")
    assert error.available == ("user", "sped", "lat", "lon", "time")
    (tmp_path / "s.csv").write_text("user,speed,lat,lon,time,ward\n")
    refused(tmp_path, r"different columns \(only one of them has sped, speed, ward\)")


def test_columns_of_text_that_differ_in_capitals_are_not_named(tmp_path):
    """Where a record may stand no two of its fields are quoted."""
    (tmp_path / "r.csv").write_text(f"{SENTINEL_ID},{SENTINEL_ID.swapcase()},speed\n")
    names = {"user": SENTINEL_ID, "time": SENTINEL_ID.swapcase()}
    refused(tmp_path / "r.csv", "has two columns, which differ in capital letters alone", **names)


@pytest.mark.parametrize("key", [f"user{SENTINEL_ID}", "user7", "users"])
def test_keys_of_json_documents_are_not_shown(tmp_path, key):
    """A key can be an id, so that none is listed or offered."""
    row = {key: 1, "speed": 1, "lat": 52.2, "lon": 21, "time": NOON}
    (tmp_path / "r.json").write_text(json.dumps([row]))
    assert key not in str(refused(tmp_path / "r.json", "their keys are not listed"))


@pytest.mark.parametrize("trouble", ["columns differ", "cut off", "empty", "twins"])
def test_a_folder_s_value_is_not_shown(tmp_path, trouble):
    """A folder named after an id is left out of paths; its place among the files is said."""
    for number in range(3):
        place = tmp_path / f"user={SENTINEL_ID}{number}"
        place.mkdir()
        pq.write_table(table().drop_columns(["user"]), place / "r.parquet")
    if trouble == "columns differ":
        pq.write_table(table(), place / "r.parquet")
    elif trouble == "twins":
        whole = table()
        pq.write_table(whole.append_column("USER", whole["user"]), place / "r.parquet")
    else:
        whole = (place / "r.parquet").read_bytes()
        (place / "r.parquet").write_bytes(whole[:99] if trouble == "cut off" else b"")
    refused(tmp_path, r"user=\.\.\./r\.parquet' \(file 3 of 3\)")


def test_no_error_hangs_on_one_that_quotes_rows(tmp_path):
    """What an engine or a decoder says of a row is not even the context of our error."""
    row = f"{SENTINEL_ID},{SENTINEL},{NOON},52.2,21\n".encode()
    (tmp_path / "r.csv").write_bytes(b"user,speed,time,lat,l\xf6n\n" + row)
    assert refused(tmp_path / "r.csv", "if it is in Latin-1, add encoding").__context__ is None
    (tmp_path / "r.json").write_text(f'[{{"user": "{SENTINEL_ID}", "speed": {SENTINEL}')
    assert refused(tmp_path / "r.json", "could not be read to its end").__context__ is None


@pytest.mark.parametrize(
    ("column", "counted"),
    [
        ("speed", "without a usable value"),
        ("time", "without a usable time"),
        ("lat", "without a usable place"),
        ("lon", "without a usable place"),
    ],
)
def test_nan_that_a_file_does_not_announce_is_counted(tmp_path, column, counted):
    """The least and largest number that a Parquet file states know of no NaN in it."""
    numbers = [float(value) for value in table()[column].to_pylist()[:-1]]
    pq.write_table(table(**{column: [*numbers, float("nan")]}), tmp_path / "r.parquet")
    found = reading(tmp_path / "r.parquet")
    assert found.public.rules[counted] == 1
    assert found.public.rules["records read"] == 40


def numbered(users, records, single):
    """Return records of which some users have a single one, and the others as many as given."""
    names = [f"u{i}" for i in range(single)]
    names += [f"u{i}" for i in range(single, users) for _ in range(records)]
    size = len(names)
    return table(size, user=names, speed=[1.0] * size)


@pytest.mark.parametrize("unit", some(["user", "user-day", "user-week"], 1))
@pytest.mark.parametrize(
    ("users", "single", "odd"),
    [(29, 29, False), (30, 30, True), (30, 27, False), (40, 37, True), (40, 36, False)],
)
def test_users_of_single_records_are_refused(unit, users, single, odd):
    """More than nine in ten of at least thirty users with one record: a row number, most likely."""
    source = numbered(users, 3, single)
    if not odd:
        assert reading(source, privacy_unit=unit).public.rules["records read"] == source.num_rows
        return
    said = f"user: {single} of {users} ids in the column 'user' have a single record"
    refused(source, said, privacy_unit=unit)
    accepted = reading(source, privacy_unit=unit, accept_single_records=True)
    assert accepted.occupancy.n_users == users


def test_single_records_are_of_users_not_of_their_days():
    """A user with one record on each of some days has several, and is counted once."""
    days = [NOON + 86_400 * (i % 3) for i in range(90)]
    source = table(90, user=[f"u{i // 3}" for i in range(90)], time=days, speed=[1.0] * 90)
    found = reading(source, privacy_unit="user-day", cells=Cells(5, None, "Europe/Warsaw"))
    assert set(found.occupancy.n.tolist()) == {1}
    assert found.occupancy.n_users == 90


@pytest.mark.parametrize(
    ("unit", "day"), [("user", ""), ("user-day", " 2026-11-20"), ("user-week", " 2026-11-16")]
)
def test_sums_of_users_of_single_records_are_refused(unit, day):
    """A table of sums says it too: its counts are of the user, whatever the unit is."""

    def sums(n):
        ids = [f"u{i}{day}" for i in range(30)]
        return pa.table({"cell": ["x"] * 30, "user": ids, "n": [n] * 30, "sum": [1.0] * 30})

    asked = {"bounds": (0, 65), "privacy_unit": unit}
    with pytest.raises(InputError, match="30 of 30 ids in the column 'user' have a single record"):
        from_sums(sums(1), **asked)
    assert from_sums(sums(1), **asked, accept_single_records=True).occupancy.n_users == 30
    assert from_sums(sums(2), **asked).occupancy.n_users == 30
