"""Tests of `hexveil.simulation.own_cells`: a cell of own records."""

import json
import os
import stat

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.model.cells import CellTable
from hexveil.simulation.own_cells import own_cell, select_cell
from hexveil_research.papers.study_data import read_counts
from hexveil_research.papers.study_folders import check_folder, write_files

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
    """Names begin with PRIVATE, modes are 0600 and 0700, whatever the umask allows.

    A file in the folder's place is wrong use; one above it a storage error.
    """
    before = os.umask(0)
    try:
        files = write_files(tmp_path / "new", {"a.csv": b"1", "a.png": b"2"}, private=True)
    finally:
        os.umask(before)
    assert [path.name for path in files] == ["PRIVATE-a.csv", "PRIVATE-a.png"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600, 0o600]
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [p.name for p in files]
    (tmp_path / "file").write_text("")
    for place, error in (("file", hv.InputError), ("file/below", hv.StorageError)):
        with pytest.raises(error, match=r"is a file; name a folder|cannot be written"):
            write_files(tmp_path / place, {"a.csv": b"1"}, private=True)


def test_a_wider_file_is_replaced_by_a_private_one(tmp_path):
    """A file that others could read does not lend its mode to the private one."""
    (tmp_path / "PRIVATE-a.csv").write_bytes(b"old")
    (tmp_path / "PRIVATE-a.csv").chmod(0o644)
    (file,) = write_files(tmp_path, {"a.csv": b"new"}, private=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("place", ["", "inner", "inner/deeper/still", "new/../inner"])
def test_release_folders_are_refused(release, place):
    """A release folder, a folder inside it, one yet to be made there, and links into it."""
    (release.parent / "link").symlink_to(release)
    for folder in (release, release.parent / "link"):
        with pytest.raises(hv.InputError, match="lies in the release folder map"):
            check_folder(folder / place)
    with pytest.raises(hv.InputError):
        write_files(release / place, {"a.csv": b"1"}, private=True)
    assert sorted(path.name for path in release.rglob("*")) == ["inner", "manifest.json"]


# ---- Counts from a small file ----


@pytest.mark.parametrize("text", ["[9, 3, 1]", "[9,\n3,\n1]\n", "samples\n9\n3\n1\n", "9\n3\n1"])
def test_counts_are_read(tmp_path, text):
    """A JSON list, or a CSV column with or without a header."""
    (tmp_path / "a.txt").write_text(text)
    assert read_counts(tmp_path / "a.txt").tolist() == [9, 3, 1]


@pytest.mark.parametrize(
    "text",
    ["[9, 3.5]", "[9, true]", '{"n": [9]}', "[]", "[9, 0]", "[9", f"[{2**64}]", "", "n\n9\nx\n",
     "n\n9\n\n1", "user,n\nx,9\n", "-1\n9\n-2"],
)  # fmt: skip
def test_other_counts_are_refused(tmp_path, text):
    """What is wrong with the file is one sentence."""
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(hv.InputError, match="whole numbers of at least 1, one per user"):
        read_counts(tmp_path / "a.csv")


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    """A missing file, a folder in its place, and bytes that are no text."""
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "bytes.json").write_bytes(b"\xff")
    for name, message in (
        ("a.json", "there is no file"),
        ("folder.json", "cannot be read: Is a directory"),
        ("bytes.json", "cannot be read: it is no text"),
    ):
        with pytest.raises(hv.InputError, match=message):
            read_counts(tmp_path / name)


# ---- Names of a cell ----


HOURS = CellTable(
    hv.Cells(5, "1h", "Asia/Kolkata", "pooled"),
    np.array([int("85608b3bfffffff", 16)] * 3, dtype=np.uint64),
    np.array([6, 7, 8], dtype=np.int64) * 3600,
)
ROUTES = CellTable(hv.Labels("route", "hour"), labels={"route": ("17", "a b"), "hour": ("6", "7")})
NUMBERS = CellTable(hv.Labels("ward"), labels={"ward": ("1", "0")})
ONE = CellTable(hv.OneCell(), labels={"cell": ("all",)})


@pytest.mark.parametrize(
    ("cells", "cell", "number"),
    [
        (HOURS, 1, 1),
        (HOURS, np.int64(2), 2),
        (HOURS, "2", 2),
        (HOURS, "85608b3bfffffff/07:00", 1),
        (ROUTES, "17/6", 0),
        (NUMBERS, "0", 1),  # a name before a number
        (ONE, None, 0),
        (ONE, "all", 0),
    ],
)
def test_a_cell_is_selected(cells, cell, number):
    """By its name as a release shows it, or by its number."""
    assert select_cell(cells, cell) == number


@pytest.mark.parametrize("cell", [None, 3, -1, True, 1.0, "", "9" * 30, "85608b3bfffffff", (0,)])
def test_what_no_cell_is_called_is_refused(cell):
    """The message names cells that there are."""
    with pytest.raises(hv.InputError, match=r"cell .*name one of 3 \(85608b3bfffffff/06:00, "):
        select_cell(HOURS, cell)
