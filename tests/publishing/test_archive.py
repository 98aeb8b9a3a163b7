"""Where releases of many days stand, on a disk and in a place that cannot rename."""

import errno
import json
import shutil

import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from publishing import archives
from publishing.archives import DAYS, content, current, publish, published
from publishing.releases import problems_of, whole_of

pytestmark = pytest.mark.slow
FIRST, SECOND, THIRD = DAYS


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """Return a folder with a run file, its ledger, and an archive of its second day."""
    home = tmp_path_factory.mktemp("before")
    published(archives.site(home), SECOND)
    return home


@pytest.fixture
def run(before, tmp_path):
    """Return the run file of a copy."""
    return shutil.copytree(before, tmp_path / "site") / "run.toml"


@pytest.fixture
def maps(run):
    """Return the archive."""
    return run.parent / "maps"


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Return a place that cannot rename as it is named, and the folder that it is."""
    monkeypatch.setattr(pyarrow.fs, "FileSystem", archives.Stores)
    return f"store://{tmp_path / 'store'}", tmp_path / "store"


@pytest.fixture(params=["disk", "store"])
def place(request, maps, store):
    """Return the archive as it is named, and the folder that it is, with its second day."""
    if request.param == "disk":
        return None, maps
    shutil.move(maps, store[1])
    return store


def test_what_is_there_is_not_written_again(run, place):
    """A whole folder is left alone."""
    out, root = place
    folder = current(root)
    written = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert publish(run, SECOND, out=out).state == "published before"
    # As after a crash before the pointers.
    for pointer in (folder.parent / "latest.json", folder.parents[1] / "latest.json"):
        pointer.unlink()
    assert publish(run, SECOND, out=out).state == "published"
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == written


def test_a_later_day_stays_the_newest(run, place):
    """A day that is filled in, and a revision of it, do not turn the newest pointer back."""
    out, root = place
    second = current(root)
    assert publish(run, FIRST, out=out).state == "published"
    assert current(root) == second
    first = current(root, FIRST)
    newest = (root / "buses" / "latest.json").read_text()
    # After a crash between two pointers the second is written.
    (root / "buses" / "latest.json").write_text(json.dumps(content(first.parent / "latest.json")))
    assert publish(run, SECOND, out=out).state == "published before"
    assert (root / "buses" / "latest.json").read_text() == newest
    run.write_text(run.read_text().replace("epsilon = 1", "epsilon = 2"))
    assert publish(run, FIRST, out=out, revise=True).state == "published"
    assert current(root) == second
    assert current(root, FIRST) != first
    assert first.exists()


def test_an_upload_that_stopped_is_completed(run, store, monkeypatch):
    """Without its receipt a folder in a store is not whole, and the next run writes it."""
    out, root = store

    def breaks(source, sink, real=shutil.copyfileobj):
        if source.name.endswith("manifest.json"):
            raise OSError("connection lost\nwith details")
        real(source, sink)

    with monkeypatch.context() as broken:
        broken.setattr(shutil, "copyfileobj", breaks)
        failed = publish(run, FIRST, out=out)
    assert failed.state == "failed"
    assert "connection lost). Bookings stay booked" in failed.message
    assert not list(root.rglob("receipt.json"))
    assert "no further cost" in publish(run, FIRST, out=out).message
    assert problems_of(current(root, FIRST)) == ()


@pytest.mark.parametrize("dataset", ["a/../b c", "..", "x" * 300, "Автобусы", "बस"])
def test_a_data_set_stays_in_its_place(tmp_path, dataset):
    """A name cannot lead out of the folder; its own is the one that its releases name."""
    run = archives.site(tmp_path, dataset, days=[FIRST])
    assert publish(run, FIRST).state == "published"
    (place,) = (path for path in (tmp_path / "maps").iterdir() if path.is_dir())
    folder = current(tmp_path / "maps", dataset=place.name)
    assert whole_of(folder)["dataset"]["name"] == dataset
    assert content(folder / "datapackage.json")["name"] == f"{place.name}-{folder.name}"
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["maps"]


def test_a_folder_that_another_has_is_refused(run, maps):
    """A plain name whose folder holds another's releases is not mixed with them."""
    manifest = current(maps) / "manifest.json"
    manifest.write_text(json.dumps(whole_of(manifest.parent) | {"dataset": {"name": "b/s"}}))
    with pytest.raises(hv.StorageError, match="releases of another data set"):
        publish(run, SECOND)


