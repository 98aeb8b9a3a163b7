"""The page of a map with private presence: its sentences, its data, its closed cells."""

import re

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms.presence.presence_decoding import ReleasedMap, noisy_columns
from hexveil.publishing.kinds.presence_table import released_table
from hexveil.publishing.manifest import grid_section, selection_section
from hexveil.report import payload, render
from hexveil.report.promise_wording import guarantee_sentences
from report.test_page import data_of

BOX = (20.9, 52.1, 21.1, 52.3)


def page_of(cells, n_closed, statistics=()):
    """Return the page of a made-up map on declared cells, its table and its data."""
    facts = hv.declare(
        user="car", value="speed", bounds=(0, 100), value_unit="km/h", protect="presence",
        lat="lat" if isinstance(cells, hv.Cells) else None,
        lon="lon" if isinstance(cells, hv.Cells) else None, cells=cells, statistics=statistics,
    )  # fmt: skip
    plan = hv.plan(facts, epsilon=1, fleet=5000, advise=False, statistics=statistics or None)
    is_open = np.arange(facts.grid.n_cells) >= n_closed
    share, wide = np.linspace(0.2, 0.6, is_open.size), np.full(is_open.size, 0.02)
    if statistics:
        decoded = shapes_of(plan.request.measured.columns, is_open, share, wide)
    else:
        decoded = means_of(is_open, share, wide).in_units(0.0, 100.0)
    table = released_table(plan.request, decoded, "speed", "km/h")
    manifest = {
        "model": "presence",
        "software": {"hexveil": "1"},
        "dataset": {"name": "cars", "value": "speed", "value_unit": "km/h", "version": "1"},
        "guarantee": {
            "privacy_unit": "user",
            "epsilon_spent": "1",
            **guarantee_sentences("user", plan.epsilon, dropped="none", protect="presence"),
        },
        "bounds": {"lower": "0", "upper": "100", "quantum": "0.001"},
        "grid": grid_section(facts),
        "selection": selection_section(facts),
        "plan": plan.to_json()
        | {"user_cap": "none", "stages": [], "scale": 2.0**20, "parts": 2**20}
        | {"open_from": 3.0, "false_openings": 1.0}
        | ({"bins": 4} if statistics else {}),
    }
    html = render(table, manifest)
    return html, table, data_of(html)


def means_of(is_open, share, wide):
    """Return made-up averages; the range of the last ends where its interval does not."""
    high = np.append((share + wide)[:-1], 1.0)
    columns = {"mean": share, "mean_low": share - wide, "mean_high": high}
    columns |= {"balance_noisy": 10 * share, "mean_centre": share}
    columns |= {"mean_range_low": share - 0.1, "mean_range_high": share + 0.1}
    columns = {name: np.where(is_open, one, np.nan) for name, one in columns.items()}
    columns |= noisy_columns("weight", 50 * share, (40 * share, 60 * share), is_open)
    between = {"mean": float(share[is_open].std())}
    return ReleasedMap(is_open, columns | {"mean_smoothed": share}, {"mean": wide / 2}, between)


def shapes_of(names, is_open, share, wide):
    """Return made-up averages, medians, shares and histograms; medians are noise."""
    bins = np.full((share.size, 20), 0.05)
    estimate = np.column_stack([100 * share, 100 * share, share, bins])
    half = np.column_stack([100 * wide, 4000 * wide, wide, bins / 2])
    high = np.minimum(estimate + half, [100, 100] + [1] * 21)
    numbers = {"": estimate, "_low": np.clip(estimate - half, 0, None), "_high": high}
    closed = np.where(is_open, 1.0, np.nan)
    columns = {
        f"{name}{end}": closed * column
        for end, one in numbers.items()
        for name, column in zip(names, one.T, strict=True)
    }
    columns |= noisy_columns("weight", 50 * share, (40 * share, 60 * share), is_open)
    error = dict(zip(names, half.T / 2, strict=True))
    return ReleasedMap(is_open, columns, error, dict(zip(names, estimate.std(axis=0), strict=True)))


@pytest.fixture(scope="module")
def mapped():
    """Return the page of hexagons, of which three are closed."""
    return page_of(hv.Cells(6, None, area=BOX), 3)


def test_closed_cells_have_no_numbers(mapped):
    """They are in the table, graded closed; their numbers are missing, not zero."""
    _, table, data = mapped
    columns = data["columns"]
    assert len(columns["value"]) == table.num_rows
    for name in ("value", "bound", "low", "high", "weight"):
        assert columns[name][:3] == [None] * 3
        assert None not in columns[name][3:]
    assert columns["quality"][:3] == [4] * 3
    assert 4 not in columns["quality"][3:]


