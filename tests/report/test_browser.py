"""The page in a browser, on a phone and on a desk: it fits, moves, answers and fetches nothing."""

import re
import struct
from dataclasses import replace

import h3
import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from golden_releases import fixed_noise
from publishing.releases import records
from report.conftest import hexagon_table
from report.pages import page_of, restated, with_column

pytestmark = pytest.mark.browser
PHONE, DESK = 390, 1440
WIDTHS = pytest.mark.parametrize("width", [PHONE, DESK])
SEVEN = "#slot=2024-02-19T07:00"
"""Address of the city's first timeslot, in which the first row of the table is."""
UNCLEAR = "cannot be told"


@pytest.fixture(scope="module")
def city_page(city, context) -> str:
    return page_of(city, context=context, catalogue=hv.Catalogue(publisher="<b>"))


def fits(page) -> None:
    """Check that the page is as wide as the window and no visible part lies outside it."""
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    outside = page.evaluate(
        """() => [...document.querySelectorAll("main *")].filter((e) => {
            const box = e.getBoundingClientRect();
            return box.width && !e.closest(".scroll, #map")
                && (box.right > innerWidth + 0.5 || box.left < -0.5);
        }).map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert outside == []


def quiet(page) -> None:
    """Check that nothing was complained about and nothing but the file was asked for."""
    assert page.complaints == []
    asked = [url for url in page.requests if not url.startswith("data:")]
    assert len(asked) == 1
    assert asked[0].startswith("file://")


def violations(page, *schemes) -> list:
    """Return what breaks the rules of axe-core in each scheme, contrast among them."""
    axe, found = pytest.importorskip("axe_playwright_python.sync_playwright"), []
    for scheme in schemes:
        page.get_by_role("radio", name=scheme).check()
        broken = axe.Axe().run(page).response["violations"]
        found += [(scheme, rule["id"], rule["nodes"][0]["html"]) for rule in broken]
    # Pages of one window remember the choice.
    page.get_by_role("radio", name="System").check()
    return found


def middle_of_map(page) -> tuple[float, float]:
    page.locator("#map-frame").scroll_into_view_if_needed()
    box = page.locator("#map-frame").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def colours(page) -> int:
    """Return how many different colours the drawing of the map has."""
    return page.locator("#map canvas").first.evaluate(
        """(canvas) => {
            const found = new Set();
            const pixels = canvas.getContext("2d")
                .getImageData(0, 0, canvas.width, canvas.height).data;
            for (let i = 0; i < pixels.length; i += 4) {
                found.add((pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2]);
            }
            return found.size;
        }"""
    )


def texts(page, column: str) -> list[str]:
    return page.locator(f'#cells td[data-column="{column}"]').all_inner_texts()


@WIDTHS
def test_the_page_fits_and_is_silent(show, city_page, width):
    """At both widths nothing is clipped, no error is logged, nothing is requested."""
    page = show(city_page, width)
    fits(page)
    assert colours(page) > 50
    page.locator("#mathematics summary").click()
    fits(page)
    quiet(page)


@WIDTHS
def test_hovering_a_hexagon_shows_its_cell_value_bound_and_users(show, city_page, city, width):
    """The middle of the map is the first hexagon; the tip says what the table says of it."""
    page = show(city_page, width, at=SEVEN)
    page.mouse.move(*middle_of_map(page))
    tip = page.locator("#tip").inner_text()
    first = city.table.slice(0, 1).to_pylist()[0]
    assert first["hexagon"] in tip
    assert f"{first['mean_raw']:.1f}\u00a0km/h" in tip
    assert "95% bound" in tip
    assert f"{first['users']} vehicles" in tip
    inside = page.evaluate(
        """() => { const [t, f] = ["tip", "map-frame"].map((id) =>
            document.getElementById(id).getBoundingClientRect());
            return t.left >= f.left && t.right <= f.right && t.bottom <= f.bottom; }"""
    )
    assert inside
    fits(page)
    page.mouse.move(5, 5)
    assert page.locator("#tip").is_hidden()


def test_a_tap_on_a_phone_reads_a_hexagon(show, city_page, city):
    """A tap, without a mouse, fills the card beneath the map, and the card is in view."""
    page = show(city_page, PHONE, touch=True)
    spot = middle_of_map(page)
    page.touchscreen.tap(*spot)
    page.wait_for_selector("#readout .value")
    page.wait_for_function(
        """() => { const box = document.getElementById("readout").getBoundingClientRect();
            return box.top >= 0 && box.bottom <= innerHeight + 1; }"""
    )
    assert city.table["hexagon"][0].as_py() in page.locator("#readout").inner_text()
    fits(page)
    quiet(page)


def test_wheel_buttons_drag_and_reset_move_the_map(show, city_page, city):
    """Zooming keeps the place under the pointer; drags and arrows move it; reset brings it back."""
    page = show(city_page, DESK)
    spot = middle_of_map(page)
    first = city.table["hexagon"][0].as_py()
    page.mouse.move(*spot)
    page.mouse.wheel(0, -400)
    page.wait_for_timeout(300)
    page.mouse.move(spot[0] + 1, spot[1])
    assert first in page.locator("#tip").inner_text()
    page.locator("#zoom-in").click()
    page.mouse.move(*spot)
    page.mouse.down()
    page.mouse.move(spot[0] - 300, spot[1], steps=4)
    page.mouse.up()
    page.wait_for_timeout(200)
    page.mouse.move(*spot)
    moved = page.locator("#tip").inner_text() if page.locator("#tip").is_visible() else ""
    assert first not in moved
    page.locator("#zoom-reset").click()
    page.mouse.move(spot[0] + 2, spot[1])
    assert first in page.locator("#tip").inner_text()
    page.locator("#map-frame").focus()
    for key in ("+", "+", "+", *["ArrowRight"] * 3, "ArrowUp", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    assert first not in page.locator("#readout").inner_text()
    page.keyboard.press("0")
    page.keyboard.press("Enter")
    assert first in page.locator("#readout").inner_text()
    quiet(page)


def test_the_table_sorts_by_any_column(show, city_page, city):
    """A click sorts by numbers from the largest, a second one from the smallest."""
    page = show(city_page, PHONE)
    header = page.locator('#cells th[data-column="value"]')
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    shown = [float(text) for text in texts(page, "value")]
    assert shown == sorted(shown, reverse=True)
    assert shown[0] == pytest.approx(max(city.table["mean_raw"].to_pylist()), abs=0.05001)
    header.locator("button").focus()
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    assert float(texts(page, "value")[0]) == pytest.approx(
        min(city.table["mean_raw"].to_pylist()), abs=0.05001
    )
    fits(page)


def test_every_cell_can_be_reached(show, city_page, city):
    """Paging shows every row once; search, slot and grade narrow it; a row leads to its hexagon."""
    page = show(city_page, DESK, at=SEVEN)
    seen = []
    while True:
        seen += page.locator("#cells tbody tr").evaluate_all("(r) => r.map((t) => t.dataset.row)")
        if page.locator("#page-after").is_disabled():
            break
        page.locator("#page-after").click()
    assert sorted(map(int, seen)) == list(range(city.table.num_rows))
    name = city.table["hexagon"][0].as_py()
    page.locator("#find").fill(name)
    assert set(texts(page, "id")) == {name}
    page.locator("#only-slot").check()
    assert texts(page, "id") == [name]
    page.locator("#slot-after").click()
    assert "08:00" in texts(page, "slot")[0]
    page.locator("#find").fill("no such cell")
    assert page.locator("#page-name").inner_text() == "Nothing matches"
    page.locator("#find").fill(name)
    page.locator("#grade").select_option("good")
    page.locator("#only-slot").uncheck()
    assert set(texts(page, "quality")) == {"good"}
    page.locator("#cells tbody tr button").first.click()
    page.mouse.move(*middle_of_map(page))
    assert name in page.locator("#tip").inner_text()


@WIDTHS
def test_labels_have_a_table_that_fits(show, wards, width):
    """With labels the page has no map; markup in a label stays text; the table sorts."""
    page = show(page_of(wards), width)
    fits(page)
    assert page.locator("#map").count() == 0
    assert page.locator("main img").count() == 0
    page.locator('#cells th[data-column="label:ward"] button').click()
    shown = texts(page, "label:ward")
    assert "<img src=x onerror=alert(1)>" in shown
    assert shown.index("Ward 0") < shown.index("Ward 8") < shown.index("Zürich")
    assert page.locator("#chart li").count() == wards.table.num_rows
    dots = page.locator("#chart b").evaluate_all("(all) => all.map((e) => e.offsetLeft)")
    assert dots == sorted(dots, reverse=True)  # the largest value is first
    assert dots[0] > dots[-1]
    quiet(page)


@pytest.mark.parametrize(("width", "resolution"), [(PHONE, 0), (DESK, 1), (PHONE, 15)])
def test_maps_of_every_scale_are_drawn(show, city, width, resolution):
    """The whole world, a continent and a room fit the page and are not blank."""
    ring = {0: 0, 1: 2, 15: 3}[resolution]
    middle = h3.latlng_to_cell(61.2, -150.0, resolution)
    names = sorted(h3.get_res0_cells()) if resolution == 0 else h3.grid_disk(middle, ring)
    restricted = restated(city, hexagon_table(names, [], []))
    page = show(page_of(restricted, hide_geography=resolution == 15), width)
    # Hexagons without names are not named twice.
    assert ("Hexagon" in page.locator("th").all_text_contents()) == (resolution != 15)
    fits(page)
    assert colours(page) > 20
    quiet(page)


INJECTED = {
    "script": "<script>document.title = 'taken'</script>",
    "handler": "<img src='data:,' onerror=\"document.title = 'taken'\">",
    "address": "<iframe src=\"javascript:parent.document.title = 'taken'\"></iframe>",
    "style element": "<style>h1 { display: none }</style>",
    "style attribute": "<p id='late' style='position: fixed; inset: 0'>taken</p>",
}


@pytest.mark.parametrize("kind", INJECTED)
def test_what_is_injected_does_nothing(show, city_page, kind):
    """Scripts and styles that are not the page's own are refused, and the page works on."""
    page = show(city_page.replace("</main>", f"{INJECTED[kind]}</main>"), DESK)
    page.wait_for_timeout(100)
    assert page.title() != "taken"
    assert page.locator("h1").is_visible()
    if kind == "style attribute":
        position = "(e) => getComputedStyle(e).position"
        assert page.locator("#late").evaluate(position) == "static"
    failed = "() => fetch('https://example.invalid/x').then(() => false, () => true)"
    assert page.evaluate(failed)
    assert any("Content Security Policy" in text for text in page.complaints)
    assert colours(page) > 50


def test_the_address_names_slot_comparison_and_hexagon(show, city_page, city):
    """A view opens as its address says, and each change is in the address."""
    cell = city.table["hexagon"][0].as_py()
    page = show(city_page, DESK, at=f"#slot=2024-02-19T09:00&against=2024-02-19T07:00&cell={cell}")
    assert page.locator("#slot-name").inner_text() == "19 Feb 2024, 09:00\u201310:00"
    assert cell in page.locator("#readout").inner_text()
    assert page.locator("#against").input_value() == "0"
    page.locator("#against").select_option("")
    page.locator("#slot-before").click()
    assert page.url.endswith(f"#slot=2024-02-19T08:00&cell={cell}")
    quiet(page)


def test_a_second_hexagon_is_compared_as_python_compares_it(show, city_page, city):
    """A tap after the button chooses the second one; difference and verdict are those of Python."""
    slot = SEVEN.partition("=")[2]
    here = [r["hexagon"] for r in city.table.to_pylist() if r["slot"] == slot]
    page = show(city_page, PHONE, at=f"{SEVEN}&cell={here[-1]}")
    page.locator("#readout .compare").click()
    assert "second hexagon" in page.locator("#readout").inner_text()
    # Waits until the map lies still under the words that the button has brought.
    page.locator("#map-frame").click()
    page.wait_for_url(f"**&cell={here[-1]}&second={here[0]}")
    for first, second in ((here[-1], here[0]), (here[1], here[2]), (here[3], here[-2])):
        page.goto(page.url.partition("#")[0] + f"{SEVEN}&cell={first}&second={second}")
        found = city.difference(f"{first}/{slot}", f"{second}/{slot}")
        text = page.locator("#readout").inner_text().replace("\u2212", "-")
        assert f"{found.difference:+.1f}\u00a0km/h" in text
        assert f"between {np.floor(found.low * 10 + 1e-6) / 10:+.1f} and" in text
        assert ("Told apart" in text) == found.is_told_apart
        assert ("Cannot be told apart" in text) != found.is_told_apart
    page.locator("#readout .compare").click()
    assert "&second=" not in page.url
    fits(page)
    quiet(page)


@pytest.mark.parametrize(("kind", "scheme"), [("city", "light"), ("wards", "dark")])
def test_axe_finds_no_violation(request, show, kind, scheme):
    """With a hexagon chosen and all unfolded."""
    page = show(page_of(request.getfixturevalue(kind)), DESK, scheme=scheme)
    page.locator("#mathematics summary").click()
    if kind == "city":
        page.mouse.click(*middle_of_map(page))
        page.locator("#against").select_option("2")
    assert violations(page, "Dark" if scheme == "light" else "Light") == []


@pytest.fixture(scope="module")
def changes(city, context) -> tuple:
    """Return the page of a comparison of the city with itself, moved in its northern half."""
    table = city.table.filter(
        [slot < "2024-02-19T10:00" for slot in city.table["slot"].to_pylist()]
    )
    latitudes = [h3.cell_to_latlng(name)[0] for name in table["hexagon"].to_pylist()]
    change = 30.0 * (np.array(latitudes) > 21.171) * (-1.0) ** np.arange(table.num_rows)
    before, after = (
        restated(city, with_column(table, "mean_noisy", numbers), request=digit * 64)
        for digit, numbers in (("0", 40.0 + 0 * change), ("1", 40.0 + change))
    )
    made = hv.compare_releases(before, after)
    return page_of(made, context=context), made.table.to_pylist()


def test_a_comparison_has_the_page_of_a_release(show, changes):
    """Changes have signs, colours and names; what cannot be told is blank, in words too."""
    html, rows = changes
    told = next(row for row in rows if row["verdict"] == "lower")
    unclear = next(row for row in rows if row["verdict"] == UNCLEAR)
    address = f"#slot={told['slot_before']}&against={rows[0]['slot_before']}&cell="
    page = show(html, DESK, at=address + told["hexagon"])
    name = "Rivertown buses, request"
    assert page.title().endswith(f"· {name} 00000000 → {name} 11111111")
    card = page.locator("#readout")
    assert card.locator(".value").inner_text() == "\u221230.0\u00a0km/h"
    assert "before 40.0, after 10.0" in card.inner_text()
    assert re.search("km|Old Town", card.locator(".where").inner_text())
    assert page.locator("#against").count() == 0
    assert page.locator(".marks span").all_inner_texts()[0].startswith("\u2212")
    page.goto(page.url.replace(told["hexagon"], unclear["hexagon"]))
    assert "conclude no change" in card.inner_text()
    page.locator("#grade").select_option("lower")
    assert set(texts(page, "quality")) == {"lower"}
    page.locator("#mathematics summary").click()
    assert violations(page, "Light", "Dark") == []
    assert colours(page) > 20
    fits(page)
    page.set_viewport_size({"width": PHONE, "height": 844})
    fits(page)
    quiet(page)


def test_a_tapped_hexagon_shows_its_week(show, city):
    """A roll-up by day of the week is a map whose slots are the hours of the week, in order."""
    days = [(day, time) for day in ("Monday", "Friday", "Sunday") for time in ("06:00", "18:00")]
    place = city.table["hexagon"][0].as_py()
    rows = [
        {"cell": f"{place}/{time}/{day}", "hexagon": place, "slot": time, "days": day, "cells": 4}
        | {"records": 9, "mean": 20.0 + k, "mean_low": 18.0 + k, "mean_high": 22.0 + k}
        for k, (day, time) in enumerate(days)
    ]
    made = hv.roll_up(city, resolution=7)
    facts = {"by": "weekday", "releases": [{}] * 12}
    week = replace(made, table=pa.Table.from_pylist(rows), statement=made.statement | facts)
    page = show(page_of(week), PHONE, touch=True)
    assert "Average speed over 12 days, by day of the week" in page.title()
    page.touchscreen.tap(*middle_of_map(page))
    page.wait_for_selector("#readout .value")
    assert page.locator(".profile .dot").count() == len(days)
    page.locator(".profile .slot").nth(4).click()
    assert page.locator("#slot-name").inner_text() == "Sunday 06:00"
    fits(page)
    quiet(page)


@pytest.fixture(scope="module")
def two_columns(context) -> hv.Release:
    """Return a release of two value columns, the second without the first hexagon."""
    table = records()
    first, delays = table["lat"][0], np.arange(table.num_rows) % 40 / 1.0
    missing = [lat == first for lat in table["lat"]]
    table = table.append_column("delay", pa.array(delays, mask=np.array(missing)))
    data = hv.read(
        table, user="bus", value=["speed", "delay"], lat="lat", lon="lon", time="time",
        bounds={"speed": (0, 60), "delay": (0, 50)}, cells=hv.Cells(7, "1h", "Asia/Kolkata"),
        value_unit={"speed": "km/h", "delay": "km/h"}, repeats="keep", max_bad_rows=0.5,
    )  # fmt: skip
    plan = hv.plan(data, epsilon=40, clipping_range="bounds", advise=False)
    book = hv.Ledger("memory://", dataset="buses", budget=40)
    with fixed_noise():
        return hv.release(data, plan, ledger=book, accept_noise=True)


def test_a_value_column_is_chosen(show, context, two_columns):
    """Numbers, counts and names are those of the column; its missing cells have none."""
    absent = next(row for row in two_columns if row["delay_mean_raw"] is None)
    here = next(
        row for row in two_columns
        if row["delay_mean_raw"] is not None and row["slot"] == absent["slot"]
    )  # fmt: skip
    page = show(page_of(two_columns, context=context), DESK)
    page.get_by_label("Value column").select_option("delay")
    assert "statistic=Average+delay" in page.url
    is_absent = [grade == "not published" for grade in texts(page, "quality")]
    assert any(is_absent)
    assert [count == "\u2013" for count in texts(page, "users")] == is_absent
    page.goto(f"{page.url.partition('#')[0]}#statistic=Average+delay+%28km%2Fh%29&cell="
              f"{here['hexagon']}&slot={here['slot']}")  # fmt: skip
    card = page.locator("#readout")
    assert card.locator(".value").inner_text() == f"{here['delay_mean_raw']:.1f}\u00a0km/h"
    page.goto(page.url.replace(here["hexagon"], absent["hexagon"]))
    assert "no records of this value column" in card.inner_text()
    page.get_by_label("Value column").select_option("speed")
    assert "no records" not in card.inner_text()
    page.locator("#mathematics summary").click()
    assert {"speed", "delay"} <= {*page.locator("#mathematics dt").all_inner_texts()}
    assert violations(page, "Light", "Dark") == []
    fits(page)
    page.set_viewport_size({"width": PHONE, "height": 844})
    fits(page)
    quiet(page)


def test_the_reader_chooses_light_or_dark(show, city_page):
    """By keyboard: page, map and next page are as chosen, else as the system; paper is light."""
    page = show(city_page, DESK)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    # Not before it is drawn: an empty canvas is as dark as nothing else.
    page.wait_for_function(f"() => ({LIGHTNESS})(document.querySelector('#map canvas')) > 150")
    group = page.get_by_role("group", name="Colours of the page")
    group.get_by_role("radio", name="System").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert group.get_by_role("radio", name="Dark").is_checked()
    assert page.evaluate(ground) != light
    page.wait_for_function(f"() => ({LIGHTNESS})(document.querySelector('#map canvas')) < 120")
    page.emulate_media(media="print")
    assert page.evaluate(ground) == light
    page.emulate_media(media="screen")
    page.reload()
    page.wait_for_function(f"light => {ground} != light", arg=light)
    page.get_by_role("radio", name="System").check()
    assert page.evaluate(ground) == light
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"light => {ground} !== light", arg=light)


