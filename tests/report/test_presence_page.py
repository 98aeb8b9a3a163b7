"""The page of a map with private presence: its sentences, its data, its closed cells."""

import re

import numpy as np
import pyarrow as pa
import pytest

from attack import folder_kinds
from golden_releases import fixed_noise
from report.pages import data_of, page_of, restated, with_column
from report.test_browser import violations


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """Return releases of averages, of all statistics, and of labels."""
    home = tmp_path_factory.mktemp("maps")
    with fixed_noise():
        return {
            kind: folder_kinds.release(home, kind)
            for kind in ("presence", "presence-shapes", "presence-labels")
        }


@pytest.fixture(scope="module")
def pages(maps):
    """Return the page of each, and its data."""
    texts = {kind: page_of(release) for kind, release in maps.items()}
    return {kind: (html, data_of(html)) for kind, html in texts.items()}


def rows_of(table, *, is_open):
    """Return the rows of open or of closed cells."""
    return np.flatnonzero(np.array(table["is_open"].to_pylist()) == is_open).tolist()


def test_closed_cells_have_no_numbers(maps, pages):
    """They are in the table, graded closed; their numbers are missing, not zero."""
    table = maps["presence"].table
    columns = pages["presence"][1]["columns"]
    closed, opened = (rows_of(table, is_open=kind) for kind in (False, True))
    assert len(columns["value"]) == table.num_rows
    for name in ("value", "bound", "low", "high", "weight"):
        assert {columns[name][row] for row in closed} == {None}
        assert None not in [columns[name][row] for row in opened]
    assert {columns["quality"][row] for row in closed} == {4}
    assert 4 not in [columns["quality"][row] for row in opened]


def test_no_count_of_users_or_records_is_on_the_page(pages):
    """What the other model publishes exactly is neither in the data nor in a sentence."""
    html, data = pages["presence"]
    assert not {"users", "records"} & data["columns"].keys()
    words = " ".join(re.sub(r"<script\b.*?</script>", "", html, flags=re.DOTALL).split())
    assert "the places and the times are exact" not in words
    assert "Whether anybody was in the records is protected." in words
    assert "had one vehicle not been in the records at all" in words
    assert re.search(
        r"Closed \(25 of \d+\): too little weight|</b> \(25 of \d+\): too little weight", words
    )


def test_a_cell_whose_upper_end_is_unknown_is_cut_off(show, maps):
    """Its grade says so, and chart and legend say "at least"; a closed cell has no bar."""
    table = maps["presence-labels"].table
    opened = [False, *[True] * 5]
    for name, column in {
        "is_open": opened,
        "quality": ["closed", *["good"] * 4, "cut off"],
        "mean": [None, *range(10, 50, 10), 58.0],
        "mean_high": [None, *range(12, 52, 10), 60.0],
    }.items():
        table = with_column(table, name, column)
    html = page_of(restated(maps["presence-labels"], table))
    data = data_of(html)
    assert data["columns"]["quality"] == [4, 0, 0, 0, 0, 2]
    assert "<b>One end unknown</b> (1 of 6): at an end of its clipping range" in html
    page = show(html, 390)
    bars = page.locator("#chart li")
    assert bars.count() == 5
    assert bars.locator(".name").first.inner_text() == "=route 5, 1"
    assert bars.locator(".said").first.inner_text().startswith("at least ")
    assert "unknown" in page.locator('#cells td[data-column="high"]').all_text_contents()


def test_a_closed_cell_shows_no_number_in_a_browser(show, maps, pages):
    """The card of a closed hexagon says that it is closed; that of an open one has its average."""
    table = maps["presence"].table
    closed, opened = (
        table["hexagon"][rows_of(table, is_open=kind)[0]].as_py() for kind in (False, True)
    )
    page = show(pages["presence"][0], 1440, at=f"#cell={closed}")
    card = page.locator("#readout").inner_text()
    assert "closed" in card.lower()
    assert not re.search(r"\d\.\d", card)
    page.evaluate(f"location.hash = 'cell={opened}'")
    page.wait_for_function("document.querySelector('#readout .value') !== null")
    assert re.search(r"\d\.\d", page.locator("#readout .value").inner_text())
    # The table begins with open cells alone.
    listed = page.locator('#cells td[data-column="quality"]')
    assert "closed" not in listed.all_inner_texts()
    page.locator("#grade").select_option("all")
    assert listed.all_inner_texts().count("closed") > 0
    assert page.complaints == []


def test_every_statistic_can_be_chosen(show, maps, pages):
    """Each has numbers, grades and a caption of its own; a card draws the histogram of its cell."""
    table = maps["presence-shapes"].table
    html, data = pages["presence-shapes"]
    assert len(data["choices"]) == 24
    bins = data["value_columns"][0]["bins"]
    assert (bins["first"], bins["ends"]) == (4, list(range(0, 61, 3)))
    row = rows_of(table, is_open=True)[0]
    assert data["choices"][1]["grades"] == [0, 1, 0, 2]
    page = show(html, 390, at=f"#cell={table['hexagon'][row].as_py()}")
    value, caption = page.locator("#readout .value"), page.locator("#cells-caption")
    page.locator("#statistic").select_option(label="Share below 20 of speed")
    assert value.inner_text() == f"{table['share_below_20'][row].as_py():.3f}"
    assert caption.inner_text().startswith("Share below 20 of speed for each hexagon.")
    assert page.locator("#readout .bin").count() == 20
    page.locator("#readout .bin").nth(4).click(force=True)
    assert caption.inner_text().startswith("Share of speed from 12 to 15 for each hexagon.")
    assert value.inner_text() == f"{table['histogram_05'][row].as_py():.3f}"
    assert "12 to 15: " in page.locator("#readout").inner_html()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page, "Light") == []
    assert page.complaints == []


@pytest.mark.slow
def test_a_large_page_leaves_the_histogram_to_the_tables(maps):
    """Bins would make it too large for a browser; it says where they are."""
    release = maps["presence-shapes"]
    table = release.table.drop_columns(["hexagon"])
    table = pa.concat_tables([table] * (300_000 // (24 * table.num_rows) + 1))
    table = with_column(table, "cell", [f"area {k}" for k in range(table.num_rows)])
    html = page_of(restated(release, table))
    data = data_of(html)
    assert (len(data["choices"]), data["value_columns"][0]["bins"]) == (4, None)
    assert "cells.csv has the histogram" in html
