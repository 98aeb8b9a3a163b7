"""Tests of `hexveil.base.atomic_files`."""

import fcntl
import os
import subprocess
import sys
import threading

import pytest

from hexveil.base import atomic_files


def names(folder):
    """Return all entries of a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_with_contents_is_not_replaced(tmp_path):
    """A rename never swallows files that are there."""
    (tmp_path / "map").mkdir()
    (tmp_path / "map" / "mine.txt").touch()
    with pytest.raises(OSError, match=r"not empty|exists"), atomic_files.folder(tmp_path / "map"):
        pass
    assert names(tmp_path) == ["map"]
    assert names(tmp_path / "map") == ["mine.txt"]


def test_a_file_that_fails_keeps_the_old_one(tmp_path):
    """A file is replaced at the end, or not at all."""
    path = atomic_files.write(tmp_path / "a.txt", b"old")

    def fail():
        with atomic_files.file(path) as temporary:
            temporary.write_bytes(b"half")
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011  it has no text
        fail()
    assert path.read_bytes() == b"old"
    assert atomic_files.write(path, b"new").read_bytes() == b"new"
    assert names(tmp_path) == ["a.txt"]


KILLED = """
import os, signal, sys
from pathlib import Path
from hexveil.base import atomic_files

with getattr(atomic_files, sys.argv[1])(Path(sys.argv[2])) as temporary:
    if temporary.is_dir():
        (temporary / "half.csv").write_text("1")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(kind, path):
    """Write in a process that is killed on the way, and return the temporary name it left."""
    before = set(path.parent.iterdir())
    subprocess.run([sys.executable, "-c", KILLED, kind, path], check=False)
    (left,) = set(path.parent.iterdir()) - before
    assert left.name.startswith(f".{path.name}.partial-")
    return left


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_writer_left_goes_with_the_next(tmp_path, kind):
    """The same name written again leaves that name alone; what is of other names stays."""
    killed("folder", tmp_path / "map")
    killed("file", tmp_path / "map")
    other = killed("folder", tmp_path / "other map")
    if kind == "file":
        atomic_files.write(tmp_path / "map", b"")
    else:
        with atomic_files.folder(tmp_path / "map"):
            pass
    assert names(tmp_path) == sorted(["map", other.name])
    atomic_files.remove_stale(tmp_path)
    assert names(tmp_path) == ["map"]


def test_what_another_writes_stays(tmp_path):
    """A sweep, a probe and another writer leave alone what is being written."""
    with (
        atomic_files.folder(tmp_path / "map") as mine,
        atomic_files.file(tmp_path / "map.txt") as file,
    ):
        (mine / "a.csv").write_text("1")
        file.write_text("1")
        atomic_files.remove_stale(tmp_path)
        atomic_files.check_writable(tmp_path / "map")
        atomic_files.write(tmp_path / "map.txt", b"2")
        assert (mine / "a.csv").read_text() == "1"
        assert file.exists()
    assert names(tmp_path) == ["map", "map.txt"]
    assert (tmp_path / "map.txt").read_text() == "1"


def test_what_is_not_ours_stays(tmp_path):
    """Names that only look alike, links and pipes are not followed, waited for or removed."""
    outside = tmp_path / "outside"
    place = tmp_path / "place"
    for folder in (outside, place):
        folder.mkdir()
    (outside / "mine").touch()
    (place / ".map.partial-0123").touch()
    (place / "map.partial-01234567").touch()
    (place / ".map.partial-01234567").symlink_to(outside)
    os.mkfifo(place / ".map.partial-89abcdef")
    atomic_files.remove_stale(place)
    assert (outside / "mine").exists()
    assert {".map.partial-0123", "map.partial-01234567", ".map.partial-01234567"} <= set(
        names(place)
    )
    atomic_files.remove_stale(tmp_path / "nowhere")


def test_without_locks_leftovers_stay(tmp_path, monkeypatch):
    """Where a disk has no locks, writing works, and nobody's work is taken for a leftover."""
    left = killed("folder", tmp_path / "map")

    def refuses(*_):
        raise OSError("no locks")

    monkeypatch.setattr(fcntl, "flock", refuses)
    atomic_files.write(tmp_path / "a", b"1")
    with atomic_files.folder(tmp_path / "map"):
        pass
    with atomic_files.exclusive_lock(tmp_path):
        pass
    assert names(tmp_path) == sorted(["a", "map", left.name])


def test_one_at_a_time(tmp_path):
    """The exclusive lock of a folder is held by one at a time."""
    order, inside = [], threading.Event()

    def other():
        inside.wait()
        with atomic_files.exclusive_lock(tmp_path):
            order.append("other")

    thread = threading.Thread(target=other)
    thread.start()
    with atomic_files.exclusive_lock(tmp_path):
        inside.set()
        thread.join(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


def test_a_folder_whose_block_was_never_entered_goes_with_the_process(tmp_path):
    """An interruption between making and entering leaves nothing, whichever way a command ends."""
    code = (
        "import sys; from pathlib import Path; from hexveil.base import atomic_files\n"
        "block = atomic_files.temporary_folder(Path(sys.argv[1]) / 'run')\n"
        "assert block.__enter__().is_dir()\n"
        "sys.exit(130)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == 130
    assert names(tmp_path) == []


def test_a_forked_child_leaves_its_parents_folder_alone(tmp_path):
    """A child that exits inside the block removes nothing; the parent goes on writing."""
    code = (
        "import os, sys; from pathlib import Path; from hexveil.base import atomic_files\n"
        "with atomic_files.folder(Path(sys.argv[1]) / 'map') as temporary:\n"
        "    if not (child := os.fork()):\n"
        "        sys.exit()\n"
        "    os.waitpid(child, 0)\n"
        "    (temporary / 'cells.csv').write_text('1')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == 0
    assert names(tmp_path / "map") == ["cells.csv"]
