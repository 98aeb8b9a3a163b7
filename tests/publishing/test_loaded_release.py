"""Release folders read back: the same numbers, by the checks of `verify`."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil.publishing import signing
from hexveil.publishing.verification import verify
from publishing.releases import forge_table, release_of, statements_of


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a release of hexagons in slots, and its folder."""
    folder = tmp_path_factory.mktemp("made") / "map"
    released = release_of(folder, "means", mapped=True, smoothed=True)
    return released, released.write(folder)


def test_pictures_and_pages_are_those_of_the_release(made):
    """Whoever receives the folder sees what the holder saw."""
    released, folder = made
    assert hv.load(folder)._repr_html_() == released._repr_html_()


def test_a_changed_folder_is_refused(made, tmp_path):
    """The message names the file, whether or not a new receipt was written."""
    _, folder = made
    changed = shutil.copytree(folder, tmp_path / "changed")
    with (changed / "cells.csv").open("a", encoding="utf-8") as file:
        file.write("\n")
    with pytest.raises(hv.InputError, match=r"not as it was written: cells\.csv was changed"):
        hv.load(changed)
    forged = shutil.copytree(folder, tmp_path / "forged")
    forge_table(forged, "mean_raw", lambda numbers: [number + 1 for number in numbers])
    with pytest.raises(hv.InputError, match="mean_raw does not follow from mean_noisy"):
        hv.load(forged)


def test_what_is_no_release_is_refused(tmp_path):
    """Neither a missing folder nor one of other files is read."""
    with pytest.raises(hv.InputError, match="there is no folder"):
        hv.load(tmp_path / "nowhere")
    with pytest.raises(hv.InputError, match=r"has no manifest\.json"):
        hv.load(tmp_path)
    (tmp_path / "manifest.json").write_text("{}", "utf-8")
    for number in range(verify.MAX_FILES):
        (tmp_path / f"{number}.txt").touch()
    with pytest.raises(hv.InputError, match=f"has more than {verify.MAX_FILES} files"):
        hv.load(tmp_path)


@pytest.mark.slow
def test_a_link_is_not_followed(made, tmp_path):
    """A table that is a link to another file is no file of a release."""
    _, folder = made
    linked = shutil.copytree(folder, tmp_path / "linked")
    (linked / "cells.parquet").unlink()
    (linked / "cells.parquet").symlink_to(folder / "cells.parquet")
    with pytest.raises(hv.InputError, match=r"cells\.parquet is a link"):
        hv.load(linked)


def test_the_table_is_the_one_that_was_checked(made, tmp_path, monkeypatch):
    """A file exchanged after the check changes nothing: it is not read a second time."""
    released, folder = made
    place = shutil.copytree(folder, tmp_path / "map")
    compare = verify.file_comparison.compare_texts

    def exchanging(*arguments):
        yield from compare(*arguments)
        pq.write_table(pa.table({"x": [1]}), place / "cells.parquet")
        (place / "manifest.json").write_text("{}", "utf-8")

    monkeypatch.setattr(verify.file_comparison, "compare_texts", exchanging)
    loaded = hv.load(place)
    assert loaded.table.equals(released.table)
    assert statements_of(loaded)["dataset"]["value"] == "speed"


@pytest.mark.slow
@pytest.mark.skipif(not signing.is_available(), reason="cryptography is not installed")
def test_a_key_asks_for_its_holder(made, tmp_path):
    """With a key the folder must be signed by it; without one a signature must still hold."""
    released, folder = made
    for name in ("holder", "other"):
        signing.generate_key_pair(tmp_path / name)
    key, other = tmp_path / "holder.pub", tmp_path / "other.pub"
    signed = released.write(tmp_path / "signed", sign=tmp_path / "holder")
    assert hv.load(signed, key=key).table.equals(released.table)
    assert hv.load(signed).table.equals(released.table)
    with pytest.raises(hv.InputError, match=r"signature\.json"):
        hv.load(signed, key=other)
    with pytest.raises(hv.InputError, match="the folder is unsigned"):
        hv.load(folder, key=key)
