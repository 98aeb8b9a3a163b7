"""The page as text: what it holds, what it escapes, what it never holds."""

import base64
import hashlib
import json
import re

import pytest

import hexveil as hv
from report.pages import data_of, page_of, restated, with_column


@pytest.fixture(scope="module")
def page(city, context) -> str:
    return page_of(city, context=context)


def without_scripts(html: str) -> str:
    return re.sub(r"<script\b.*?</script>", "", html, flags=re.DOTALL)


def test_nothing_is_fetched_from_elsewhere(page):
    """No element names an outside address, and the page's own policy forbids requests."""
    html = without_scripts(page)
    assert re.findall(r'(?:src|href|action)="(?!#|data:|[\w.-]+")[^"]*"', html) == []
    assert not re.search(r"<script[^>]+src=", page)
    assert "@import" not in html
    assert not re.search(r"url\(\s*['\"]?(?!data:)", html)
    assert "default-src 'none'" in html


@pytest.mark.parametrize("kind", ["city", "wards"])
def test_only_the_scripts_and_the_style_of_the_page_are_allowed(request, kind):
    """The policy holds the hash of each script and style, nothing unsafe, and no attribute."""
    html = page_of(request.getfixturevalue(kind))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1]
    rules = {name: allowed for name, *allowed in map(str.split, policy.split("; "))}
    assert "unsafe" not in policy

    def hashed(tag):
        texts = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digests = (hashlib.sha256(text.encode()).digest() for text in texts)
        return [f"'sha256-{base64.b64encode(one).decode()}'" for one in digests]

    assert rules["script-src"] == hashed("script")
    assert rules["style-src"] == hashed("style")
    assert len(rules["script-src"]) == (3 if kind == "city" else 2)
    assert not re.search(r"<[^>]+\s(?:style|on\w+)=", without_scripts(html))


def test_context_draws_lines_and_names(page, city):
    """Of the context's properties the page has the names alone; its lines are drawn."""
    assert "secret" not in page
    drawn = data_of(page)["map"]
    assert len(drawn["context"]) == 3
    assert [name for _, _, name in drawn["streets"]] == ["Long Street"]
    assert "Old Town" in [name for _, _, name in drawn["labels"]]
    assert len(drawn["rings"]) == len(set(city.table["hexagon"].to_pylist())) == 91


def test_released_numbers_are_on_the_page(page, city):
    """The page's columns are the table's, rounded to the digits shown, bounds outwards."""
    column = data_of(page)["columns"]
    raw = city.table["mean_raw"].to_pylist()
    assert all(abs(a - b) <= 0.0501 for a, b in zip(column["value"], raw, strict=True))
    for name, released, sign in (("bound", "mean_bound95", 1), ("low", "mean_low", -1)):
        pairs = zip(column[name], city.table[released].to_pylist(), strict=True)
        assert all(-1e-6 <= sign * (shown - exact) <= 0.1001 for shown, exact in pairs)
    assert column["users"] == city.table["users"].to_pylist()


def test_labels_that_try_to_be_html_are_text(wards):
    """Markup in labels, names and units is escaped wherever it appears."""
    evil = '"><script>alert(1)</script>'
    own = {"dataset": {"value": evil, "value_unit": evil}}
    html = page_of(restated(wards, own=own, dataset={"name": evil}))
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert html.count("</script>") == 4  # the data, the description, the page's own two
    assert data_of(html)["columns"]["label:ward"][0] == "<img src=x onerror=alert(1)>"


def test_no_text_can_end_a_script(wards):
    """Labels of any letters come back from the script element, which they cannot leave."""
    letters = [chr(code) for code in (*range(0x3000), 0xFEFF, 0xFFFE, 0xFFFF, 0x1F68C)]
    names = ["".join(letters[k :: wards.table.num_rows]) for k in range(wards.table.num_rows)]
    html = page_of(restated(wards, with_column(wards.table, "ward", names)))
    assert data_of(html)["columns"]["label:ward"] == names
    written = re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1]
    assert {*"<>&\u2028\u2029"}.isdisjoint(written)


def test_each_grade_has_a_legend_and_colours(city):
    """Legend, swatch, script and the map's palette know a cell that is cut off."""
    flags = ["cut off"] * 2 + city.table["mean_quality"].to_pylist()[2:]
    html = page_of(restated(city, with_column(city.table, "mean_quality", flags)))
    assert "<b>One end unknown</b> (2 of" in html
    assert "; of 2 numbers one end is unknown." in html
    assert ".steps.cut-off {" in html
    grades = json.loads(re.search(r"const flags = (\[.*?\]);", html)[1])
    assert [grades[k] for k in data_of(html)["columns"]["quality"]] == flags
    for mode in ("light", "dark"):
        assert set(data_of(html)["palette"][mode]) >= set(flags)


def test_bare_facts_are_enough(city):
    """A manifest whose optional facts are empty or absent still makes a page."""
    own = {"dataset": {"value_unit": "", "version": None}, "accuracy": []}
    html = page_of(restated(city, own=own, dataset={"name": ""}))
    assert "<h1>Average speed</h1>" in html
    assert "None" not in without_scripts(html)


def test_title_and_subtitle_are_the_publishers(city, page):
    """They head the page, escaped; without them it is headed by what is averaged."""
    html = page_of(city, title="A <b> & c", subtitle="<script>alert(1)</script>")
    assert "<title>A &lt;b&gt; &amp; c · 19 February 2024</title>" in html
    assert "<h1>A &lt;b&gt; &amp; c</h1>" in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;</p>" in html
    assert "<script>alert" not in html
    alone = page_of(city, title="Rivertown at eight")
    assert '<p class="subtitle">Average speed in km/h · Rivertown buses</p>' in alone
    assert 'class="subtitle"' not in page


def test_the_page_holds_its_description_for_search_engines(city, tmp_path):
    """It is JSON-LD that no text can leave, as in the file beside it; a comparison has none."""
    publisher = hv.Catalogue(publisher="</script><img src=x onerror=alert(1)>")
    folder = city.write(tmp_path / "map", catalogue=publisher)
    html = (folder / "report.html").read_text("utf-8")
    text = re.search(r'<script type="application/ld\+json">(.*?)</script>', html)[1]
    assert publisher.publisher in json.dumps(json.loads(text))
    described = [json.loads(file.read_text("utf-8")) for file in folder.glob("*.json*")]
    assert json.loads(text) in described
    assert "<img" not in html
    changes = hv.compare_releases(city, restated(city, request="1" * 64))
    assert "ld+json" not in page_of(changes)
