"""Reading the public layer beneath the map."""

import json
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil.report import read_context, render
from hexveil.report.geography import context as module
from hexveil.report.origin import describe_origin

SHAPES = [
    {"type": "LineString", "coordinates": [[1, 2], [3, 4, 99]]},
    {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]},
    {"type": "MultiPolygon", "coordinates": [[[[0, 0], [1, 0], [1, 1], [0, 0]]]]},
    {"type": "MultiLineString", "coordinates": [[[0, 0], [1, 1]], [[2, 2], [3, 3]]]},
    {"type": "MultiPoint", "coordinates": [[5, 5], [6, 6]]},
    {"type": "Point", "coordinates": [7, 8]},
]


def write(folder, value) -> str:
    file = folder / "context.geojson"
    file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return str(file)


def test_geometry_of_every_kind_is_kept_and_of_properties_the_name(tmp_path):
    """Lines, polygons and points come back; other properties and a missing geometry do not."""
    features = [
        {"type": "Feature", "properties": {"name": "x", "n": "y"}, "geometry": s} for s in SHAPES
    ]
    features.append({"type": "Feature", "properties": {}, "geometry": None})
    found = read_context(write(tmp_path, {"type": "FeatureCollection", "features": features}))
    assert [(shape.name, shape.is_line, len(shape.lines)) for shape in found.shapes] == [
        ("x", True, 1), ("x", False, 1), ("x", False, 1), ("x", True, 2), ("x", False, 2),
        ("x", False, 1),
    ]  # fmt: skip
    assert found.shapes[0].lines[0] == [(1.0, 2.0), (3.0, 4.0)]


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"name": "Surat", "name:en": "Surat city"}, "Surat city"),
        ({"name": " two\nlines\u202e "}, "two lines"),
        ({"name": "a" * 99}, "a" * 60),
        ({"name": 7}, ""),
        (None, ""),
    ],
)
def test_names_are_short_lines_of_text(tmp_path, properties, name):
    """The English name comes first; letters that do not print are gone, long names are cut."""
    feature = {"type": "Feature", "properties": properties, "geometry": SHAPES[-1]}
    (shape,) = read_context(write(tmp_path, feature)).shapes
    assert (shape.name, shape.middle) == (name, (7.0, 8.0))


STREETS = {
    "type": "FeatureCollection",
    "attribution": "\u00a9 <b>OpenStreetMap contributors",
    "features": [
        {
            "type": "Feature",
            "properties": {"name": name},
            "geometry": {"type": kind, "coordinates": places},
        }
        for name, kind, places in (
            ("Surat", "Point", [72.82, 21.15]),
            ("Ring Road", "LineString", [[72.80, 21.16], [72.83, 21.17], [72.86, 21.18]]),
            ("<i>Lane", "LineString", [[72.83, 21.17], [72.84, 21.19]]),
        )
    ],
}


def test_streets_are_named_on_the_map_and_the_file_is_credited(city, tmp_path):
    """Names and the file's credit are escaped, in words of hexagons too."""
    context = read_context(write(tmp_path, STREETS))
    html = render(city.table, city.manifest, context=context, geography=False)
    drawn = json.loads(re.search(r'id="data">(.*?)</script>', html)[1])["map"]
    assert [name for _, _, name in drawn["streets"]] == ["Ring Road", "<i>Lane"]
    assert all(text.endswith("of Surat") or text == "Surat" for text in drawn["words"])
    assert "<i>Lane" not in html
    assert "\u00a9 &lt;b&gt;OpenStreetMap contributors" in html
    assert "lines and names of the publisher" not in html


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is not GeoJSON"),
        ("{", "is not GeoJSON"),
        ("[1, 2]", "is not GeoJSON"),
        ({"type": "Topology", "objects": {}}, "is not GeoJSON"),
        ({"type": "LineString", "coordinates": [[1, "north"]]}, "is not GeoJSON"),
        ({"type": "LineString", "coordinates": [[500_000, 4_000_000]]}, "in degrees"),
        ({"type": "Point", "coordinates": [1]}, "is not GeoJSON"),
        ({"type": "Point", "coordinates": [1, 91]}, "is not GeoJSON"),
        ("\xff" * 3, "is not GeoJSON"),
        ("[" * 100_000, "is not GeoJSON"),
        ({"type": "FeatureCollection", "features": []}, "holds no line"),
        ({"type": "LineString", "coordinates": []}, "holds no line"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path, content, sentence):
    """What is not GeoJSON in degrees, or is empty, is refused in a sentence."""
    with pytest.raises(hv.InputError, match=sentence):
        read_context(write(tmp_path, content))


