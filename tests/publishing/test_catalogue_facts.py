"""Facts that a folder tells data portals: known, or stated by its holder, and never private."""

import json
import re
from dataclasses import replace
from datetime import datetime

import h3
import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from publishing.releases import problems_of, release_of, restated, seal, statements_of
from publishing.setting import SLOT, dataset_of, released

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


ALWAYS = ("dcat.jsonld", "schema-org.jsonld", "datapackage.json")
NAMES = (*ALWAYS, "stac-item.json")


def documents(release, folder, catalogue=None):
    """Return the descriptions in a new folder of a release, as JSON, by file name."""
    made = release.write(folder, catalogue=catalogue)
    return {name: json.loads((made / name).read_text()) for name in NAMES if (made / name).exists()}


def period_of(item):
    """Return the first instant of a STAC Item, and the one after the last."""
    ends = (item["properties"][f"{end}_datetime"] for end in ("start", "end"))
    return [datetime.fromisoformat(end) for end in ends]


def test_every_description_states_the_promise(release, tmp_path):
    """Promise, epsilon and privacy unit are in each standard's file, and the licence if stated."""
    guarantee = release.manifest["guarantee"]
    made = documents(release, tmp_path / "map", HOLDER)
    assert set(made) == set(NAMES)
    for name, content in made.items():
        text = json.dumps(content, ensure_ascii=False)
        assert guarantee["promise"] in text, name
        assert guarantee["epsilon_spent"] in text, name
        assert "https://spdx.org/licenses/CC-BY-4.0" in text, name


@pytest.mark.slow
def test_without_statements_nothing_is_claimed(release, tmp_path):
    """No publisher, licence, contact or address is made up; the facts of the cells are there."""
    made = documents(release, tmp_path / "map")
    for words in ("ublisher", "icense", "contact", "keyword", "@base", "http://example"):
        for name, content in made.items():
            keys = json.dumps(content).replace(json.dumps(release.manifest["guarantee"]), "")
            assert words not in keys, (name, words)
    west, south, east, north = made["stac-item.json"]["bbox"]
    assert west < min(release["lon"]) < max(release["lon"]) < east
    assert south < min(release["lat"]) < max(release["lat"]) < north


@pytest.mark.slow
def test_titles_head_every_description(release, tmp_path):
    """The holder's title is that of the manifest, the page and each standard; verify agrees."""
    made = release.write(tmp_path / "map", title="Speed at eight", subtitle="Surat, one week")
    found = {name: json.loads((made / name).read_text()) for name in NAMES}
    assert found["dcat.jsonld"]["dct:title"]["@value"] == "Speed at eight"
    assert found["schema-org.jsonld"]["name"] == found["datapackage.json"]["title"]
    assert found["stac-item.json"]["properties"]["title"] == "Speed at eight"
    assert found["datapackage.json"]["description"].startswith("Surat, one week. Average")
    assert (made / "README.txt").read_text().startswith("Speed at eight\n")
    page = (made / "report.html").read_text()
    described = re.search(r'<script type="application/ld\+json">(.*?)</script>', page)[1]
    assert json.loads(described) == found["schema-org.jsonld"]
    # Another title for portals alone stays possible.
    own = documents(hv.load(made), tmp_path / "own", hv.Catalogue(title="Buses"))
    assert own["dcat.jsonld"]["dct:title"]["@value"] == "Buses"
    (made / "report.html").write_text(page.replace("Speed at eight", "Speed at nine"))
    seal(made)
    assert problems_of(made) == ("report.html is not what manifest.json and cells.parquet say.",)


@pytest.mark.parametrize("title", ["two\nlines", "\x1b[31m", "a" * 301, 7])
def test_a_title_is_one_line_of_text(release, tmp_path, title):
    """Anything else is refused before a file is written."""
    with pytest.raises(hv.InputError, match="title must be text on one line"):
        release.write(tmp_path / "map", title=title)
    assert not list(tmp_path.iterdir())


