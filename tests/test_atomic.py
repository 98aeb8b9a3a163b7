"""Tests of `hexveil.atomic`."""

import pytest

from hexveil import atomic


def names(folder):
    """Return all entries of a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_appears_whole(tmp_path):
    """Nobody sees the folder before its files are all in it, and then nothing else is left."""
    with atomic.folder(tmp_path / "map") as temporary:
        (temporary / "cells.csv").write_text("1")
        assert not (tmp_path / "map").exists()
    assert names(tmp_path) == ["map"]
    assert names(tmp_path / "map") == ["cells.csv"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_folder_that_fails_leaves_nothing(tmp_path, error):
    """After a failure or an interruption the place is as it was."""

    def fail():
        with atomic.folder(tmp_path / "map") as temporary:
            (temporary / "cells.csv").write_text("1")
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == []


def test_a_folder_with_contents_is_not_replaced(tmp_path):
    """A rename never swallows files that are there."""
    (tmp_path / "map").mkdir()
    (tmp_path / "map" / "mine.txt").touch()
    with pytest.raises(OSError, match=r"not empty|exists"), atomic.folder(tmp_path / "map"):
        pass
    assert names(tmp_path) == ["map"]
    assert names(tmp_path / "map") == ["mine.txt"]


def test_a_file_that_fails_keeps_the_old_one(tmp_path):
    """A file is replaced at the end, or not at all."""
    path = atomic.write(tmp_path / "a.txt", b"old")

    def fail():
        with atomic.file(path) as temporary:
            temporary.write_bytes(b"half")
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011  it has no text
        fail()
    assert path.read_bytes() == b"old"
    assert atomic.write(path, b"new").read_bytes() == b"new"
    assert names(tmp_path) == ["a.txt"]


def test_a_file_has_its_rights_from_the_start(tmp_path):
    """A private file is its owner's alone."""
    assert atomic.write(tmp_path / "own", b"", mode=0o600).stat().st_mode & 0o777 == 0o600


def test_temporary_names_differ(tmp_path):
    """Two writers of one path do not meet."""
    assert len({atomic.temporary_name(tmp_path / "a") for _ in range(50)}) == 50
