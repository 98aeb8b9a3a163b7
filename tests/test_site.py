"""The site: its generated pages, its nav, and what was built of it."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib

import pytest

import hexveil as hv
from examples import LONG
from source_trees import DOCS, ROOT

API = sorted((DOCS / "reference" / "api").glob("*.md"))
CONFIG = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
ROOTS = ("architecture", "contributing", "readme", "security")
ADDED = {f"project/{name}.md" for name in ROOTS} | {"reference/messages.md"}
"""Pages that the build adds."""
KINDS_OF_PAGES = (
    "index.html", "how-to/troubleshooting.html", "notebooks/publishing-buses.html",
    "reference/api/records.html", "understand/plan-class.html", "understand/limits.html",
)  # fmt: skip
"""Home with a page in it, headings of sentences, outputs, docstrings, formulas, figures."""


def places(nav):
    """Return the pages that a part of the nav names, in order."""
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [place for entry in entries for place in places(entry)]


def load(name):
    """Return a script of website/ as a module."""
    spec = importlib.util.spec_from_file_location(
        f"website_{name}", ROOT / "website" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def check():
    """Return the script that checks a built site."""
    return load("check")


@pytest.fixture(scope="module")
def site_tools():
    """Skip where what builds the site is not installed; fail where nothing may be skipped."""
    if importlib.util.find_spec("zensical") is None:
        reason = "what builds the site is not installed: make docs"
        (pytest.fail if os.environ.get("HEXVEIL_NO_SKIP") else pytest.skip)(reason)


@pytest.fixture(scope="module")
def pages(site_tools):
    """Return the script that gathers the pages of the site."""
    sys.path.insert(0, str(ROOT / "website"))
    yield load("pages")
    sys.path.remove(str(ROOT / "website"))


@pytest.fixture(scope="module")
def site(tmp_path_factory, site_tools):
    """Return the site as `make docs` built it, or built here with notebooks as they are stored."""
    if built := os.environ.get("HEXVEIL_SITE"):
        return (ROOT / built).resolve()
    folder = tmp_path_factory.mktemp("built") / "site"
    done = subprocess.run(
        [sys.executable, ROOT / "website" / "build.py", "--stored", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_generated_pages_are_what_the_code_gives():
    """The committed pages of command, run file and manifest are those of the code."""
    stale = sorted(load("generated").stale())
    assert stale == [], "python website/generated.py writes them anew"


MODULES = {
    "evaluation": hv.evaluation.__all__,
    "mechanisms": set(hv.mechanisms.__all__)
    - {"REGISTRY", "CellMechanism", "ThresholdMechanism", "parse"},
}
"""Modules among the public names, and their names that pages describe; formulas stand apart."""
NAMES = [
    *(set(hv.__all__) - {"__version__", "theory", *MODULES}),
    *(f"{module}.{name}" for module, names in MODULES.items() for name in names),
]


def test_every_public_name_is_described_once():
    """Each public name has its full description on one page, and no page describes another."""
    found = [
        name
        for page in API
        for name in re.findall(r"^::: hexveil\.(.+)$", page.read_text(), flags=re.MULTILINE)
    ]
    formulas = [f"theory.{name}" for name in hv.theory.__all__]
    assert sorted(found) == sorted([*NAMES, *formulas])


def test_every_part_of_the_manifest_has_a_meaning():
    """No row of the schema's page leaves its meaning out."""
    page = (DOCS / "reference" / "manifest.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)`(?: \?)? \| (.*) \|$", page, flags=re.MULTILINE)
    assert len(rows) > 80
    assert [path for path, meaning in rows if not meaning.strip()] == []


def test_nav_has_every_page_once():
    """Every page under docs is in the nav, once, and the nav names no other."""
    files = [file for kind in ("md", "ipynb") for file in DOCS.rglob(f"*.{kind}")]
    written = {str(file.relative_to(DOCS).with_suffix(".md")) for file in files}
    assert sorted(places(CONFIG["nav"])) == sorted(written | ADDED)