def test_labels_have_neither_area_nor_item(routes, tmp_path):
    """Without places and times there is no STAC Item; stated days need a clock to be instants."""
    made = documents(routes, tmp_path / "plain")
    assert set(made) == set(ALWAYS)
    assert "dct:spatial" not in made["dcat.jsonld"]
    dated = hv.Catalogue(temporal=("2023-11-14", "2023-11-15"))
    node = documents(routes, tmp_path / "dated", dated)["dcat.jsonld"]["dct:temporal"]
    assert node["dcat:startDate"] == {"@type": "xsd:date", "@value": "2023-11-14"}
    zoned = {**statements_of(routes)["selection"], "timezone": "Asia/Kolkata"}
    made = documents(restated(routes, selection=zoned), tmp_path / "zoned", dated)
    node = made["dcat.jsonld"]["dct:temporal"]
    assert node["dcat:startDate"]["@value"].startswith("2023-11-13T18:30:00")
    assert node["dcat:endDate"]["@value"].startswith("2023-11-15T18:30:00")


def test_selected_days_are_the_period(tmp_path):
    """Pooled slots have no instants: the selected local days give the period, the last included."""
    release = release_of(tmp_path / "made", "means", mapped=True)
    table = release.table.drop_columns(["starts_at_utc"])
    selection = {"select": "hours all; dates 2024-03-30 to 2024-03-31; box none; min_users 10"}
    grid = release.manifest["grid"] | {"timezone": "Europe/Warsaw", "slot": "pooled"}
    pooled = restated(replace(release, table=table), selection=selection, grid=grid)
    start, end = period_of(documents(pooled, tmp_path / "map")["stac-item.json"])
    # The clock advances on the second day, which has 23 hours.
    assert (end - start).total_seconds() == 47 * 3600


@pytest.mark.parametrize(
    ("lat", "lon", "crosses"), [(21.2, 72.8, False), (-16.8, 179.99, True), (-16.8, -179.99, True)]
)
def test_the_box_holds_every_corner(lat, lon, crosses, tmp_path):
    """The box is the smallest around all hexagons, also across the 180th meridian."""
    names = sorted(h3.grid_disk(h3.latlng_to_cell(lat, lon, 5), 2))
    cells = hv.Cells(5, "1h", "UTC"), {"hexagon": names, "slot": [SLOT] * len(names)}
    dataset = dataset_of(np.ones((3, len(names)), dtype=int), cells=cells)
    made = documents(released(dataset), tmp_path / "map")
    west, south, east, north = made["stac-item.json"]["bbox"]
    assert (west > east) is crosses
    corners = np.array([corner for name in names for corner in h3.cell_to_boundary(name)])
    inside = (corners[:, 1] - west + 1e-6) % 360
    assert inside.max() == pytest.approx((east - west) % 360, abs=4e-6)
    assert (corners[:, 0].min(), corners[:, 0].max()) == pytest.approx((south, north), abs=1e-6)
    assert inside.max() < 5
    kind = "MultiPolygon" if crosses else "Polygon"
    assert made["stac-item.json"]["geometry"]["type"] == kind
    (text,) = re.findall(r"[A-Z]+\(\(", json.dumps(made["dcat.jsonld"]))
    assert text.startswith(kind.upper())


def test_descriptions_do_not_depend_on_values(release, tmp_path):
    """Other noisy numbers in the table give the same bytes."""
    numbers = [name for name in release.table.column_names if name.startswith("mean_")]
    other = release.table
    for name in numbers:
        field = other.schema.field(name)
        if field.type == pa.float64():
            at = other.column_names.index(name)
            other = other.set_column(at, field, pa.array(np.arange(other.num_rows) * 1.5))
    folders = release.write(tmp_path / "one"), replace(release, table=other).write(tmp_path / "two")
    for name in NAMES:
        one, two = ((folder / name).read_bytes() for folder in folders)
        assert one == two


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
    assert problems_of(made) == ()
    assert json.loads((made / "manifest.json").read_text("utf-8"))["catalogue"] == HOLDER.stated()
    assert hv.load(made).manifest["catalogue"]["publisher"] == "City of Surat"
    for name in NAMES:
        good = (made / name).read_bytes()
        forged = good.replace(b"CC-BY-4.0", b"CC0-1.0")
        assert forged != good
        (made / name).write_bytes(forged)
        seal(made)
        assert problems_of(made) == (f"{name} is not what manifest.json and cells.parquet say.",)
        (made / name).write_bytes(good)
    (made / "stac-item.json").unlink()
    seal(made)
    # The page has a link to each file.
    assert "stac-item.json is missing." in problems_of(made)
