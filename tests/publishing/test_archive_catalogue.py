"""The static catalogue of an archive: computed from its releases, repaired by writing it again."""

import html.parser
import json
import shutil
from pathlib import Path

import pyarrow.fs
import pytest

import hexveil as hv
from hexveil.base import atomic_files
from hexveil.publishing.archive.archive import Archive, open_archive
from hexveil.publishing.archive.archive_listing import (
    CurrentRelease,
    base_url,
    listed_days,
)
from hexveil.publishing.verification.archive_checks import check_archive, is_archive
from publishing.releases import release_of, seal

DAYS = ("2024-01-30", "2024-01-31", "2024-02-01")
BASE = "https://data.example.org/maps/"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return a release, and its folder as each day's copy begins."""
    place = tmp_path_factory.mktemp("catalogue")
    release = release_of(place / "map", "means", mapped=True)
    facts = hv.Catalogue(publisher="City <of> Surat", license="CC-BY-4.0", keywords=("buses",))
    return release, release.write(place / "map", catalogue=facts)


def request_of(folder):
    """Return the request of a folder."""
    return json.loads((folder / "receipt.json").read_text())["request"]


def archive_of(root, stored, days=DAYS, files=None):
    """Return an archive with a release on each day, and no catalogue yet."""
    _, folder = stored
    place = open_archive(str(root), "buses")
    if files is not None:
        place = Archive(files, "buses", "store://")
    for day in days:
        pointer = CurrentRelease.of_day(day, request_of(folder))
        place.write_release(pointer, lambda target: shutil.copytree(folder, target))
        place.set_current(pointer)
    return place


def content(path):
    """Return the JSON of a file."""
    return json.loads(path.read_text("utf-8"))


def listed(root):
    """Return the days that both parts of a data set's catalogue list."""
    links = content(root / "buses" / "collection.json")["links"]
    datasets = content(root / "buses" / "dcat.jsonld")["dcat:dataset"]
    return (
        [link["href"].split("/")[1] for link in links if link["rel"] == "item"],
        [node["@context"]["@base"][:10] for node in datasets if "dcat:inSeries" in node],
    )


class _Links(html.parser.HTMLParser):
    """The addresses that a page leads to, and its elements."""

    def __init__(self):
        super().__init__()
        self.addresses, self.tags = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("href", "src")]


def links_of(page):
    """Return the addresses in a page, and the names of its elements."""
    parser = _Links()
    parser.feed(page.read_text("utf-8"))
    return parser.addresses, parser.tags


def test_every_release_is_listed(tmp_path, stored):
    """Collection and DCAT catalogue list each day once, and every link leads to a file."""
    place = archive_of(tmp_path, stored)
    assert place.update_catalogue() == len(DAYS)
    assert listed(tmp_path) == ([*DAYS], [*DAYS])
    collection = content(tmp_path / "buses" / "collection.json")
    (child,) = [x for x in content(tmp_path / "catalog.json")["links"] if x["rel"] == "child"]
    assert (tmp_path / child["href"]).samefile(tmp_path / "buses" / "collection.json")
    for link in collection["links"]:
        assert "://" in link["href"] or (tmp_path / "buses" / link["href"]).is_file(), link
    item = content(tmp_path / "buses" / place.current(DAYS[0]).path / "stac-item.json")
    assert collection["extent"]["temporal"]["interval"] == [
        [item["properties"]["start_datetime"], item["properties"]["end_datetime"]]
    ]
    assert collection["extent"]["spatial"]["bbox"] == [item["bbox"]]
    assert collection["providers"] == [{"name": "City <of> Surat"}]


@pytest.mark.parametrize("name", ["index.html", "buses/index.html"])
def test_pages_lead_to_files_and_have_the_search_alone_as_a_script(tmp_path, stored, name):
    """Every link and the newest map are files beside the page; nothing else is loaded or run."""
    archive_of(tmp_path, stored).update_catalogue()
    page = tmp_path / name
    addresses, tags = links_of(page)
    assert (tags.count("script"), tags.count("iframe")) == (1, int("/" in name))
    assert not {"img", "form", "object"} & set(tags)
    for address in addresses:
        assert "://" in address or address == "data:," or (page.parent / address).is_file()


