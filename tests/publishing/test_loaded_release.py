"""Release folders read back: the same numbers, by the checks of `verify`."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil.publishing.verification import verify
from publishing.releases import release_of, statements_of


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
