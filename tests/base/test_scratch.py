"""The scratch folder: private, emptied of what killed runs left, and of nothing else."""

import fcntl
import os
import stat
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil import InputError, StorageError

MARKER, VARIABLE = "README.txt", "HEXVEIL_SCRATCH"
TABLE = pa.table({"bus": [f"b{k % 12}" for k in range(36)], "v": [1.0] * 36})


def read(scratch=None):
    """Read some records, which needs a scratch folder."""
    options = {"bounds": (0, 9), "cells": hv.OneCell(), "scratch": scratch}
    return hv.read(TABLE, user="bus", value="v", **options)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return where the scratch folder of this test is, named by the environment."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "scratch"))
    return tmp_path / "scratch"


def runs(place):
    """Return the subfolders of runs."""
    return sorted(path for path in place.iterdir() if path.name != MARKER)


def test_a_folder_is_private_and_gone_at_the_end(place, monkeypatch):
    """Root and subfolder have mode 0700, whatever the umask; a note says what they are."""
    before, connect, modes = os.umask(0), duckdb.connect, []

    def noted(*arguments, **options):
        (own,) = runs(place)
        (own / "block").write_text("sums")
        modes.extend(stat.S_IMODE(path.stat().st_mode) for path in (place, own))
        return connect(*arguments, **options)

    monkeypatch.setattr(duckdb, "connect", noted)
    try:
        read()
    finally:
        os.umask(before)
    assert modes == [0o700] * 2
    assert runs(place) == []
    assert "PRIVATE" in (place / MARKER).read_text()


def test_an_argument_goes_before_the_environment(place, tmp_path):
    """The folder that a run names is taken, and none is made elsewhere."""
    read(tmp_path / "own")
    assert (tmp_path / "own" / MARKER).exists()
    assert not place.exists()


def test_the_default_is_in_the_temporary_folder(tmp_path, monkeypatch):
    """Without a name it is one folder for each user."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    read()
    assert (tmp_path / f"hexveil-{os.geteuid()}" / MARKER).exists()


def test_what_killed_runs_left_goes_at_the_next_start(place):
    """The files of killed runs go, however many; those of live ones, which hold a lock, stay."""
    read()
    left = [place / f".run.partial-0123abc{k}" for k in range(3)]
    for own in left:
        (own / "spill").mkdir(parents=True)
        (own / "spill" / "block").write_text("x" * 1000)
    live = os.open(left[0], os.O_RDONLY)
    fcntl.flock(live, fcntl.LOCK_EX)
    read()
    assert runs(place) == left[:1]
    assert (left[0] / "spill" / "block").read_text() == "x" * 1000
    os.close(live)
    read()
    assert runs(place) == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda place: place.mkdir(mode=0o755), "can be read by others"),
        (lambda place: (place.mkdir(mode=0o700), (place / "photo.jpg").touch()), "other files"),
        (Path.touch, "is a file"),
        (lambda place: place.symlink_to(place.parent / "nowhere" / "at all"), "cannot be used"),
    ],
)
def test_a_folder_that_is_not_ours_is_refused(place, make, said):
    """What others can read, what holds other things and what is no folder is one sentence."""
    make(place)
    with pytest.raises(InputError, match=f"scratch: .*{said}"):
        read()


@pytest.mark.parametrize(
    ("name", "found", "said"),
    [
        ("geteuid", 12_345, "belongs to another user"),
        ("access", False, "cannot be used .Permission denied"),
    ],
)
def test_rights_are_looked_at_before_anything_private_is_written(
    place, monkeypatch, name, found, said
):
    """A folder of another user's, or one that this user cannot write."""
    read()
    monkeypatch.setattr(os, name, lambda *_: found)
    with pytest.raises(InputError, match=said):
        read(place)


def test_the_default_under_a_name_that_another_made_is_refused(tmp_path, monkeypatch):
    """In a temporary folder for all, a link in the place of ours is not followed."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / f"hexveil-{os.geteuid()}").symlink_to(tmp_path / "home")
    with pytest.raises(InputError, match="is a file or a link"):
        read()


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), OSError(30, "Read-only")]
)
def test_a_full_or_read_only_disk_is_a_sentence(place, monkeypatch, error):
    """Where no folder can be made, the sentence says why and how to name another."""
    read()

    def refused(*_, **__):
        raise error

    monkeypatch.setattr("pathlib.Path.mkdir", refused)
    expected = (InputError, StorageError)
    with pytest.raises(expected, match=f"scratch: .*{error.strerror}.*name"):
        read()


@pytest.mark.parametrize("wrong", [3, "", b""])
def test_only_a_name_is_taken(wrong):
    """What cannot name a folder is refused."""
    with pytest.raises(InputError, match="scratch must be the name"):
        read(wrong)