def test_what_of_the_ledger_it_rests_on(run, maps):
    """The last event of any release is noted, and that of each release in its receipt."""
    second = content(current(maps) / "receipt.json")["ledger"]
    assert content(maps / "buses" / "ledger.json") == second
    first = content(published(run, FIRST) / "receipt.json")["ledger"]
    assert first["entry"] > second["entry"]
    assert content(maps / "buses" / "ledger.json") == first
    receipt = current(maps) / "receipt.json"
    receipt.write_text(json.dumps(content(receipt) | {"ledger": 3}))
    refused = publish(run, THIRD)
    assert refused.state == "failed"
    assert "is no receipt of a release" in refused.message


def test_a_place_is_checked_before(run, tmp_path):
    """A place where nothing can be made costs nothing; a folder without receipt is written anew."""
    book = hv.Ledger(run.parent / "ledger.sqlite", dataset="buses")
    spent = book.spent
    (tmp_path / "file").touch()
    refused = publish(run, FIRST, out=tmp_path / "file")
    assert refused.state == "failed"
    assert "file" in refused.message
    assert book.spent == spent
    folder = published(run, FIRST)
    for path in (folder / "receipt.json", folder.parent / "latest.json"):
        path.unlink()
    assert publish(run, FIRST).state == "published"
    assert (folder / "receipt.json").exists()


def test_another_process_may_be_faster(run, maps, monkeypatch):
    """Its folder has the same numbers: to find it there at the end is no failure."""
    folder = published(run, FIRST)
    moved = shutil.move(folder, maps.parent / "other")
    (folder.parent / "latest.json").unlink()

    def late(release, place, *, real=hv.Release.write, **options):
        shutil.move(moved, folder)
        return real(release, place, **options)

    monkeypatch.setattr(hv.Release, "write", late)
    assert publish(run, FIRST).state == "published"
    assert current(maps, FIRST) == folder


def test_leftovers_of_a_day_go(run, maps):
    """What killed publishers left, also of other requests, goes when a release is put."""
    day = maps / "buses" / SECOND
    (day / ".0123456789abcdef.partial-01234567").mkdir()
    (day / ".latest.json.partial-01234567").touch()
    (day.parent / ".ledger.json.partial-01234567").touch()
    published(run, FIRST)
    assert not list(maps.rglob("*partial*"))


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("cells.csv", "", "cells.csv was changed"),
        (
            "receipt.json",
            json.dumps(
                {
                    "receipt_version": 1,
                    "dataset": "buses",
                    "request": "",
                    "ledger": None,
                    "files": {"../../latest.json": ""},
                }
            ),
            "receipt.json was changed",
        ),
    ],
)
def test_damage_is_named_and_mended(run, place, name, text, found):
    """What was changed is told by the receipt; the folder is then as it was written."""
    out, root = place
    folder = current(root)
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / name).write_text(text)
    outcome = publish(run, SECOND, out=out)
    assert outcome.state == "restored"
    assert f": {found}; restored" in outcome.message
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [folder.name]


def test_a_restoration_that_fails_leaves_what_was_there(run, maps, monkeypatch):
    """The damaged folder goes only when the new one is whole."""
    folder = current(maps)
    (folder / "README.txt").unlink()
    left = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as broken:
        broken.setattr(pq, "write_table", full)
        outcome = publish(run, SECOND)
    assert outcome.state == "failed"
    assert "no room" in outcome.message
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == left
    assert publish(run, SECOND).state == "restored"