def page(folder, name, text):
    """Write a page of a made-up site."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('<a href="gone.html">', "gone.html leads nowhere"),
        ('<a href="#gone">', "#gone leads nowhere"),
        ('<a href="../index.html">', "../index.html leads nowhere"),
        ('<img src="gone.png">', "gone.png leads nowhere"),
        ('<script src="https://cdn.example/x.js">', "loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "loads //cdn.example/x.css"),
        ("<style>@import 'https://cdn.example/x.css';</style>", "loads https://cdn.example/x.css"),
        ('<p style="background: url(http://x.org/p.png)">', "loads http://x.org/p.png"),
        ("<p>a loss of $k\\varepsilon$", "$k\\varepsilon$ is not typeset"),
        ("<code>$x$</code><p>a share \\(p\\)", "\\( is not typeset"),
        ("<math><mi>\\foo</mi></math>", "\\foo is not typeset"),
    ],
)
def test_a_fault_is_found(check, tmp_path, text, fault):
    """A link that leads nowhere, or something from another host, is named with its page."""
    page(tmp_path, "index.html", text)
    assert f"index.html: {fault}" in check.faults(tmp_path)


def test_the_built_site_is_sound(check, site):
    """Every link of the built site leads somewhere, and no page loads from another host."""
    assert check.faults(site) == []


def test_every_public_name_is_shown(site):
    """Each public name has an anchor and its first sentence on a built page."""
    shown = "".join(file.read_text() for file in (site / "reference" / "api").glob("*.html"))
    for name in NAMES:
        assert len(re.findall(rf'<h2 id="{re.escape("hexveil." + name)}"', shown)) == 1, name
    for name in hv.theory.__all__:
        assert re.search(rf'<h3 id="hexveil\.theory\.{name}"', shown), name


def test_the_search_has_every_message(site):
    """A message of Troubleshooting has its own title in the index, every other its module's."""
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]
    page = (DOCS / "how-to" / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^### (.*)$", page, flags=re.MULTILINE)
    found = {
        one["title"] for one in index if one["location"].startswith("how-to/troubleshooting.html#")
    }
    assert len(messages) > 30
    assert set(messages) <= found
    every = {one["title"]: one["text"] for one in index if "reference/messages" in one["location"]}
    assert "box must be four numbers, west, south, east, north" in every["records/select.py"]
    assert "a file was changed, added or removed" in every["publishing/signing.py"]
    assert [one for one in index if one["location"].startswith("source/")] == []


def test_a_browser_asks_no_other_host(site, browser):
    """Opened as files, pages ask for nothing from elsewhere, and the search finds a message."""
    asked, failed = [], []
    with browser.new_context(viewport={"width": 390, "height": 800}) as context:
        view = context.new_page()
        view.on("request", lambda request: asked.append(request.url))
        view.on("pageerror", lambda error: failed.append(str(error)))
        for name in ("reference/api/records.html", "understand/map-of-theory.html", "index.html"):
            view.goto((site / name).as_uri())
            assert view.evaluate("document.documentElement.scrollWidth") <= 390
        view.locator(".md-header__button[for=__search]").click()
        view.get_by_role("combobox", name="Search").fill("ids have a single record")
        first = view.get_by_role("option").first
        first.wait_for(timeout=30_000)
        assert "how-to/troubleshooting.html" in first.get_attribute("href")
        view.keyboard.press("Escape")
        view.get_by_role("combobox", name="Search").wait_for(state="hidden")
    assert failed == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "width", "first"),
    # Colours depend on the mode and layout on the width: pages take turns with each.
    [("light", 390, 0), ("dark", 1280, 1), *[("light", 1280, 1), ("dark", 390, 0)] * LONG],
)
def test_every_reader_can_use_a_page(site, browser, scheme, width, first):
    """Axe finds no fault in a page of each kind, in both modes, on a phone and on a desk."""
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415  only with the site's tools

    found = []
    size = {"width": width, "height": 900}
    with browser.new_context(viewport=size, color_scheme=scheme) as context:
        view = context.new_page()
        for name in KINDS_OF_PAGES if LONG else KINDS_OF_PAGES[first::2]:
            view.goto((site / name).as_uri())
            # Without the page within a page, which tests/report looks at.
            view.evaluate("document.querySelectorAll('iframe').forEach(frame => frame.remove())")
            faults = Axe().run(view).response["violations"]
            found += [(name, one["id"], node["html"]) for one in faults for node in one["nodes"]]
    assert found == []
