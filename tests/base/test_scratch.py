"""The scratch folder: private, emptied of what killed runs left, and of nothing else."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hexveil import InputError, StorageError
from hexveil.base import scratch
from hexveil.base.scratch import MARKER

HOLD = """\
import sys
from hexveil.base import scratch
with scratch.folder({place!r}) as own:
    (own / "spill").mkdir()
    (own / "spill" / "block").write_text("x" * 1000)
    print(own, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return where the scratch folder of this test is, named by the environment."""
    monkeypatch.setenv(scratch.VARIABLE, str(tmp_path / "scratch"))
    return tmp_path / "scratch"


@pytest.fixture
def holder(place):
    """Return a function that starts a process which holds a scratch folder until told."""
    started = []

    def start():
        child = subprocess.Popen(
            [sys.executable, "-c", HOLD.format(place=str(place))], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        started.append(child)
        return child, place / child.stdout.readline().strip()

    yield start
    for child in started:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


def runs(place):
    """Return the subfolders of runs."""
    return sorted(path for path in place.iterdir() if path.name != MARKER)


def test_a_folder_is_private_and_gone_at_the_end(place):
    """Root and subfolder have mode 0700, whatever the umask; a note says what they are."""
    before = os.umask(0)
    try:
        with scratch.folder() as own:
            (own / "block").write_text("sums")
            modes = {stat.S_IMODE(path.stat().st_mode) for path in (place, own)}
    finally:
        os.umask(before)
    assert modes == {0o700}
    assert runs(place) == []
    assert "PRIVATE" in (place / MARKER).read_text()


def test_an_argument_goes_before_the_environment(place, tmp_path):
    """The folder that a run names is taken, and none is made elsewhere."""
    with scratch.folder(tmp_path / "own") as own:
        assert own.parent == tmp_path / "own"
    assert not place.exists()


def test_the_default_is_in_the_temporary_folder(tmp_path, monkeypatch):
    """Without a name it is one folder for each user."""
    monkeypatch.delenv(scratch.VARIABLE, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert scratch.place() == tmp_path / f"hexveil-{os.geteuid()}"


def test_what_a_killed_run_left_goes_at_the_next_start(place, holder):
    """The files of killed runs go, however many; those of live ones stay."""
    left = []
    for _ in range(2):
        child, own = holder()
        child.send_signal(signal.SIGKILL)
        child.wait()
        left.append(own)
    assert left[-1].is_dir()
    live, kept = holder()
    assert not any(own.exists() for own in left)
    with scratch.folder() as own:
        assert runs(place) == sorted([kept, own])
        assert (kept / "spill" / "block").read_text() == "x" * 1000
    live.communicate("")
    assert live.returncode == 0
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
    with pytest.raises(InputError, match=f"scratch: .*{said}"), scratch.folder():
        pass


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
    with scratch.folder():
        pass
    monkeypatch.setattr(os, name, lambda *_: found)
    with pytest.raises(InputError, match=said), scratch.folder(place):
        pass


def test_the_default_under_a_name_that_another_made_is_refused(tmp_path, monkeypatch):
    """In a temporary folder for all, a link in the place of ours is not followed."""
    monkeypatch.delenv(scratch.VARIABLE, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / f"hexveil-{os.geteuid()}").symlink_to(tmp_path / "home")
    with pytest.raises(InputError, match="is a file or a link"), scratch.folder():
        pass


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), OSError(30, "Read-only")]
)
def test_a_full_or_read_only_disk_is_a_sentence(place, monkeypatch, error):
    """Where no folder can be made, the sentence says why and how to name another."""
    with scratch.folder():
        pass

    def refused(*_, **__):
        raise error

    monkeypatch.setattr("pathlib.Path.mkdir", refused)
    expected = (InputError, StorageError)
    with pytest.raises(expected, match=f"scratch: .*{error.strerror}.*name"), scratch.folder():
        pass


@pytest.mark.parametrize("wrong", [3, "", b""])
def test_only_a_name_is_taken(wrong):
    """What cannot name a folder is refused."""
    with pytest.raises(InputError, match="scratch must be the name"):
        scratch.place(wrong)
