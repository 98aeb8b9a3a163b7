"""Release folders read back: the same numbers, by the checks of `verify`; what these say."""

import json
import os
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from publishing.releases import problems_of, release_of, statements_of


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
    opened = []

    def exchanging(path, *flags, real=os.open, **more):
        opened.append(Path(path).name)
        # First for its checksum; then the page is the last file that is compared.
        if opened.count("report.html") == 2:
            pq.write_table(pa.table({"x": [1]}), place / "cells.parquet")
            (place / "manifest.json").write_text("{}", "utf-8")
        return real(path, *flags, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", exchanging)
        loaded = hv.load(place)
    assert (place / "manifest.json").read_text() == "{}"
    assert loaded.table.equals(released.table)
    assert statements_of(loaded)["dataset"]["value"] == "speed"


def test_in_python_the_manifest_is_returned_or_every_problem_is_named(made, tmp_path):
    """`hexveil.verify` takes a path or text; what is wrong with a folder is one error."""
    place = shutil.copytree(made[1], tmp_path / "map")
    assert hv.verify(str(place)) == json.loads((place / "manifest.json").read_text())
    (place / "README.txt").write_text("nothing is protected")
    (place / "more.txt").touch()
    with pytest.raises(hv.InputError, match=r"map is not as it was written: ") as told:
        hv.verify(place)
    assert {"README.txt", "more.txt"} <= set(re.findall(r"\w+\.txt", str(told.value)))
    with pytest.raises(hv.InputError, match="there is no folder"):
        hv.verify(tmp_path / "gone")


def test_problems_fit_a_terminal(made, tmp_path):
    """Of very many problems, and of very long names, a part is told."""
    place = shutil.copytree(made[1], tmp_path / "map")
    for number in range(60):
        (place / f"{number:02} {'x' * 200}.txt").touch()
    found = problems_of(place)
    assert len(found) == 31
    assert found[-1] == "And 30 more."
    assert max(map(len, found)) <= 303
