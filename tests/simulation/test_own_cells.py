"""Tests of `hexveil.simulation.own_cells`: a cell of own records."""

import datetime as dt
import json
import os
import re
import stat

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.model.cells import CellTable
from hexveil.simulation.own_cells import (
    check_folder,
    own_cell,
    read_counts,
    select_cell,
    write_files,
)

MANIFEST = json.dumps({"schema_version": 1, "guarantee": {}})


@pytest.fixture
def records():
    """Return sums of two cells with bounds that do not start at zero."""
    table = pa.table(
        {
            "cell": ["a", "a", "b", "b"],
            "user": ["x", "y", "y", "z"],
            "n": [2, 1, 3, 4],
            "sum": [-10.0, 20.0, 12.3, 80.0],
        }
    )
    return hv.from_sums(table, bounds=(-10, 20), quantum="0.1", min_users=1)


@pytest.fixture
def release(tmp_path):
    """Return a folder that looks like a release."""
    folder = tmp_path / "map"
    (folder / "inner").mkdir(parents=True)
    (folder / "manifest.json").write_text(MANIFEST)
    return folder


@pytest.mark.parametrize("cell", ["b", 1, np.int64(1)])
def test_means_are_sums_over_counts(records, cell):
    """A cell has its users' counts and means, in value units."""
    found = own_cell(records, cell)
    assert found.name == "b"
    assert found.counts.tolist() == [3, 4]
    assert found.user_means == pytest.approx([4.1, 20.0], abs=1e-12)
    assert own_cell(records, "a").user_means == pytest.approx([-5.0, 20.0], abs=1e-12)


def test_means_do_not_show_themselves(records):
    """A cell prints its name and size, never a mean."""
    assert repr(own_cell(records, "b")) == "OwnCell('b', n_users=2, means private)"


def test_private_files_are_their_owners_alone(tmp_path):
    """Names begin with PRIVATE, modes are 0600 and 0700, whatever the umask allows."""
    before = os.umask(0)
    try:
        files = write_files(tmp_path / "new", {"a.csv": b"1", "a.png": b"2"}, private=True)
    finally:
        os.umask(before)
    assert [path.name for path in files] == ["PRIVATE-a.csv", "PRIVATE-a.png"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600, 0o600]
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [p.name for p in files]