def test_missing_files_folders_and_large_files_are_refused(tmp_path, monkeypatch):
    """A file that is not there, is a folder, or above the limit, is refused."""
    for path in (tmp_path / "none.geojson", tmp_path):
        with pytest.raises(hv.InputError, match="must be a file"):
            read_context(path)
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    with pytest.raises(hv.InputError, match="at most"):
        read_context(write(tmp_path, {"type": "Point", "coordinates": [1, 2]}))


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "coordinates", "features", "geometry"]),
                inner | st.sampled_from(["Point", "LineString", "Feature", "FeatureCollection"]),
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_json_causes_another_error(tmp_path_factory, value):
    """Whatever JSON comes, it is drawn or refused by a sentence."""
    try:
        found = read_context(write(tmp_path_factory.mktemp("any"), value))
    except hv.InputError:
        return
    assert all(abs(lat) <= 90 for one in found.shapes for line in one.lines for _, lat in line)


# ---- Where a map is of, and when: the period and the publisher under the titles ----


HEXAGONS = {"kind": "hexagons", "timezone": "Asia/Kolkata", "slot": "pooled"}
POOLED = pa.table({"slot": ["06:00", "07:00"]})


@pytest.mark.parametrize(
    ("table", "manifest", "words", "brief"),
    [
        (
            POOLED,
            {"selection": {"select": "min_users 10; dates 2025-03-05 to 2025-03-05"}},
            "Records of Wednesday 5 March 2025 (Asia/Kolkata)",
            "5 March 2025",
        ),
        (
            pa.table({"slot": ["2024-12-31T23:00", "2025-01-02T00:00"]}),
            {"selection": {}},
            "Records of Tuesday 31 December 2024 to Thursday 2 January 2025 (Asia/Kolkata)",
            "31 December 2024 to 2 January 2025",
        ),
        (
            POOLED,
            {"selection": {}, "catalogue": {"temporal": ["2025-03-03", "2025-03-09"]}},
            "Records of Monday 3 March to Sunday 9 March 2025 (Asia/Kolkata)",
            "3 March to 9 March 2025",
        ),
        (POOLED, {"selection": {}}, "The publisher declared no period of the records", ""),
    ],
)
def test_the_period_is_that_of_slots_dates_or_the_declaration(table, manifest, words, brief):
    """Calendar slots come first, then selected dates, then what the publisher declares."""
    origin = describe_origin(table, {"grid": HEXAGONS, **manifest})
    assert (origin["period"], origin["brief_period"]) == (words, brief)


def test_publisher_licence_and_contact_are_named_as_far_as_they_are_stated():
    """Nothing is guessed, and nothing stated is left out."""
    stated = {"publisher": "City of Surat", "license": "CC-BY-4.0", "contact": "data@example.org"}
    manifest = {"grid": HEXAGONS, "selection": {}, "catalogue": stated}
    assert describe_origin(POOLED, manifest)["publisher"] == (
        "Published by City of Surat · Licence: CC-BY-4.0 · Contact: data@example.org"
    )
    manifest["catalogue"] = {"contact": "data@example.org"}
    assert describe_origin(POOLED, manifest)["publisher"] == "Contact: data@example.org"
    assert describe_origin(POOLED, manifest | {"catalogue": {}})["publisher"] == ""