def test_the_calendar_names_months_and_days(tmp_path, stored):
    """Two months, newest first, with a link on each day of a release and on no other."""
    archive_of(tmp_path, stored).update_catalogue()
    text = (tmp_path / "buses" / "index.html").read_text("utf-8")
    assert text.index("<caption>February 2024") < text.index("<caption>January 2024")
    assert text.count('aria-label="31 January 2024"') == 1
    assert text.count("<caption>") == 2
    assert 'class="none">29</td>' in text
    assert "City &lt;of&gt; Surat" in text
    assert "<of>" not in text


@pytest.mark.browser
def test_days_are_found_by_words_and_the_newest_map_is_shown(tmp_path, stored, browser):
    """The search keeps the rows with every word; the frame has the map, without its header."""
    archive_of(tmp_path, stored).update_catalogue()
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((tmp_path / "buses" / "index.html").as_uri())
    page.locator("#find").fill("january wednesday")
    rows = page.locator(".list tbody tr:visible")
    assert [text.split("\t")[0] for text in rows.all_inner_texts()] == ["Wednesday 31 January 2024"]
    assert page.locator("#found").inner_text() == "1 found"
    page.locator("iframe").scroll_into_view_if_needed()
    assert page.frame_locator("iframe").locator("#map canvas").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


@pytest.mark.slow
def test_a_removed_release_leaves_the_catalogue(tmp_path, stored):
    """Nothing lists it, nor an Item beside it, and `verify` is content again."""
    place = archive_of(tmp_path, stored)
    place.update_catalogue()
    # As earlier versions wrote it.
    (tmp_path / "buses" / DAYS[1] / "item.json").write_text('{"hexveil:request": ""}')
    pointer = place.current(DAYS[1])
    shutil.rmtree(tmp_path / "buses" / pointer.path)
    problems = check_archive(tmp_path).problems
    assert f"buses/{DAYS[1]}: its latest.json names no complete release of that day." in problems
    assert any(problem.startswith("buses/collection.json is not") for problem in problems)
    assert place.update_catalogue() == 2
    assert listed(tmp_path) == ([DAYS[0], DAYS[2]],) * 2
    assert not (tmp_path / "buses" / DAYS[1] / "item.json").exists()
    shutil.rmtree(tmp_path / "buses" / DAYS[1])
    assert check_archive(tmp_path) == check_archive(tmp_path / "buses")
    assert check_archive(tmp_path).problems == ()


def test_without_any_release_there_is_no_catalogue(tmp_path, stored):
    """The files of a data set whose releases are gone go too."""
    place = archive_of(tmp_path, stored, DAYS[:1])
    place.update_catalogue()
    shutil.rmtree(tmp_path / "buses" / DAYS[0])
    assert place.update_catalogue() == 0
    assert sorted(path.name for path in (tmp_path / "buses").iterdir()) == ["latest.json"]
    assert open_archive(str(tmp_path / "none"), "buses").update_catalogue() == 0


@pytest.mark.parametrize("n_written", [0, 1, 2])
def test_a_stop_at_any_file_is_repaired(tmp_path, stored, monkeypatch, n_written):
    """Wherever the writing of a day stops, what is listed is there, and the next run ends it."""
    place = archive_of(tmp_path, stored, DAYS[:2])
    place.update_catalogue()
    archive_of(tmp_path, stored, DAYS[2:])
    real, written = atomic_files.write, []

    def stops(path, data):
        if len(written) == n_written:
            raise KeyboardInterrupt
        written.append(path)
        return real(path, data)

    with monkeypatch.context() as broken:
        broken.setattr(atomic_files, "write", stops)
        with pytest.raises(KeyboardInterrupt):
            place.update_catalogue()
    assert all(
        (tmp_path / "buses" / place.current(day).path).exists() for day in listed(tmp_path)[0]
    )
    assert place.update_catalogue() == len(DAYS)
    assert listed(tmp_path) == ([*DAYS], [*DAYS])


