"""Tests of `hexveil.simulation.own_cells`: a cell of own records."""

import json
import os
import stat

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.base.errors import InputError, StorageError
from hexveil.simulation.own_cells import (
    check_folder,
    is_private,
    own_cell,
    stamped,
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


def test_means_stay_within_the_bounds(records):
    """A sum at the very bound is not rounded beyond it."""
    assert own_cell(records, "b").user_means.max() <= 20.0


def test_means_do_not_show_themselves(records):
    """A cell prints its name and size, never a mean."""
    assert repr(own_cell(records, "b")) == "OwnCell('b', n_users=2, means private)"


def test_a_stamp_keeps_the_table():
    """A stamped table has the same rows and keeps other metadata."""
    plain = pa.table({"mae": [1.0]}).replace_schema_metadata({"made": "here"})
    table = stamped(plain)
    assert table["mae"] == plain["mae"]
    assert table.schema.metadata[b"made"] == b"here"
    assert is_private(table)
    assert not is_private(plain)


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


def test_other_files_have_plain_names(tmp_path):
    """What is not private has its own name; a second writing replaces the first."""
    for content in (b"one", b"two"):
        (file,) = write_files(tmp_path, {"a.csv": content}, private=False)
    assert file == tmp_path / "a.csv"
    assert file.read_bytes() == b"two"


def test_a_wider_file_is_replaced_by_a_private_one(tmp_path):
    """A file that others could read does not lend its mode to the private one."""
    (tmp_path / "PRIVATE-a.csv").write_bytes(b"old")
    (tmp_path / "PRIVATE-a.csv").chmod(0o644)
    (file,) = write_files(tmp_path, {"a.csv": b"new"}, private=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    """A file in the folder's place is wrong use; one above it a storage error."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file is a file; name a folder"):
        write_files(tmp_path / "file", {"a.csv": b"1"}, private=True)
    with pytest.raises(StorageError, match="cannot be written"):
        write_files(tmp_path / "file" / "below", {"a.csv": b"1"}, private=True)


def test_a_failed_file_leaves_nothing(tmp_path):
    """If the last step fails, no partial file stays behind."""
    (tmp_path / "PRIVATE-a.csv").mkdir()
    with pytest.raises(StorageError):
        write_files(tmp_path, {"a.csv": b"1"}, private=True)
    assert [path.name for path in tmp_path.iterdir()] == ["PRIVATE-a.csv"]


@pytest.mark.parametrize("place", ["", "inner", "inner/deeper/still", "new/../inner"])
def test_release_folders_are_refused(release, place):
    """A release folder, a folder inside it and one yet to be made there are refused."""
    with pytest.raises(InputError, match="lies in the release folder map"):
        check_folder(release / place)
    with pytest.raises(InputError):
        write_files(release / place, {"a.csv": b"1"}, private=True)
    assert sorted(path.name for path in release.rglob("*")) == ["inner", "manifest.json"]


def test_a_link_into_a_release_is_refused(release, tmp_path):
    """A link is followed to where it leads."""
    (tmp_path / "link").symlink_to(release / "inner")
    with pytest.raises(InputError, match="release folder"):
        check_folder(tmp_path / "link")


def test_a_manifest_that_cannot_be_read_counts_as_one(release):
    """In doubt the folder is taken for a release."""
    (release / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="release folder"):
        check_folder(release)


@pytest.mark.parametrize("text", ["[]", '{"name": "app"}'])
def test_another_manifest_is_no_release(release, text):
    """A web page's manifest, or a list, does not make a folder a release; nor does its parent."""
    (release / "manifest.json").write_text(text)
    check_folder(release)
    check_folder(release.parent / "beside")
