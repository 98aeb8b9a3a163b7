"""The static catalogue of an archive: computed from its releases, repaired by writing it again."""

import html.parser
import json
import shutil
from pathlib import Path

import pyarrow.fs
import pytest

from publishing import archives
from publishing.archives import DAYS, content, current, publish, relist
from publishing.releases import problems_of, seal, verdict_of

BASE = "https://data.example.org/maps/"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the run file of an archive with three days."""
    made = archives.site(tmp_path_factory.mktemp("site"))
    archives.published(made, *DAYS)
    return made


@pytest.fixture
def root(run, tmp_path):
    """Return a copy of the archive."""
    return shutil.copytree(run.parent / "maps", tmp_path / "maps")


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


def test_every_release_is_listed(root):
    """Collection and DCAT catalogue list each day once, and every link leads to a file."""
    assert listed(root) == ([*DAYS], [*DAYS])
    collection = content(root / "buses" / "collection.json")
    (child,) = [x for x in content(root / "catalog.json")["links"] if x["rel"] == "child"]
    assert (root / child["href"]).samefile(root / "buses" / "collection.json")
    for link in collection["links"]:
        assert "://" in link["href"] or (root / "buses" / link["href"]).is_file(), link
    item = content(current(root, DAYS[0]) / "stac-item.json")
    last = content(current(root, DAYS[-1]) / "stac-item.json")
    assert collection["extent"]["temporal"]["interval"] == [
        [item["properties"]["start_datetime"], last["properties"]["end_datetime"]]
    ]
    assert collection["extent"]["spatial"]["bbox"] == [item["bbox"]]
    assert collection["providers"] == [{"name": "City <of> Surat"}]


@pytest.mark.parametrize("name", ["index.html", "buses/index.html"])
def test_pages_lead_to_files_and_have_the_search_alone_as_a_script(root, name):
    """Every link and the newest map are files beside the page; nothing else is loaded or run."""
    page = root / name
    addresses, tags = links_of(page)
    assert (tags.count("script"), tags.count("iframe")) == (1, int("/" in name))
    assert not {"img", "form", "object"} & set(tags)
    for address in addresses:
        assert "://" in address or address == "data:," or (page.parent / address).is_file()


def test_the_calendar_names_months_and_days(root):
    """Two months, newest first, with a link on each day of a release and on no other."""
    text = (root / "buses" / "index.html").read_text("utf-8")
    assert text.index("<caption>February 2024") < text.index("<caption>January 2024")
    assert text.count('aria-label="31 January 2024"') == 1
    assert text.count("<caption>") == 2
    assert 'class="none">29</td>' in text
    assert "City &lt;of&gt; Surat" in text
    assert "<of>" not in text


@pytest.mark.browser
def test_days_are_found_by_words_and_the_newest_map_is_shown(root, browser):
    """The search keeps the rows with every word; the frame has the map, without its header."""
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((root / "buses" / "index.html").as_uri())
    page.locator("#find").fill("january wednesday")
    rows = page.locator(".list tbody tr:visible")
    assert [text.split("\t")[0] for text in rows.all_inner_texts()] == ["Wednesday 31 January 2024"]
    assert page.locator("#found").inner_text() == "1 found"
    page.locator("iframe").scroll_into_view_if_needed()
    assert page.frame_locator("iframe").locator("#map canvas").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


@pytest.mark.slow
def test_a_removed_release_leaves_the_catalogue(run, root):
    """Nothing lists it, nor an Item beside it, and `verify` is content again."""
    # As earlier versions wrote it.
    (root / "buses" / DAYS[1] / "item.json").write_text('{"hexveil:request": ""}')
    shutil.rmtree(current(root, DAYS[1]))
    problems = problems_of(root)
    assert f"buses/{DAYS[1]}: its latest.json names no complete release of that day." in problems
    assert any(problem.startswith("buses/collection.json is not") for problem in problems)
    relist(run, root)
    assert listed(root) == ([DAYS[0], DAYS[2]],) * 2
    assert not (root / "buses" / DAYS[1] / "item.json").exists()
    shutil.rmtree(root / "buses" / DAYS[1])
    assert verdict_of(root)["releases"] == verdict_of(root / "buses")["releases"] == 2
    assert problems_of(root) == problems_of(root / "buses") == ()


def test_without_any_release_there_is_no_catalogue(run, root, tmp_path):
    """The files of a data set whose releases are gone go too."""
    for day in DAYS:
        shutil.rmtree(root / "buses" / day)
    relist(run, root)
    assert {path.name for path in (root / "buses").iterdir()} <= {"latest.json", "ledger.json"}
    relist(run, tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
@pytest.mark.parametrize("n_written", [0, 1, 2])
def test_a_stop_at_any_file_is_repaired(run, root, monkeypatch, n_written):
    """Wherever the writing of a day stops, what is listed is there, and the next run ends it."""
    late = shutil.move(root / "buses" / DAYS[2], root.parent / "late")
    relist(run, root)
    shutil.move(late, root / "buses" / DAYS[2])
    written = []

    def stops(path, target, real=Path.rename):
        if len(written) == n_written:
            raise KeyboardInterrupt
        written.append(target)
        return real(path, target)

    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", stops)
        broken.setattr(Path, "replace", stops)
        with pytest.raises(KeyboardInterrupt):
            relist(run, root)
    assert len(written) == n_written
    assert all(current(root, day).exists() for day in listed(root)[0])
    relist(run, root)
    assert listed(root) == ([*DAYS], [*DAYS])


@pytest.mark.slow
def test_an_object_store_has_the_same_catalogue(run, root, tmp_path, monkeypatch):
    """Where nothing can be renamed the files are the same, byte for byte."""
    monkeypatch.setattr(pyarrow.fs, "FileSystem", archives.Stores)
    store = tmp_path / "store"
    for day in DAYS:
        assert publish(run, day, out=f"store://{store}").state == "published"
    one, other = (
        {path.relative_to(place): path.read_bytes() for path in place.rglob("*") if path.is_file()}
        for place in (root, store)
    )
    assert one == other


@pytest.mark.slow
def test_the_holders_own_pages_stay(run, root):
    """A page that is not of this catalogue is not replaced, and `verify` does not mind it."""
    (root / "index.html").write_text("<h1>Our own page</h1>")
    relist(run, root)
    assert (root / "index.html").read_text() == "<h1>Our own page</h1>"
    assert problems_of(root) == ()


def test_changed_descriptions_are_not_listed(run, root):
    """A description that is not the one in the receipt is not passed on to portals."""
    folder = current(root, DAYS[0])
    item = content(folder / "stac-item.json") | {"id": "other"}
    (folder / "stac-item.json").write_text(json.dumps(item))
    relist(run, root)
    assert listed(root) == ([*DAYS[1:]],) * 2


@pytest.mark.parametrize(
    "change",
    [
        {"path": "../../elsewhere"},
        {"path": f"{DAYS[1]}/{'0' * 16}"},
        {"day": DAYS[1]},
        {"request": "0" * 64},
    ],
)
def test_a_pointer_cannot_lead_elsewhere(run, root, change):
    """A pointer that names another day, path or request lists nothing."""
    file = root / "buses" / DAYS[0] / "latest.json"
    file.write_text(json.dumps(content(file) | change))
    relist(run, root)
    assert listed(root) == ([*DAYS[1:]],) * 2


@pytest.mark.slow
def test_verify_finds_forged_releases_and_lists(root):
    """Each current release is checked as a folder of its own; key by key the lists, too."""
    assert verdict_of(root)["releases"] == 3
    folder = current(root, DAYS[0])
    assert "releases" not in verdict_of(folder)
    assert verdict_of(folder.parent) == verdict_of(folder)
    (folder / "README.txt").write_text("No noise was added.")
    seal(folder)
    assert problems_of(root / "buses") == (
        f"{DAYS[0]}/{folder.name}: README.txt is not what manifest.json and cells.parquet say.",
    )
    (root / "catalog.json").write_text('{"id": "hexveil"}')
    assert "catalog.json is not what the releases say" in problems_of(root)[0]
    # Descriptions of another shape under a new receipt are a problem, and no error.
    request = content(folder / "receipt.json")["request"]
    other = {"properties": {"hexveil:request": request}, "assets": 7}
    (folder / "stac-item.json").write_text(json.dumps(other))
    seal(folder)
    assert "collection.json cannot be compared." in problems_of(root / "buses")


@pytest.mark.slow
def test_addresses_of_the_archive_follow_from_its_releases(tmp_path):
    """Where releases state their addresses, the lists have addresses of their own."""
    run = archives.site(tmp_path, holder={"base_url": BASE})
    folder = archives.published(run, DAYS[0])
    place = folder.parents[1]
    assert content(place / "dcat.jsonld")["@context"]["@base"] == f"{BASE}buses/"
    stated = content(folder / "dcat.jsonld")["@context"]["@base"]
    assert stated == f"{BASE}{folder.relative_to(place.parent).as_posix()}/"
