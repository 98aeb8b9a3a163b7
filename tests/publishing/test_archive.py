"""Where releases of many days stand, on a disk and in a place that cannot rename."""

import json

import pyarrow as pa
import pyarrow.fs
import pytest

import hexveil as hv
from hexveil.publishing import receipt
from hexveil.publishing.archive.archive import Archive, open_archive
from hexveil.publishing.archive.archive_listing import CurrentRelease, LedgerPosition, to_json
from hexveil.publishing.archive.folder_names import folder_name

REQUEST = "ab" * 32
OTHER = "cd" * 32


def pointers(request=REQUEST):
    """Return the pointers of two days, the second with this request."""
    days = (("2026-11-19", REQUEST), ("2026-11-20", request))
    return tuple(CurrentRelease.of_day(*day) for day in days)


def store(folder):
    """Return an archive that is not of the disk's own kind: files are uploaded, never renamed."""
    files = pa.fs.SubTreeFileSystem(str(folder), pa.fs.LocalFileSystem())
    return Archive(files, "buses", "store://")


@pytest.fixture(params=["disk", "store"])
def place(request, tmp_path):
    """Return a place for releases, and the folder that it is."""
    if request.param == "disk":
        return open_archive(str(tmp_path), "buses"), tmp_path / "buses"
    return store(tmp_path), tmp_path / "buses"


def release(folder):
    """Make a release of three files."""
    folder.mkdir()
    for name in ("cells.csv", "manifest.json"):
        (folder / name).write_text(name)
    (folder / "receipt.json").write_text('{"ledger": {"entry": 6, "chain": "ff"}}')


def test_what_is_there_is_not_written_again(place):
    """A whole folder is left alone."""
    here, folder = place
    pointer = CurrentRelease.of_day("2026-11-20", REQUEST)
    here.write_release(pointer, release)
    (folder / pointer.path / "cells.csv").write_text("as it was")
    here.write_release(pointer, lambda _: pytest.fail("written again"))
    assert (folder / pointer.path / "cells.csv").read_text() == "as it was"


def test_a_later_day_stays_the_newest(place):
    """A day that is filled in, and a revision of it, do not turn the newest pointer back."""
    here, _ = place
    first, second = pointers(REQUEST)
    revision = CurrentRelease.of_day("2026-11-19", OTHER)
    for pointer in (second, first, revision):
        here.write_release(pointer, release)
        here.set_current(pointer)
    assert here.current() == second
    assert here.current("2026-11-19") == revision
    # After a crash between two pointers the second is written.
    here.advance_newest(first)
    assert here.current() == second


def test_an_upload_that_stopped_is_completed(tmp_path, monkeypatch):
    """Without its receipt a folder in a store is not whole, and the next run writes it."""
    here, pointer = store(tmp_path), pointers()[1]
    whole = Archive._upload

    def breaks(self, file, path):
        if file.name == "manifest.json":
            raise OSError("connection lost\nwith details")
        whole(self, file, path)

    with monkeypatch.context() as broken:
        broken.setattr(Archive, "_upload", breaks)
        with pytest.raises(hv.StorageError, match=r"connection lost\)\. Bookings stay booked"):
            here.write_release(pointer, release)
    assert not here.is_complete(pointer)
    here.write_release(pointer, release)
    assert here.is_complete(pointer)


@pytest.mark.parametrize("dataset", ["buses", "a/../b c", "..", "x" * 300, "Автобусы", "बस"])
def test_a_data_set_stays_in_its_place(tmp_path, dataset):
    """A name cannot lead out of the folder, and its folder can be made."""
    here = open_archive(str(tmp_path), dataset)
    assert here.root == f"{tmp_path.as_posix()}/{folder_name(dataset)}"
    (tmp_path / folder_name(dataset)).mkdir()
    assert [path.name for path in tmp_path.iterdir()] == [folder_name(dataset)]


def held(root, folder, dataset):
    """Make a folder in which a data set has a release."""
    pointer = CurrentRelease.of_day("2026-11-20", REQUEST)
    (root / folder / pointer.path).mkdir(parents=True)
    manifest = {"dataset": {"name": dataset}}
    (root / folder / pointer.path / "manifest.json").write_text(json.dumps(manifest))
    (root / folder / "latest.json").write_text(to_json(pointer))


def test_a_folder_that_another_has_is_refused(tmp_path):
    """A plain name whose folder holds another's releases is not mixed with them."""
    held(tmp_path, "a-b", "a/b")
    with pytest.raises(hv.StorageError, match="releases of another data set"):
        open_archive(str(tmp_path), "a-b")


