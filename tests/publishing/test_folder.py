"""The release folder: whole or not there at all, and what stands in its files."""

import errno
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from publishing.setting import released, small_city

MAPPED = {
    "cells.parquet", "cells.csv", "cells.geojson", "report.html", "manifest.json", "README.txt",
    "receipt.json", "dcat.jsonld", "schema-org.jsonld", "datapackage.json",
    "stac-item.json",
}  # fmt: skip


@pytest.fixture(scope="module")
def release():
    """Return a release of the small city."""
    return released(small_city())


def files(path):
    """Return the names of a folder's entries."""
    return {entry.name for entry in path.iterdir()}


STEPS = {
    "parquet": (pq, "write_table", "cells.parquet"),
    "csv": (pa.csv, "write_csv", "cells.csv"),
    "page": (Path, "write_text", "report.html"),
    "readme": (Path, "write_bytes", "README.txt"),
    "receipt": (Path, "write_text", "receipt.json"),
    "settle": (os, "fsync", ""),
    "rename": (Path, "rename", ""),
}
"""Steps of writing: a function of a library, and the file that it writes."""


def fail(patch, step, error):
    """Let a step fail."""
    owner, name, file = STEPS[step]
    real = getattr(owner, name)

    def failing(*given, **named):
        if any(str(one).endswith(file) for one in given):
            raise error
        return real(*given, **named)

    patch.setattr(owner, name, failing)


@pytest.mark.parametrize("step", STEPS)
def test_a_failure_midway_leaves_nothing(release, tmp_path, monkeypatch, step):
    """Whichever step meets a full disk, no file, no temporary and no new parent folder stays."""
    fail(monkeypatch, step, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with pytest.raises(hv.StorageError, match=r"could not be written to .*No space left") as failed:
        release.write(tmp_path / "a" / "b" / "map")
    assert failed.value.exit_code == 1
    assert "nothing was left" in str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__
    monkeypatch.undo()
    assert files(tmp_path) == set()
    assert files(release.write(tmp_path / "a" / "b" / "map")) == MAPPED


def test_an_interruption_leaves_nothing(release, tmp_path, monkeypatch):
    """Interrupted by hand, the folder goes as well."""
    fail(monkeypatch, "page", KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        release.write(tmp_path / "map")
    assert files(tmp_path) == set()


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_what_exists_is_refused(release, tmp_path, kind):
    """A release is never written into or over anything, not even a link to nowhere."""
    place = tmp_path / "map"
    {
        "folder": place.mkdir,
        "file": place.touch,
        "dangling link": lambda: place.symlink_to(tmp_path / "nowhere"),
    }[kind]()
    with pytest.raises(hv.InputError, match="exists, and is never written into; name a new") as e:
        release.write(place)
    assert e.value.exit_code == 2
    assert files(tmp_path) == {"map"}


def below_a_file(tmp_path):
    """Return a path that runs through a file."""
    (tmp_path / "file").touch()
    return tmp_path / "file" / "map"


NOT_WRITABLE = {
    "below a file": below_a_file,
    "deep below a file": lambda tmp_path: below_a_file(tmp_path) / "deeper" / "still",
    "in /proc": lambda _: Path("/proc/map"),
    "name too long": lambda tmp_path: tmp_path / ("x" * 300),
    "name too long to be renamed": lambda tmp_path: tmp_path / ("x" * 250),
}


@pytest.mark.parametrize("place", NOT_WRITABLE)
def test_places_that_cannot_be_written_are_refused(release, tmp_path, place):
    """Where no folder can be made this is said, and nothing is left."""
    path = NOT_WRITABLE[place](tmp_path)
    before = files(tmp_path)
    with pytest.raises(hv.InputError, match=r"cannot be created .* name one where you may write"):
        release.write(path)
    assert files(tmp_path) == before