def test_an_object_store_has_the_same_catalogue(tmp_path, stored):
    """Where nothing can be renamed the files are the same, byte for byte."""
    store = pyarrow.fs.SubTreeFileSystem(str(tmp_path / "store"), pyarrow.fs.LocalFileSystem())
    (tmp_path / "store").mkdir()
    for place in (
        archive_of(tmp_path / "disk", stored),
        archive_of(tmp_path / "store", stored, files=store),
    ):
        assert place.update_catalogue() == len(DAYS)
    catalogue = [
        {path.relative_to(place): path.read_bytes() for path in place.rglob("*") if path.is_file()}
        for place in (tmp_path / "disk", tmp_path / "store")
    ]
    assert catalogue[0] == catalogue[1]


def test_the_holders_own_pages_stay(tmp_path, stored):
    """A page that is not of this catalogue is not replaced, and `verify` does not mind it."""
    place = archive_of(tmp_path, stored, DAYS[:1])
    (tmp_path / "index.html").write_text("<h1>Our own page</h1>")
    place.update_catalogue()
    assert (tmp_path / "index.html").read_text() == "<h1>Our own page</h1>"
    assert check_archive(tmp_path).problems == ()


def test_changed_descriptions_are_not_listed(tmp_path, stored):
    """A description that is not the one in the receipt is not passed on to portals."""
    place = archive_of(tmp_path, stored, DAYS[:2])
    folder = tmp_path / "buses" / place.current(DAYS[0]).path
    item = content(folder / "stac-item.json") | {"id": "other"}
    (folder / "stac-item.json").write_text(json.dumps(item))
    assert place.update_catalogue() == 1
    assert listed(tmp_path)[0] == [DAYS[1]]


@pytest.mark.parametrize(
    "change",
    [
        {"path": "../../elsewhere"},
        {"path": f"{DAYS[1]}/{'0' * 16}"},
        {"day": DAYS[1]},
        {"request": "0" * 64},
    ],
)
def test_a_pointer_cannot_lead_elsewhere(tmp_path, stored, change):
    """A pointer that names another day, path or request lists nothing."""
    place = archive_of(tmp_path, stored, DAYS[:1])
    file = tmp_path / "buses" / DAYS[0] / "latest.json"
    file.write_text(json.dumps(content(file) | change))
    assert listed_days(place) == []


@pytest.mark.slow
def test_verify_finds_forged_releases_and_lists(tmp_path, stored):
    """Each current release is checked as a folder of its own; key by key the lists, too."""
    place = archive_of(tmp_path, stored, DAYS[:2])
    place.update_catalogue()
    assert is_archive(tmp_path)
    assert is_archive(tmp_path / "buses")
    assert check_archive(tmp_path).releases == 2
    folder = tmp_path / "buses" / place.current(DAYS[0]).path
    assert not is_archive(folder)
    (folder / "README.txt").write_text("No noise was added.")
    seal(folder)
    assert check_archive(tmp_path / "buses").problems == (
        f"{DAYS[0]}/{folder.name}: README.txt is not what manifest.json and cells.parquet say.",
    )
    (tmp_path / "catalog.json").write_text('{"id": "hexveil"}')
    assert "catalog.json is not what the releases say" in check_archive(tmp_path).problems[0]
    # Descriptions of another shape under a new receipt are a problem, and no error.
    other = {"properties": {"hexveil:request": request_of(folder)}, "assets": 7}
    (folder / "stac-item.json").write_text(json.dumps(other))
    seal(folder)
    assert "collection.json cannot be compared." in check_archive(tmp_path / "buses").problems


def test_addresses_of_the_archive_follow_from_its_releases(tmp_path, stored):
    """Where releases state their addresses, the lists have addresses of their own."""
    release, _ = stored
    request = release.manifest["request"]
    pointer = CurrentRelease.of_day(DAYS[0], request)
    facts = hv.Catalogue(base_url=BASE).below(f"buses/{pointer.path}")
    place = open_archive(str(tmp_path), "buses")
    place.write_release(pointer, lambda target: release.write(target, catalogue=facts))
    place.set_current(pointer)
    place.update_catalogue()
    (day,) = listed_days(place)
    assert base_url(day, "buses") == BASE
    assert base_url(day, "trams") is None
    assert content(tmp_path / "buses" / "dcat.jsonld")["@context"]["@base"] == f"{BASE}buses/"
    assert Path(tmp_path, "buses", pointer.path, "dcat.jsonld").is_file()
