"""The page as text: what it holds, what it escapes, what it never holds."""

import base64
import hashlib
import json
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.report import render
from hexveil.report.figure_style import palette
from hexveil.report.payload import GRADES, QUALITIES, script_json
from hexveil.report.promise_wording import promise


@pytest.fixture(scope="module")
def page(city) -> str:
    return render(city.table, city.manifest, context=city.context)


def without_scripts(html: str) -> str:
    return re.sub(r"<script\b.*?</script>", "", html, flags=re.DOTALL)


def data_of(html: str) -> dict:
    """Return the data of a page, with the columns that its scripts begin with."""
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])
    data["columns"] |= data["value_columns"][0]["counts"] | data["choices"][0]["columns"]
    return data


def test_nothing_is_fetched_from_elsewhere(page):
    """No element names an outside address, and the page's own policy forbids requests."""
    html = without_scripts(page)
    assert re.findall(r'(?:src|href|action)="(?!#|data:)[^"]*"', html) == []
    assert not re.search(r"<script[^>]+src=", page)
    assert "@import" not in html
    assert not re.search(r"url\(\s*['\"]?(?!data:)", html)
    assert "default-src 'none'" in html


@pytest.mark.parametrize("kind", ["city", "wards"])
def test_only_the_scripts_and_the_style_of_the_page_are_allowed(request, kind):
    """The policy holds the hash of each script and style, nothing unsafe, and no attribute."""
    release = request.getfixturevalue(kind)
    html = render(release.table, release.manifest)
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


@pytest.mark.parametrize(
    ("unit", "words"),
    [("user", "one vehicle been"), ("user-day", "one day been"), ("user-week", "one week been")],
)
def test_the_promise_is_made_per_unit(city, unit, words):
    """The second sentence is the promise, and names the privacy unit."""
    said = promise(unit, Fraction(5))
    guarantee = {**city.manifest["guarantee"], "privacy_unit": unit, "promise": said}
    html = render(city.table, {**city.manifest, "guarantee": guarantee})
    sentence = re.findall(r'<span class="sentence">(.*?)</span>', html)[1]
    assert sentence == said
    assert "at most 149" in sentence
    assert words in sentence


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
    dataset = {**wards.manifest["dataset"], "name": evil, "value": evil, "value_unit": evil}
    html = render(wards.table, {**wards.manifest, "dataset": dataset})
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert html.count("</script>") == 3  # the data and the page's own two
    assert data_of(html)["columns"]["label:ward"][0] == "<img src=x onerror=alert(1)>"


@given(st.text())
@examples(200)
def test_script_json_round_trips_and_cannot_end_the_script(text):
    """Any text comes back from the script element, which it cannot leave."""
    written = script_json(
        {"text": text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")}
    )
    assert "<" not in written
    assert "\u2028" not in written
    json.loads(written)


def test_each_grade_has_a_legend_and_colours(city):
    """Legend, swatch, script and the map's palette know a cell that is cut off."""
    flags = ["cut off"] * 2 + city.table["mean_quality"].to_pylist()[2:]
    index = city.table.column_names.index("mean_quality")
    table = city.table.set_column(index, "mean_quality", [flags])
    html = render(table, city.manifest)
    assert "<b>One end unknown</b> (2 of" in html
    assert "; of 2 numbers one end is unknown." in html
    assert ".steps.cut-off {" in html
    assert [QUALITIES[k] for k in data_of(html)["columns"]["quality"]] == flags
    assert f"const flags = {json.dumps(GRADES)};" in html
    for mode in ("light", "dark"):
        assert data_of(html)["palette"][mode] == palette(mode)
        assert set(palette(mode)) >= set(QUALITIES)


def test_bare_facts_are_enough(city):
    """A manifest whose optional facts are empty or absent still makes a page."""
    manifest = {
        **city.manifest,
        "dataset": {"value": "speed"},
        "plan": {},
        "guarantee": {"privacy_unit": "user", "promise": "Nothing."},
    }
    del manifest["losses"], manifest["software"]
    html = render(city.table, manifest)
    assert "<h1>Average speed</h1>" in html
    assert "None" not in without_scripts(html)


def test_title_and_subtitle_are_the_publishers(city):
    """They head the page, escaped; without them it is headed by what is averaged."""
    titles = {"title": "A <b> & c", "subtitle": "<script>alert(1)</script>"}
    html = render(city.table, {**city.manifest, **titles})
    assert "<title>A &lt;b&gt; &amp; c · 19 February 2024</title>" in html
    assert "<h1>A &lt;b&gt; &amp; c</h1>" in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;</p>" in html
    assert "<script>alert" not in html
    alone = render(city.table, {**city.manifest, "title": "Rivertown at eight"})
    assert '<p class="subtitle">Average speed in km/h · Rivertown buses</p>' in alone
    assert 'class="subtitle"' not in render(city.table, city.manifest)


def test_the_page_holds_its_description_for_search_engines(city):
    """It is JSON-LD that no text can leave; a page without one has no such element."""
    described = {"@type": "Dataset", "name": "</script><img src=x onerror=alert(1)>"}
    html = render(city.table, city.manifest, description=described)
    text = re.search(r'<script type="application/ld\+json">(.*?)</script>', html)[1]
    assert json.loads(text) == described
    assert "<img" not in html
    assert "ld+json" not in render(city.table, city.manifest)
