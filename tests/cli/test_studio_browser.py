"""`hexveil studio` in a browser, from the file to the map, on a desk and on a phone."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axe_playwright_python.sync_playwright import Axe

import hexveil as hv
from cli.serving import serving

pytestmark = pytest.mark.browser
HOSTILE = '<img src=x onerror="document.title=1">'


@pytest.fixture
def server(fleet, monkeypatch, capfd):
    """Serve the folder of a fleet, and a file with hostile names."""
    pq.write_table(pa.table({HOSTILE: ["a"], "speed": [1.0]}), fleet / "odd <b>.parquet")
    with serving(fleet, monkeypatch, capfd) as served:
        yield served


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["desk", "phone"])
def page(browser, server, request):
    """Open the studio; nothing is complained about, and nothing asked for elsewhere."""
    width, scheme = request.param
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, locale="en-GB"
    )
    context.set_default_timeout(120_000)
    complaints, asked = [], []

    def watch(opened):
        opened.on("console", lambda m: complaints.append(m.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.on("request", lambda sent: asked.append(sent.url))

    context.on("page", watch)
    opened = context.new_page()
    opened.goto(server)
    yield opened
    context.close()
    assert complaints == []
    assert {url for url in asked if not url.startswith((server, "data:"))} == set()


def arrive(page, step):
    """Wait for a step; its page is as wide as the window, and axe finds nothing in it."""
    page.wait_for_url(f"**/{step}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    found = Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"][:90] for node in one["nodes"]]) for one in found] == []


def test_from_the_file_to_the_map(page, fleet):
    """Choose, answer, see maps, confirm once: then the page opens, and the folder is valid."""
    arrive(page, "file")
    page.get_by_label("odd <b>.parquet").check()
    page.get_by_label("Yes, such as buses").check()
    page.get_by_role("button").click()
    arrive(page, "questions")
    assert page.get_by_role("cell", name=HOSTILE).count() == 1
    assert page.title() == "Questions · hexveil studio"
    other = page.context.new_page()
    other.goto(page.url.rpartition("/")[0].rpartition("/")[0] + "/")
    other.get_by_label("buses.parquet").check()
    other.get_by_label("Yes, such as buses").check()
    other.get_by_role("button").click()
    arrive(other, "questions")
    other.get_by_label("Largest", exact=True).fill("65")
    other.get_by_label("Time zone of the map").fill("Asia/Kolkata")
    cost = other.get_by_label("Privacy cost epsilon")
    cost.focus()
    other.keyboard.press("ArrowRight")
    assert "a factor of at most 3.01" in other.locator("output").first.inner_text()
    other.keyboard.press("ArrowLeft")
    other.get_by_role("button", name="Show maps").click()
    arrive(other, "maps")
    assert other.locator("svg.hexagons path").count() > 3
    assert other.locator("svg.hexagons title").first.text_content().startswith("± ")
    other.get_by_role("button").click()
    arrive(other, "confirm")
    assert not (fleet / "ledger.sqlite").exists()
    other.get_by_role("checkbox").check()
    other.get_by_role("button", name="Release").dblclick()
    arrive(other, "done")
    assert hv.Ledger(fleet / "ledger.sqlite", dataset="buses").spend().window == 1
    assert hv.verify(fleet / "buses-map")["dataset"]["name"] == "buses"
    assert other.get_by_text("hexveil publish buses.toml").first.is_visible()
    # The first window has its own file still. It closes before the page of the release is opened:
    # windows of one site share a renderer, which has crashed over both.
    page.reload()
    assert page.get_by_role("cell", name=HOSTILE).count() == 1
    page.close()
    with other.expect_popup() as opened:
        other.get_by_role("link", name="Open the page").click()
    opened.value.wait_for_selector("body[data-ready=true]")
    assert "Average speed" in opened.value.locator("h1").inner_text()
