"""The release folder: whole or not there at all, and what stands in its files."""

import errno
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil import report
from hexveil.publishing import check_writable, folder
from hexveil.publishing.estimates.accuracy import accuracy_statement
from hexveil.publishing.estimates.table import build_table
from publishing.setting import manifest_of, plan_of

MAPPED = {
    "cells.parquet", "cells.csv", "cells.geojson", "report.html", "manifest.json", "README.txt",
    "receipt.json", "dcat.jsonld", "schema-org.jsonld", "datapackage.json",
    "stac-item.json",
}  # fmt: skip


def release_of(dataset, noise=0.7):
    """Return table and manifest of a release whose noisy numbers are chosen."""
    plan = plan_of(dataset, 2, noise)
    noisy = 10.0 + np.arange(dataset.occupancy.n_cells) / 3
    table = build_table(plan, dataset.public, {"mean": noisy})
    accuracy = accuracy_statement(plan, table, None)
    return table, manifest_of("buses", dataset, plan, None, accuracy)


def files(path):
    """Return the names of a folder's entries."""
    return {entry.name for entry in path.iterdir()}


@pytest.mark.parametrize("step", ["parquet", "csv", "page", "readme", "settle", "rename"])
def test_a_failure_midway_leaves_nothing(city, tmp_path, monkeypatch, step):
    """Whichever step meets a full disk, no file, no temporary and no new parent folder stays."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place = {
        "parquet": (pq, "write_table"),
        "csv": (pa.csv, "write_csv"),
        "page": (report, "render"),
        "readme": (folder, "render_readme"),
        "settle": (os, "fsync"),
        "rename": (Path, "rename"),
    }[step]
    monkeypatch.setattr(*place, full)
    with pytest.raises(hv.StorageError, match=r"could not be written to .*No space left") as failed:
        folder.write(*release_of(city), tmp_path / "a" / "b" / "map")
    assert failed.value.exit_code == 1
    assert "nothing was left" in str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__
    monkeypatch.undo()
    assert files(tmp_path) == set()
    assert files(folder.write(*release_of(city), tmp_path / "a" / "b" / "map")) == MAPPED


def test_an_interruption_leaves_nothing(city, tmp_path, monkeypatch):
    """Interrupted by hand, the folder goes as well."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "render", interrupted)
    with pytest.raises(KeyboardInterrupt):
        folder.write(*release_of(city), tmp_path / "map")
    assert files(tmp_path) == set()


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_what_exists_is_refused(city, tmp_path, kind):
    """A release is never written into or over anything, not even a link to nowhere."""
    place = tmp_path / "map"
    {
        "folder": place.mkdir,
        "file": place.touch,
        "dangling link": lambda: place.symlink_to(tmp_path / "nowhere"),
    }[kind]()
    for refused in (check_writable, lambda path: folder.write(*release_of(city), path)):
        with pytest.raises(
            hv.InputError, match="exists, and is never written into; name a new"
        ) as e:
            refused(place)
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
def test_places_that_cannot_be_written_are_refused(tmp_path, place):
    """Where no folder can be made the check says so, and leaves nothing."""
    path = NOT_WRITABLE[place](tmp_path)
    before = files(tmp_path)
    with pytest.raises(hv.InputError, match=r"cannot be created .* name one where you may write"):
        check_writable(path)
    assert files(tmp_path) == before
