"""Facts that a folder tells data portals: known, or stated by its holder, and never private."""

import json
import re
from datetime import UTC, datetime

import h3
import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.publishing import folder
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.catalogue.release_description import find_coverage
from hexveil.publishing.verification import verify
from publishing.releases import release_of, seal, statements_of

HOLDER = hv.Catalogue(
    publisher="City of Surat", publisher_url="https://surat.example.org", license="CC-BY-4.0",
    contact="open@surat.example.org", landing_page="https://data.example.org/buses",
    keywords=("buses", "speed"), theme="TRAN", spatial="https://sws.geonames.org/1255364/",
    base_url="https://data.example.org/maps/map",
)  # fmt: skip


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Return a release of hexagons in calendar hours."""
    return release_of(tmp_path_factory.mktemp("facts") / "map", "means", mapped=True)


@pytest.fixture(scope="module")
def routes(tmp_path_factory):
    """Return a release of labels."""
    return release_of(tmp_path_factory.mktemp("facts") / "map", "means")


def documents(release, catalogue=None, names=("cells.csv", "cells.parquet", "cells.geojson")):
    """Return the descriptions of a release, as JSON, by file name."""
    manifest = statements_of(folder.with_statements(release.manifest, catalogue))
    contents = metadata_files.render_metadata(release.table, manifest, frozenset(names))
    return {name: json.loads(content) for name, content in contents.items()}


def test_every_description_states_the_promise(release):
    """Promise, epsilon and privacy unit are in each standard's file, and the licence if stated."""
    guarantee = release.manifest["guarantee"]
    made = documents(release, HOLDER)
    assert set(made) == set(metadata_files.NAMES)
    for name, content in made.items():
        text = json.dumps(content, ensure_ascii=False)
        assert guarantee["promise"] in text, name
        assert guarantee["epsilon_spent"] in text, name
        assert "https://spdx.org/licenses/CC-BY-4.0" in text, name


@pytest.mark.slow
def test_without_statements_nothing_is_claimed(release):
    """No publisher, licence, contact or address is made up; the facts of the cells are there."""
    made = documents(release)
    for words in ("ublisher", "icense", "contact", "keyword", "@base", "http://example"):
        for name, content in made.items():
            keys = json.dumps(content).replace(json.dumps(release.manifest["guarantee"]), "")
            assert words not in keys, (name, words)
    assert made["stac-item.json"]["bbox"] == list(
        find_coverage(release.table, statements_of(release)).box
    )


@pytest.mark.slow
def test_titles_head_every_description(release, tmp_path):
    """The holder's title is that of the manifest, the page and each standard; verify agrees."""
    made = release.write(tmp_path / "map", title="Speed at eight", subtitle="Surat, one week")
    found = {name: json.loads((made / name).read_text()) for name in metadata_files.NAMES}
    assert found["dcat.jsonld"]["dct:title"]["@value"] == "Speed at eight"
    assert found["schema-org.jsonld"]["name"] == found["datapackage.json"]["title"]
    assert found["stac-item.json"]["properties"]["title"] == "Speed at eight"
    assert found["datapackage.json"]["description"].startswith("Surat, one week. Average")
    assert (made / "README.txt").read_text().startswith("Speed at eight\n")
    page = (made / "report.html").read_text()
    described = re.search(r'<script type="application/ld\+json">(.*?)</script>', page)[1]
    assert json.loads(described) == found["schema-org.jsonld"]
    # Another title for portals alone stays possible.
    own = documents(hv.load(made), hv.Catalogue(title="Buses"))
    assert own["dcat.jsonld"]["dct:title"]["@value"] == "Buses"
    (made / "report.html").write_text(page.replace("Speed at eight", "Speed at nine"))
    seal(made)
    assert verify.find_problems(made) == (
        "report.html is not what manifest.json and cells.parquet say.",
    )


@pytest.mark.parametrize("title", ["two\nlines", "\x1b[31m", "a" * 301, 7])
def test_a_title_is_one_line_of_text(release, tmp_path, title):
    """Anything else is refused before a file is written."""
    with pytest.raises(hv.InputError, match="title must be text on one line"):
        release.write(tmp_path / "map", title=title)
    assert not list(tmp_path.iterdir())


def test_labels_have_neither_area_nor_item(routes):
    """Without places and times there is no STAC Item; stated days need a clock to be instants."""
    made = documents(routes)
    assert set(made) == set(metadata_files.ALWAYS)
    assert "dct:spatial" not in made["dcat.jsonld"]
    dated = hv.Catalogue(temporal=("2023-11-14", "2023-11-15"))
    node = documents(routes, dated)["dcat.jsonld"]["dct:temporal"]
    assert node["dcat:startDate"] == {"@type": "xsd:date", "@value": "2023-11-14"}
    zoned = {**statements_of(routes)["selection"], "timezone": "Asia/Kolkata"}
    manifest = statements_of(routes) | {"selection": zoned, "catalogue": dated.stated()}
    found = find_coverage(routes.table, manifest)
    assert found.start == datetime(2023, 11, 13, 18, 30, tzinfo=UTC)
    assert found.end == datetime(2023, 11, 15, 18, 30, tzinfo=UTC)