def test_what_of_the_ledger_it_rests_on(place):
    """The last event noted, and those of the releases that are there; of free ones none."""
    here, folder = place
    first, second = pointers(OTHER)
    assert here.ledger_positions(None, first) == {}
    here.write_release(first, release)
    assert here.ledger_position(first) == LedgerPosition(6, "ff")
    here.remember(LedgerPosition(9, "aa"))
    here.remember(LedgerPosition(7, "bb"))
    assert here.ledger_positions(first, second, None) == {
        f"{here.address} (ledger.json)": LedgerPosition(9, "aa"),
        f"{here.address} ({first.path})": LedgerPosition(6, "ff"),
    }
    (folder / first.path / "receipt.json").write_text('{"ledger": null}')
    assert here.ledger_position(first) is None
    (folder / first.path / "receipt.json").write_text('{"ledger": 3}')
    with pytest.raises(hv.StorageError, match="is no receipt of a release"):
        here.ledger_position(first)


def test_a_place_is_checked_before(tmp_path):
    """Nothing is made, and a store is not asked; a folder without its receipt is written anew."""
    here, pointer = open_archive(str(tmp_path), "buses"), pointers()[1]
    here.check(pointer)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(hv.InputError, match="file"):
        open_archive(str(tmp_path / "file"), "buses").check(pointer)
    store(tmp_path / "file").check(pointer)
    (tmp_path / "buses" / pointer.path).mkdir(parents=True)
    here.check(pointer)
    here.write_release(pointer, release)
    assert here.is_complete(pointer)


def test_another_process_may_be_faster(tmp_path):
    """Its folder has the same numbers: to find it there at the end is no failure."""
    here, pointer = open_archive(str(tmp_path), "buses"), pointers()[1]

    def late(folder):
        release(folder)
        raise hv.StorageError("the folder is there")

    here.write_release(pointer, late)
    assert here.is_complete(pointer)


def test_leftovers_of_a_day_go(tmp_path):
    """What killed publishers left, also of other requests, goes when a release is put."""
    here, pointer = open_archive(str(tmp_path), "buses"), pointers()[1]
    day = tmp_path / "buses" / "2026-11-20"
    (day / f".{OTHER[:16]}.partial-01234567").mkdir(parents=True)
    (day / ".latest.json.partial-01234567").touch()
    (day.parent / ".ledger.json.partial-01234567").touch()
    here.write_release(pointer, release)
    assert sorted(path.name for path in day.iterdir()) == [REQUEST[:16]]
    assert sorted(path.name for path in day.parent.iterdir()) == [day.name]


def sealed(folder):
    """Make a release whose receipt lists its files."""
    folder.mkdir()
    (folder / "cells.csv").write_text("cell\n")
    (folder / "README.txt").write_text("numbers")
    receipt.write(folder, {"dataset": {"name": "buses"}, "request": REQUEST, "ledger": None})


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (lambda p: p.touch(), ()),
        (lambda p: (p / "cells.csv").unlink(), ("cells.csv is missing",)),
        (lambda p: (p / "cells.csv").write_text(""), ("cells.csv was changed",)),
        (lambda p: (p / "receipt.json").unlink(), ("receipt.json is missing",)),
        (lambda p: (p / "receipt.json").write_text("[]"), ("receipt.json was changed",)),
        (
            lambda p: (p / "receipt.json").write_text(
                '{"receipt_version": 1, "dataset": "buses", "request": "", "ledger": null, '
                '"files": {"../../latest.json": ""}}'
            ),
            ("receipt.json was changed",),
        ),
    ],
)
def test_damage_is_named_and_mended(place, harm, found):
    """What is missing or changed is told by the receipt; the folder is then as it was written."""
    here, folder = place
    pointer = CurrentRelease.of_day("2026-11-20", REQUEST)
    here.write_release(pointer, sealed)
    whole = {path.name: path.read_bytes() for path in (folder / pointer.path).iterdir()}
    harm(folder / pointer.path)
    assert here.has_folder(pointer)
    assert here.find_damage(pointer) == found
    here.restore(pointer, sealed)
    assert here.find_damage(pointer) == ()
    assert {path.name: path.read_bytes() for path in (folder / pointer.path).iterdir()} == whole
    assert [path.name for path in (folder / "2026-11-20").iterdir()] == [REQUEST[:16]]


def test_a_restoration_that_fails_leaves_what_was_there(tmp_path):
    """The damaged folder goes only when the new one is whole."""
    here, pointer = open_archive(str(tmp_path), "buses"), pointers()[1]
    here.write_release(pointer, sealed)
    (tmp_path / "buses" / pointer.path / "README.txt").unlink()

    def fails(_):
        raise hv.StorageError("no room")

    with pytest.raises(hv.StorageError, match="no room"):
        here.restore(pointer, fails)
    assert here.find_damage(pointer) == ("README.txt is missing",)
