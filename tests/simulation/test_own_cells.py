"""A cell of own records: which one is meant, its means, and the files that are made of it."""

import json
import os
import stat

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.evaluation import evaluate
from hexveil_research.papers.study_data import of_records, read_counts
from hexveil_research.papers.study_folders import check_folder, write_files

MANIFEST = json.dumps({"schema_version": 1, "guarantee": {}})


@pytest.fixture
def records():
    """Return sums of two cells with bounds that do not start at zero."""
    table = pa.table(
        {
            "cell": ["a", "a", "b", "b", "b"],
            "user": ["x", "y", "w", "y", "z"],
            "n": [2, 1, 1, 3, 4],
            "sum": [-10.0, 20.0, 0.0, 12.3, 80.0],
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


@pytest.mark.parametrize("cell", ["b", 1, np.int64(1), None])
def test_means_are_sums_over_counts(records, cell):
    """A cell, of most users if none is named, has its users' counts and means, in value units."""
    found = of_records(records, "own records", cell)
    assert found.private
    assert found.counts.tolist() == [1, 3, 4]
    assert found.user_means == pytest.approx([0.0, 4.1, 20.0], abs=1e-12)
    first = of_records(records, "own records", "a")
    assert first.user_means == pytest.approx([-5.0, 20.0], abs=1e-12)


def test_means_do_not_show_themselves(records):
    """A cell prints its name and size, never a mean."""
    shown = "StudyData('own', Occupancy(n_cells=2, n_users=4, n_pairs=5))"
    assert repr(of_records(records, "own", "b")) == shown


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


def of(cells, **columns):
    """Return records of three users in each of some cells."""
    rows = {name: texts * 3 for name, texts in columns.items()}
    n = len(next(iter(rows.values())))
    users = [f"u{3 * k // n}" for k in range(n)]
    table = pa.table({**rows, "user": users, "n": [2] * n, "sum": [3.0] * n})
    return hv.from_sums(table, cells=cells, bounds=(0, 9), min_users=1)


HEXAGON = "85608b3bfffffff"
HOURS = of(
    hv.Cells(5, "1h", "Asia/Kolkata", "pooled"),
    hexagon=[HEXAGON] * 3,
    slot=["06:00", "07:00", "08:00"],
)
ROUTES = of(hv.Labels("route", "hour"), route=["17", "a b"], hour=["6", "7"])
NUMBERS = of(hv.Labels("ward"), ward=["1", "2"])
ONE = of(None, cell=["all"])


@pytest.mark.parametrize(
    ("cells", "cell", "number"),
    [
        (HOURS, 1, 1),
        (HOURS, np.int64(2), 2),
        (HOURS, "2", 2),
        (HOURS, f"{HEXAGON}/07:00", 1),
        (ROUTES, "17/6", 0),
        (NUMBERS, "1", 0),  # a name before a number
        (NUMBERS, 1, 1),
        (ONE, None, 0),
        (ONE, "all", 0),
    ],
)
def test_a_cell_is_selected(cells, cell, number):
    """By its name as a release shows it, or by its number."""
    assert of_records(cells, "own records", cell).number == number


@pytest.mark.parametrize("cell", [None, 3, -1, True, 1.0, "", "9" * 30, HEXAGON, (0,)])
def test_what_no_cell_is_called_is_refused(cell):
    """The message names cells that there are."""
    with pytest.raises(hv.InputError, match=rf"cell .*name one of 3 \({HEXAGON}/06:00, "):
        evaluate([hv.mechanisms.Baseline()], data=HOURS, cell=cell, epsilons=[1])