def test_selected_days_are_the_period(release):
    """Pooled slots have no instants: the selected local days give the period, the last included."""
    table = release.table.drop_columns(["starts_at_utc"])
    selection = {"select": "hours all; dates 2024-03-30 to 2024-03-31; box none; min_users 10"}
    grid = release.manifest["grid"] | {"timezone": "Europe/Warsaw"}
    found = find_coverage(table, {"selection": selection, "grid": grid})
    # The clock advances on the second day, which has 23 hours.
    assert (found.end - found.start).total_seconds() == 47 * 3600
    assert found.days == ("2024-03-30", "2024-03-31")


@pytest.mark.parametrize(
    ("lat", "lon", "crosses"), [(21.2, 72.8, False), (-16.8, 179.99, True), (-16.8, -179.99, True)]
)
def test_the_box_holds_every_corner(lat, lon, crosses):
    """The box is the smallest around all hexagons, also across the 180th meridian."""
    names = sorted(h3.grid_disk(h3.latlng_to_cell(lat, lon, 5), 2))
    manifest = {"selection": {}, "grid": {"timezone": None}}
    west, south, east, north = box = find_coverage(pa.table({"hexagon": names}), manifest).box
    assert (west > east) is crosses
    corners = np.array([corner for name in names for corner in h3.cell_to_boundary(name)])
    inside = (corners[:, 1] - west + 1e-6) % 360
    assert inside.max() == pytest.approx((east - west) % 360, abs=4e-6)
    assert (corners[:, 0].min(), corners[:, 0].max()) == pytest.approx((south, north), abs=1e-6)
    assert inside.max() < 5
    assert metadata_files.footprint(box)["type"] == ("MultiPolygon" if crosses else "Polygon")
    assert metadata_files.box_text(box).startswith("MULTIPOLYGON(((" if crosses else "POLYGON((")


def test_descriptions_do_not_depend_on_values(release):
    """Other noisy numbers in the table give the same bytes."""
    numbers = [name for name in release.table.column_names if name.startswith("mean_")]
    other = release.table
    for name in numbers:
        field = other.schema.field(name)
        if field.type == pa.float64():
            at = other.column_names.index(name)
            other = other.set_column(at, field, pa.array(np.arange(other.num_rows) * 1.5))
    names = frozenset({"cells.csv"})
    made = [
        metadata_files.render_metadata(table, statements_of(release), names)
        for table in (release.table, other)
    ]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"license": "CC BY 4.0"}, "license .* SPDX identifier"),
        ({"contact": "the office"}, "contact .* e-mail"),
        ({"landing_page": "data.example.org"}, "landing_page .* URL"),
        ({"theme": "BUSES"}, "theme .*TRAN"),
        ({"publisher": "two\nlines"}, "publisher .* one line"),
        ({"temporal": ("2024-02-01", "2024-01-01")}, "temporal .* first and the last day"),
        ({"temporal": 7}, "temporal"),
        ({"base_url": "ftp://x"}, "base_url .* URL"),
        ({"language": "English!"}, "language"),
        ({"publisher_url": "https://a.example"}, "publisher_url needs publisher"),
        ({"keywords": ("", "x")}, "keywords"),
    ],
)
def test_a_wrong_fact_is_refused_with_an_example(facts, words):
    """Each fact has a form; another is named, with what to write."""
    with pytest.raises(hv.InputError, match=words):
        hv.Catalogue(**facts)


@pytest.mark.slow
def test_the_folder_verifies_with_its_facts(release, tmp_path):
    """`verify` recomputes every description; a changed one is found even under a new receipt."""
    made = release.write(tmp_path / "map", catalogue=HOLDER)
    assert verify.find_problems(made) == ()
    assert json.loads((made / "manifest.json").read_text("utf-8"))["catalogue"] == HOLDER.stated()
    assert hv.load(made).manifest["catalogue"]["publisher"] == "City of Surat"
    for name in metadata_files.NAMES:
        good = (made / name).read_bytes()
        forged = good.replace(b"CC-BY-4.0", b"CC0-1.0")
        assert forged != good
        (made / name).write_bytes(forged)
        seal(made)
        assert verify.find_problems(made) == (
            f"{name} is not what manifest.json and cells.parquet say.",
        )
        (made / name).write_bytes(good)
    (made / "stac-item.json").unlink()
    seal(made)
    # The page has a link to each file.
    assert "stac-item.json is missing." in verify.find_problems(made)