def test_no_count_of_users_or_records_is_on_the_page(mapped):
    """What the other model publishes exactly is neither in the data nor in a sentence."""
    html, _, data = mapped
    assert not {"users", "records"} & data["columns"].keys()
    words = " ".join(re.sub(r"<script\b.*?</script>", "", html, flags=re.DOTALL).split())
    assert "the places and the times are exact" not in words
    assert "Whether anybody was in the records is protected." in words
    assert "had one user not been in the records at all" in words
    assert re.search(
        r"Closed \(3 of \d+\): too little weight|</b> \(3 of \d+\): too little weight", words
    )


def test_a_cell_whose_upper_end_is_unknown_is_cut_off(show):
    """Its grade says so, and chart and legend say "at least"; a closed cell has no bar."""
    html, table, data = page_of(hv.Labels("road", values=["A4", "A8", "B10"]), 1)
    assert table["quality"].to_pylist() == ["closed", "good", "cut off"]
    assert data["columns"]["quality"] == [4, 0, 2]
    assert "<b>One end unknown</b> (1 of 3): at an end of its clipping range" in html
    page = show(html, 390)
    bars = page.locator("#chart li")
    assert bars.locator(".name").all_inner_texts() == ["B10", "A8"]
    assert bars.locator(".said").first.inner_text() == "at least 58.0\u00a0km/h"
    assert "unknown" in page.locator('#cells td[data-column="high"]').all_text_contents()


def test_a_closed_cell_shows_no_number_in_a_browser(show, mapped):
    """The card of a closed hexagon says that it is closed; that of an open one has its average."""
    html, table, _ = mapped
    closed, opened = (table["hexagon"][row].as_py() for row in (0, 3))
    page = show(html, 1440, at=f"#cell={closed}")
    card = page.locator("#readout").inner_text()
    assert "closed" in card.lower()
    assert "km/h" not in card
    page.evaluate(f"location.hash = 'cell={opened}'")
    page.wait_for_function("document.querySelector('#readout .value') !== null")
    assert "km/h" in page.locator("#readout").inner_text()
    # The table begins with open cells alone.
    listed = page.locator('#cells td[data-column="quality"]')
    assert "closed" not in listed.all_inner_texts()
    page.locator("#grade").select_option("all")
    assert listed.all_inner_texts().count("closed") == 3
    assert page.complaints == []


SHAPES = ("mean", "p50", "share<30", "histogram")


def test_every_statistic_can_be_chosen(show):
    """Each has numbers, grades and a caption of its own; a card draws the histogram of its cell."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    html, table, data = page_of(hv.Cells(6, None, area=BOX), 3, SHAPES)
    assert len(data["choices"]) == 23
    assert data["value_columns"][0]["bins"] == {
        "first": 3,
        "ends": list(range(0, 101, 5)),
        "unit": "km/h",
    }
    n_open = table.num_rows - 3
    assert [data["choices"][k]["grades"] for k in (0, 1)] == [[n_open, 0, 0, 0], [0, 0, 0, n_open]]
    page = show(html, 390, at=f"#cell={table['hexagon'][4].as_py()}")
    value, caption = page.locator("#readout .value"), page.locator("#cells-caption")
    assert "km/h" in value.inner_text()
    page.locator("#statistic").select_option(label="Share below 30 of speed")
    assert value.inner_text() == f"{table['share_below_30'][4].as_py():.3f}"
    assert caption.inner_text().startswith("Share below 30 of speed for each hexagon.")
    assert page.locator("#readout .bin").count() == 20
    page.locator("#readout .bin").nth(4).click(force=True)
    assert caption.inner_text().startswith(
        "Share of speed from 20 to 25\u00a0km/h for each hexagon."
    )
    assert value.inner_text() == "0.050"
    assert "20 to 25: 0.050 (0.025 to 0.075)" in page.locator("#readout").inner_html()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    found = axe.Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
    assert page.complaints == []


def test_a_large_page_leaves_the_histogram_to_the_tables(monkeypatch):
    """Bins would make it too large for a browser; it says where they are."""
    monkeypatch.setattr(payload, "MAX_NUMBERS", 50)
    html, _, data = page_of(hv.Labels("road", values=["A4", "A8", "B10"]), 1, SHAPES)
    assert (len(data["choices"]), data["value_columns"][0]["bins"]) == (3, None)
    assert "cells.csv has the histogram" in html
