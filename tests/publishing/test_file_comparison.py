"""Every value of CSV, GeoJSON and README.txt is compared with the Parquet table."""

import json
import shutil

import pytest

from hexveil.publishing.verification import verify
from publishing.releases import (
    forge_json,
    forge_manifest,
    forge_table,
    problems_after,
    released,
    seal,
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a map with smoothed estimates, and labels with all statistics."""
    home = tmp_path_factory.mktemp("folders")
    return {
        "map": released(home / "map", "means", mapped=True, smoothed=True),
        "labels": released(home / "labels", "squares"),
    }


def geojson(change):
    def forge(place):
        forge_json("cells.geojson", lambda collection: change(collection["features"]))(place)
        seal(place)

    return forge


def text(name, old, new):
    def forge(place):
        said = (place / name).read_text("utf-8")
        assert old in said
        (place / name).write_text(said.replace(old, new, 1), "utf-8")
        seal(place)

    return forge


def first(change):
    """Return what changes the first of many."""
    return lambda numbers: [change(numbers[0]), *numbers[1:]]


def plus(key):
    """Return what adds one to a property of the first feature."""

    def change(features):
        features[0]["properties"][key] += 1

    return change


def moved(features):
    features[0]["geometry"]["coordinates"][0][0][0] += 1e-3


MAP, ROWS, README = "the same cells", "the same rows", "README.txt is not what"
FORGED = {
    "a number of the map": ("map", geojson(plus("mean_noisy")), MAP),
    "a count of the map": ("map", geojson(plus("records")), MAP),
    "a corner of the map": ("map", geojson(moved), MAP),
    "a cell too few on the map": ("map", geojson(lambda features: features.pop()), MAP),
    "another order on the map": ("map", geojson(lambda features: features.reverse()), MAP),
    "a column too many on the map": (
        "map", geojson(lambda features: features[0]["properties"].update(note="x")), MAP,
    ),
    "the map is gone": ("map", lambda p: [(p / "cells.geojson").unlink(), seal(p)], "is missing"),
    "a map of labels": (
        "labels", lambda p: [(p / "cells.geojson").write_text("{}"), seal(p)], "has no hexagons",
    ),
    "a digit of the CSV": ("labels", text("cells.csv", ",30,", ",31,"), ROWS),
    "an unguarded formula": ("labels", text("cells.csv", "\"'=", '"='), ROWS),
    "a price in the README": ("labels", text("README.txt", "epsilon 40", "epsilon 4"), README),
    "a word of the README": ("labels", text("README.txt", "user", "user-day"), README),
    "a grade": ("labels", lambda p: forge_table(p, "mean_quality", first(lambda _: "splendid")),
                "mean_quality is not that of its bound"),
    "a smoothed number": ("map", lambda p: forge_table(p, "mean_smoothed", first(lambda _: 999.0)),
                          "no interval within the bounds, around mean"),
    "another hexagon": ("map", lambda p: forge_table(p, "hexagon", first(lambda name: f"0{name}")),
                        "a hexagon that is none of the grid"),
    "no number": ("labels", lambda p: forge_table(p, "mean_raw", first(lambda _: float("nan"))),
                  "mean_raw has a row without a value"),
}  # fmt: skip


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_file_is_found(folders, tmp_path, forged):
    """What one file says otherwise than the table is named, also under a new receipt."""
    kind, forge, sentence = FORGED[forged]
    problems = problems_after(forge, folders[kind], tmp_path / "map")
    assert any(sentence in problem for problem in problems), problems


def test_other_spellings_of_the_same_are_accepted(folders, tmp_path):
    """Blanks in JSON, digits of a corner and quotes in CSV say the same."""
    place = shutil.copytree(folders["map"], tmp_path / "map")
    said = json.loads((place / "cells.geojson").read_text("utf-8"))
    said["features"][0]["geometry"]["coordinates"][0][0][0] += 1e-13
    (place / "cells.geojson").write_text(json.dumps(said, indent=1), "utf-8")
    rows = (place / "cells.csv").read_text("utf-8").splitlines()
    rows[1] = ",".join(f'"{part.strip(chr(34))}"' for part in rows[1].split(","))
    (place / "cells.csv").write_text("\n".join(rows) + "\n", "utf-8")
    seal(place)
    assert verify.find_problems(place) == ()


def test_words_of_another_version_are_not_compared(folders, tmp_path):
    """README.txt of another version is not made anew, and that is said."""
    place = shutil.copytree(folders["labels"], tmp_path / "map")
    (place / "README.txt").write_text("other words")
    forge_manifest(place, lambda said: said["software"].update(hexveil="0.0.1"))
    found = verify.check_folder(place)
    assert found.problems == ()
    assert any("words of README.txt" in one for one in found.unknown)


def test_a_page_with_a_layer_of_its_holder_is_compared_without_it(tmp_path):
    """Its lines and names are the holder's, and named as such; whatever else differs is found."""
    lines = {"type": "LineString", "coordinates": [[72.75, 21.2], [72.85, 21.22]]}
    (tmp_path / "roads.json").write_text(json.dumps(lines), "utf-8")
    folder = released(tmp_path / "map", "means", mapped=True, context=tmp_path / "roads.json")
    verdict = verify.check_folder(folder)
    assert verdict.problems == ()
    assert "the lines and names of the holder's own layer on the page" in verdict.unknown
    page = (folder / "report.html").read_text("utf-8")
    for number, (old, new) in enumerate((("</h1>", " x</h1>"), ('"records":[', '"records":[9,'))):
        assert old in page
        forged = problems_after(text("report.html", old, new), folder, tmp_path / f"{number}")
        assert any("report.html is not what" in one for one in forged)