LIGHTNESS = """(canvas) => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let sum = 0;
    for (let i = 1; i < pixels.length; i += 4) sum += pixels[i];
    return sum / (pixels.length / 4);
}"""


def test_a_reader_takes_a_picture_and_the_element_that_embeds_the_view(show, city_page, tmp_path):
    """The picture is the map with title and legend; the element names the file and the view."""
    page = show(city_page, DESK, at=SEVEN)
    with page.expect_download() as saved:
        page.locator("#save-picture").click()
    assert saved.value.suggested_filename == "map-2024-02-19T07-00.png"
    saved.value.save_as(tmp_path / "map.png")
    header = (tmp_path / "map.png").read_bytes()[:24]
    assert header[1:4] == b"PNG"
    width, height = struct.unpack(">II", header[16:])
    shown = page.locator("#map canvas").first.evaluate("(c) => [c.width, c.height]")
    assert width == shown[0]
    assert height > shown[1] + 100
    page.locator("#embed summary").click()
    code = page.locator("#embedding").input_value()
    assert re.match(r'<iframe src="[^"/]+\.html#slot=2024-02-19T07:00" title="', code)
    page.locator("#slot-after").click()
    assert "#slot=2024-02-19T08:00" in page.locator("#embedding").input_value()
    fits(page)
    quiet(page)


def test_timeslots_are_played_until_one_is_chosen(show, city_page):
    """Play goes on from slot to slot; a step by hand ends it."""
    page = show(city_page, PHONE, at=SEVEN)
    play = page.locator("#slot-play")
    play.click()
    page.wait_for_function("() => document.getElementById('slot').value === '2'")
    assert play.inner_text() == "Pause"
    page.locator("#slot-before").click()
    assert play.inner_text() == "Play"
    assert page.locator("#slot").input_value() == "1"
    fits(page)
    quiet(page)