def test_a_wider_file_is_replaced_by_a_private_one(tmp_path):
    """A file that others could read does not lend its mode to the private one."""
    (tmp_path / "PRIVATE-a.csv").write_bytes(b"old")
    (tmp_path / "PRIVATE-a.csv").chmod(0o644)
    (file,) = write_files(tmp_path, {"a.csv": b"new"}, private=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    """A file in the folder's place is wrong use; one above it a storage error."""
    (tmp_path / "file").write_text("")
    with pytest.raises(hv.InputError, match="file is a file; name a folder"):
        write_files(tmp_path / "file", {"a.csv": b"1"}, private=True)
    with pytest.raises(hv.StorageError, match="cannot be written"):
        write_files(tmp_path / "file" / "below", {"a.csv": b"1"}, private=True)


@pytest.mark.parametrize("place", ["", "inner", "inner/deeper/still", "new/../inner"])
def test_release_folders_are_refused(release, place):
    """A release folder, a folder inside it and one yet to be made there are refused."""
    with pytest.raises(hv.InputError, match="lies in the release folder map"):
        check_folder(release / place)
    with pytest.raises(hv.InputError):
        write_files(release / place, {"a.csv": b"1"}, private=True)
    assert sorted(path.name for path in release.rglob("*")) == ["inner", "manifest.json"]


def test_a_link_into_a_release_is_refused(release, tmp_path):
    """A link is followed to where it leads."""
    (tmp_path / "link").symlink_to(release / "inner")
    with pytest.raises(hv.InputError, match="release folder"):
        check_folder(tmp_path / "link")


# ---- Tests of `hexveil.simulation.own_cells`: counts from a small file ----


COUNTS = [9, 3, 1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "[9, 3, 1]"),
        ("a.JSON", "[9,\n3,\n1]"),
        ("a.csv", "samples\n9\n3\n1\n"),
        ("a.csv", "9\n3\n1"),
        ("a.csv", "user,n\nx,9\ny,3\nz,1\n"),
        ("a.csv", "counts;\n9\n3\n1\n".replace(";", "")),
    ],
)
def test_text_files_are_read(tmp_path, name, text):
    """A JSON list, or a CSV column with or without a header."""
    (tmp_path / name).write_text(text)
    assert read_counts(tmp_path / name).tolist() == COUNTS


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "9", "must be a .json, .csv or .parquet file"),
        ("a.json", "[9, 3.5]", "one list of whole numbers"),
        ("a.json", "[9, true]", "one list of whole numbers"),
        ("a.json", '{"n": [9]}', "one list of whole numbers"),
        ("a.json", "[]", "at least 1, one per user"),
        ("a.json", "[9, 0]", "at least 1, one per user"),
        ("a.json", "[9", "cannot be read as json"),
        ("a.json", f"[{2**64}]", "cannot be read as json"),
        ("a.json", "\xff", "cannot be read as json"),
        ("a.csv", "", "cannot be read as csv"),
        ("a.csv", "n\n9\n\n2.5\n", "at least 1, one per user"),
        ("a.csv", "n\n9\nx\n", "at least 1, one per user"),
        ("a.csv", "n,m\n9,\n,2\n", "at least 1, one per user"),
        ("a.csv", "user,samples\nx,9\n", "must have one column, or one that is named n"),
        ("a.csv", "n,counts\n1,9\n", "must have one column, or one that is named n"),
        ("a.parquet", "no", "cannot be read as parquet"),
    ],
)
def test_other_files_are_refused(tmp_path, name, text, message):
    """What is wrong with the file is one sentence."""
    (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(hv.InputError, match=re.escape(message)):
        read_counts(tmp_path / name)


def test_a_missing_file_is_said(tmp_path):
    """A file that is not there, and a folder in its place."""
    with pytest.raises(hv.InputError, match="there is no file"):
        read_counts(tmp_path / "a.json")
    (tmp_path / "b.json").mkdir()
    with pytest.raises(hv.InputError, match="cannot be read"):
        read_counts(tmp_path / "b.json")


# ---- Every way to name a cell of a study, and what is refused ----


NEAR, FAR = int("85608b3bfffffff", 16), int("85608b33fffffff", 16)
SEVEN, EIGHT = 7 * 3600, 8 * 3600


def hours(slot="pooled", day=0):
    """Return a table of two hours in one hexagon and one in another."""
    hexagons = np.array([NEAR, NEAR, FAR], dtype=np.uint64)
    starts = np.array([SEVEN, EIGHT, SEVEN], dtype=np.int64) + day
    return CellTable(hv.Cells(5, "1h", "Asia/Kolkata", slot), hexagons, starts)


CALENDAR = hours("calendar", 19_723 * 86_400)  # 2024-01-01
PLACES = CellTable(hv.Cells(5, None), np.array([NEAR, FAR], dtype=np.uint64))
ROUTES = CellTable(hv.Labels("route", "hour"), labels={"route": ("17", "a b"), "hour": ("6", "7")})


@pytest.mark.parametrize(
    ("cells", "cell", "number"),
    [
        (hours(), 1, 1),
        (hours(), np.int64(2), 2),
        (hours(), "85608b3bfffffff/08:00", 1),
        (hours(), "85608b3bfffffff 08:00", 1),
        (hours(), "85608B3BFFFFFFF, 08:00:00", 1),
        (hours(), ("85608b3bfffffff", "08:00"), 1),
        (hours(), (NEAR, dt.time(8)), 1),
        (hours(), (np.uint64(FAR), "07:00"), 2),
        (hours(), "85608b33fffffff", 2),  # of a single slot
        (CALENDAR, "85608b3bfffffff 2024-01-01 08:00", 1),
        (CALENDAR, ("85608b3bfffffff", "2024-01-01T08:00:00"), 1),
        (CALENDAR, ("85608b3bfffffff", dt.datetime(2024, 1, 1, 8)), 1),  # noqa: DTZ001
        (PLACES, "85608b33fffffff", 1),
        (PLACES, ("85608B33FFFFFFF",), 1),
        (ROUTES, ("a b", 7), 1),
        (ROUTES, "17/6", 0),
        (CellTable(hv.OneCell(), labels={"cell": ("all",)}), None, 0),
        (CellTable(hv.OneCell(), labels={"cell": ("all",)}), "all", 0),
    ],
)
def test_a_cell_is_selected(cells, cell, number):
    """Names, numbers, and a hexagon with its slot as a release shows them, all mean one cell."""
    assert select_cell(cells, cell) == number


@pytest.mark.parametrize(
    ("cells", "cell", "message"),
    [
        (hours(), None, r"a cell is needed: name one of 3 \("),
        (hours(), 3, "there is no cell 3; name one of 3"),
        (hours(), -1, "there is no cell -1; name one of 3"),
        (hours(), True, "there is no cell True"),
        (hours(), 1.0, "there is no cell 1.0"),
        (hours(), "", "no cell in the hexagon ''; name one of 3"),
        (hours(), "85608b37fffffff 07:00", "no cell in the hexagon '85608b37fffffff'; name one"),
        (hours(), "85608b3bfffffff", r"85608b3bfffffff has 2 slots: .* \(07:00, 08:00\)"),
        (hours(), "85608b3bfffffff 09:00", r"slot '09:00'; name one of 2 \(07:00, 08:00\)"),
        (hours(), ("85608b3bfffffff", "07:00", "x"), "there is no cell"),
        (hours(), (), "there is no cell"),
        (PLACES, "85608b3bfffffff 07:00", "have no slots here: name the hexagon"),
        (ROUTES, ("17", "7"), "there is no cell"),
        (ROUTES, "17 6", "there is no cell '17 6'; name one of 2"),
    ],
)
def test_what_no_cell_is_called_is_refused(cells, cell, message):
    """The message names cells or slots that there are."""
    with pytest.raises(hv.InputError, match=message):
        select_cell(cells, cell)
