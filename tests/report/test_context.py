"""The public layer beneath the map, and the lines under the titles, as the page has them."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from report.pages import data_of, page_of, restated, write_layer

SHAPES = [
    ("LineString", [[1, 2], [3, 4, 99]]),
    ("Polygon", [[[0, 0], [1, 0], [1, 1], [0, 0]]]),
    ("MultiPolygon", [[[[8, 0], [9, 0], [9, 1], [8, 0]]]]),
    ("MultiLineString", [[[0, 8], [1, 9]], [[2, 8], [3, 9]]]),
    ("MultiPoint", [[5, 5], [6, 6]]),
    ("Point", [7, 8]),
]
"""Shapes within ten degrees, in tenths of a degree of the city."""


def near(place):
    """Return nested places in the city."""
    if isinstance(place[0], list):
        return [near(one) for one in place]
    return [72.82 + place[0] / 500, 21.16 + place[1] / 500, *place[2:]]


def write(folder, value) -> str:
    file = folder / "context.geojson"
    file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return str(file)


def drawn(city, *args, **facts):
    """Return a page with a layer, and the map of its data; nothing of the package is on it."""
    html = page_of(city, context=write_layer(*args, **facts), hide_geography=True)
    return html, data_of(html)["map"]


def test_geometry_of_every_kind_is_kept_and_of_properties_the_name(city, tmp_path):
    """Lines, polygons and points come back; other properties and a missing geometry do not."""
    features = [({"name": kind, "n": "secret"}, kind, near(place)) for kind, place in SHAPES]
    html, found = drawn(city, tmp_path, *features, ({"name": "nowhere"}, None, None))
    assert [len(line) // 2 for line in found["context"]] == [2, 4, 4, 2, 2, 1, 1, 1]
    assert [name for *_, name in found["streets"]] == ["LineString", "MultiLineString"]
    areas = [name for *_, name in found["labels"]]
    assert areas == ["Polygon", "MultiPolygon", "MultiPoint", "Point"]
    assert "secret" not in html
    assert "nowhere" not in html


def test_names_are_short_lines_of_text(city, tmp_path):
    """The English name comes first; letters that do not print are gone, long names are cut."""
    stated = [
        {"name": "Surat", "name:en": "Surat city"},
        {"name": " two\nlines\u202e "},
        {"name": "a" * 99},
        {"name": 7},
        None,
    ]
    points = [(one, "Point", near([2 * k, k])) for k, one in enumerate(stated)]
    _, found = drawn(city, tmp_path, *points)
    assert [name for *_, name in found["labels"]] == ["Surat city", "two lines", "a" * 60]
    assert len(found["context"]) == 5


def test_streets_are_named_on_the_map_and_the_file_is_credited(city, tmp_path):
    """Names and the file's credit are escaped, in words of hexagons too."""
    ring_road = [[72.80, 21.16], [72.83, 21.17], [72.86, 21.18]]
    html, found = drawn(
        city, tmp_path,
        ({"name": "Surat"}, "Point", [72.82, 21.15]),
        ({"name": "Ring Road"}, "LineString", ring_road),
        ({"name": "<i>Lane"}, "LineString", [[72.83, 21.17], [72.84, 21.19]]),
        attribution="\u00a9 <b>OpenStreetMap contributors",
    )  # fmt: skip
    assert [name for _, _, name in found["streets"]] == ["Ring Road", "<i>Lane"]
    assert all(text.endswith("of Surat") or text == "Surat" for text in found["words"])
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
        ({"type": "Feature", "properties": "x", "geometry": {}}, "is not GeoJSON"),
    ],
)
def test_bad_files_are_one_sentence(city, tmp_path, content, sentence):
    """What is not GeoJSON in degrees, or is empty, is refused in a sentence; nothing is written."""
    with pytest.raises(hv.InputError, match=sentence):
        city.write(tmp_path / "map", context=write(tmp_path, content))
    assert not (tmp_path / "map").exists()


def test_missing_files_folders_and_large_files_are_refused(city, tmp_path):
    """A file that is not there, is a folder, or above the limit, is refused."""
    for path in (tmp_path / "none.geojson", tmp_path):
        with pytest.raises(hv.InputError, match="must be a file"):
            city.write(tmp_path / "map", context=path)
    with (tmp_path / "large.geojson").open("wb") as file:
        file.truncate(20_000_001)
    with pytest.raises(hv.InputError, match="at most 20 MB"):
        city.write(tmp_path / "map", context=file.name)


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
def test_no_json_causes_another_error(wards, tmp_path_factory, value):
    """Whatever JSON comes, the page is written or it is refused by a sentence."""
    home = tmp_path_factory.mktemp("any")
    try:
        folder = wards.write(home / "map", context=write(home, value))
    except hv.InputError:
        return
    assert (folder / "report.html").exists()


# ---- Where a map is of, and when: the period and the publisher under the titles ----


@pytest.fixture(scope="module")
def two_hours(wards):
    """Return a function that gives the page of two cells with other facts."""

    def page(slots=("06:00", "07:00"), select="none", **facts):
        table = wards.table.slice(0, 2).append_column("slot", pa.array(slots))
        own = {"selection": {"select": select, "timezone": "Asia/Kolkata"}}
        return page_of(restated(wards, table, own), catalogue=hv.Catalogue(**facts))

    return page


DATES = "dates 2025-03-05 to 2025-03-05"


@pytest.mark.parametrize(
    ("facts", "words", "brief"),
    [
        (
            {"select": f"min_users 10; {DATES}", "temporal": ("2025-03-03", "2025-03-09")},
            "Records of Wednesday 5 March 2025 (Asia/Kolkata)",
            " · 5 March 2025",
        ),
        (
            {"slots": ("2024-12-31T23:00", "2025-01-02T00:00"), "select": DATES},
            "Records of Tuesday 31 December 2024 to Thursday 2 January 2025 (Asia/Kolkata)",
            " · 31 December 2024 to 2 January 2025",
        ),
        (
            {"temporal": ("2025-03-03", "2025-03-09")},
            "Records of Monday 3 March to Sunday 9 March 2025 (Asia/Kolkata)",
            " · 3 March to 9 March 2025",
        ),
        ({}, "The publisher declared no period of the records", ""),
    ],
)
def test_the_period_is_that_of_slots_dates_or_the_declaration(two_hours, facts, words, brief):
    """Calendar slots come first, then selected dates, then what the publisher declares."""
    html = two_hours(**facts)
    assert f'id="period">{words}</p>' in html
    assert f"<title>Average speed in km/h · Rivertown buses{brief}</title>" in html


def test_publisher_licence_and_contact_are_named_as_far_as_they_are_stated(two_hours):
    """Nothing is guessed, and nothing stated is left out."""
    stated = {"publisher": "City of Surat", "license": "CC-BY-4.0", "contact": "data@example.org"}
    line = "Published by City of Surat · Licence: CC-BY-4.0 · Contact: data@example.org"
    assert f'id="publisher">{line}</p>' in two_hours(**stated)
    assert 'id="publisher">Contact: data@example.org</p>' in two_hours(contact=stated["contact"])
    assert 'id="publisher"' not in two_hours()
