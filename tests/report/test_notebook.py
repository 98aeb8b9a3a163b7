"""The picture of one slot: its cells, its axes of matplotlib, and the summary in a notebook."""

import base64
import importlib.util
import re

import h3.api.basic_int
import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from report.conftest import hexagon_table
from report.pages import data_of, page_of, restated, with_column

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("matplotlib is not installed", allow_module_level=True)

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

RAW = "mean_raw"


@pytest.fixture(autouse=True)
def closed():
    """Draw without a screen, and close every figure."""
    mpl.use("agg")
    yield
    plt.close("all")


def drawn(release, name=RAW, **options):
    """Return the axes of a column, its hexagons with a number, and the rows that these show."""
    table = release.table
    axes = release.plot(name, **options)
    _, cells, *marks = axes.collections
    slot = (
        options.get("slot")
        or max(
            table.group_by("slot").aggregate([("records", "sum")]).to_pylist(),
            key=lambda row: row["records_sum"],
        )["slot"]
    )
    rows = [row for row in table.to_pylist() if row["slot"] == slot]
    assert len(cells.get_paths()) == len(rows)
    return axes, cells, marks, rows


def test_a_map_has_every_cell_in_its_colour(city):
    """Equal parts of the page's scale are a class each, of the page's colours for a grade."""
    grades = ["cut off", *city.table["mean_quality"].to_pylist()[1:]]
    release = restated(city, with_column(city.table, "mean_quality", grades))
    axes, cells, _, rows = drawn(release)
    page = data_of(page_of(release))
    low, high = page["choices"][0]["colour"].values()
    sure = [row[RAW] for row in release if row["mean_quality"] != "noise"]
    assert low <= min(sure) < max(sure) <= high
    # Noise may lie outside, and has one colour.
    expected = []
    for row in rows:
        colours = page["palette"]["light"][row["mean_quality"]]
        part = int(np.floor((row[RAW] - low) / (high - low) * len(colours)))
        expected.append(colours[np.clip(part, 0, len(colours) - 1)])
    assert [to_hex(colour) for colour in cells.get_facecolor()] == [c.lower() for c in expected]
    assert {row["mean_quality"] for row in rows} >= {"good", "caution", "noise"}
    assert axes.get_title().startswith("Average speed, 19 Feb 2024")
    bar = next(one for one in axes.figure.axes if one is not axes)
    assert bar.get_ylim() == (low, high)
    axes.figure.canvas.draw()


def test_each_grade_has_its_mark(city):
    """A cross on noise, a triangle on each cell cut off, and both in the legend."""
    grades = ["cut off", "noise", "good", "caution"] * city.table.num_rows
    table = with_column(city.table, "mean_quality", grades[: city.table.num_rows])
    axes, cells, marks, rows = drawn(restated(city, table))
    own = [row["mean_quality"] for row in rows]
    boxes = [path.get_extents() for path in cells.get_paths()]
    middles = [[(b.x0 + b.x1) / 2, (b.y0 + b.y1) / 2] for b in boxes]
    marked = [one for one, grade in zip(middles, own, strict=True) if grade in ("cut off", "noise")]
    places = np.concatenate([layer.get_offsets() for layer in marks])
    assert sorted(places.tolist()) == pytest.approx(np.array(sorted(marked)))
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["caution", "cut off", "noise"]
    axes.figure.canvas.draw()


def test_a_summary_needs_no_script_and_no_network(city):
    """Promise, picture and first rows; the picture stands in the page, its title is escaped."""
    begun = plt.get_fignums()
    page = city._repr_html_()
    promise = city.manifest["guarantee"]["promise"]
    assert page.startswith(f"<p>{city.table.num_rows:,} cells. {promise}</p>")
    assert "<p>One of 6 slots: .plot(slot=...)</p>" in page
    image = re.search(r'<img src="data:image/png;base64,([^"]+)" alt="Average speed, ', page)
    assert base64.b64decode(image[1]).startswith(b"\x89PNG")
    assert re.findall(r"<script|<style|<link|on\w+=|https?:", page) == []
    assert plt.get_fignums() == begun


@pytest.mark.parametrize(
    ("radius", "sentence"),
    [
        (26, "Too many hexagons for a notebook: .plot() draws them."),
        (1, "A picture needs matplotlib: pip install"),
    ],
)
def test_a_sentence_stands_in_place_of_a_picture(city, monkeypatch, radius, sentence):
    """Where there are more than 2,000 hexagons, or no library to draw them; no outline is made."""
    names = h3.grid_disk(h3.latlng_to_cell(21.17, 72.83, 8), radius)
    release = restated(city, hexagon_table(names, [], [], missing=0.0))
    find = importlib.util.find_spec
    if radius == 1:
        hidden = lambda name, *_: None if name == "matplotlib" else find(name)  # noqa: E731
        monkeypatch.setattr(importlib.util, "find_spec", hidden)
    for place, name in ((Figure, "savefig"), (h3.api.basic_int, "cell_to_boundary")):
        monkeypatch.setattr(place, name, pytest.fail)
    page = release._repr_html_()
    assert sentence in page
    assert "<img" not in page


def test_slots_share_scale_and_place(city):
    """A hexagon lies in one place in each slot, and colours are those of numbers."""
    places, scales, counts = {}, set(), set()
    for slot in sorted(set(city.table["slot"].to_pylist())):
        axes, cells, _, rows = drawn(city, slot=slot)
        scales.add(next(one for one in axes.figure.axes if one is not axes).get_ylim())
        counts.add(sum(len(layer.get_paths()) for layer in axes.collections[:2]))
        for row, path in zip(rows, cells.get_paths(), strict=True):
            places.setdefault(row["hexagon"], set()).add(path.vertices.tobytes())
    assert len(scales) == 1
    assert counts == {len(places)}
    assert {len(own) for own in places.values()} == {1}


def test_an_unknown_slot_and_a_column_of_text_are_refused(city):
    """A name that is nearly right is proposed; else the slots are listed."""
    with pytest.raises(
        hv.InputError, match=r"no slot '2024-02-19T7:00'; did you mean '2024-02-19T07"
    ):
        city.plot(RAW, slot="2024-02-19T7:00")
    with pytest.raises(hv.InputError, match="no slot 'noon'; it has 2024-02-19T07:00, 2024"):
        city.plot(RAW, slot="noon")
    with pytest.raises(hv.InputError, match="has no timeslots; leave slot out"):
        restated(city, city.table.drop_columns(["slot"])).plot(RAW, slot="07:00")
    with pytest.raises(hv.InputError, match="column 'mean_quality' has none"):
        city.plot("mean_quality")


def test_smoothed_numbers_have_the_interval_of_the_model(city):
    """The ends in the table belong to smoothed numbers; raw ones then have those of the bound."""
    moved = np.clip(city.table["mean_raw"].to_numpy() + 1, 0, 65)
    table = city.table.append_column("mean_smoothed", pa.array(moved))
    for name, value in (("mean_low", moved - 0.5), ("mean_high", moved + 0.5)):
        table = with_column(table, name, np.clip(value, 0, 65))
    release = restated(city, table.drop_columns(["hexagon", "slot", "slot_end"]))
    widths = {}
    for name in ("mean_smoothed", RAW):
        (bars,) = release.plot(name).containers
        widths[name] = [np.ptp(one[:, 0]) for one in bars.lines[2][0].get_segments()]
    assert max(widths["mean_smoothed"]) <= 1 + 1e-9
    assert min(widths[RAW]) > 2


def test_labels_begin_with_the_largest_number(city):
    """Labels are dots with intervals, noise hollow; of many cells those of most records."""
    names = [f"route ${row} $" for row in range(len(city.table))]
    table = city.table.drop_columns(["hexagon", "slot", "slot_end"])
    table = with_column(table, "cell", names)
    axes = restated(city, table, grid={"kind": "labels", "columns": ["cell"]}).plot(RAW)
    many = f"40 of {len(table)} cells, those with most records"
    assert axes.get_title() == f"Average speed ({many})"
    axes.figure.canvas.draw()
    labels = [text.get_text() for text in axes.get_yticklabels()]
    shown = {row["cell"]: row for row in table.to_pylist() if row["cell"] in labels}
    numbers = [shown[name][RAW] for name in labels]
    assert numbers == sorted(numbers, reverse=True)
    most = sorted(table["records"].to_pylist())[-40:]
    assert sorted(row["records"] for row in shown.values()) == most
    certain, noise = axes.get_lines()[-2:]
    assert len(noise.get_xdata()) == sum(row["mean_quality"] == "noise" for row in shown.values())
    assert to_hex(noise.get_markerfacecolor()) == "#ffffff"
    assert to_hex(certain.get_markerfacecolor()) == "#0072b2"
    (bars,) = axes.containers
    lows = [segment[0, 0] for segment in bars.lines[2][0].get_segments()]
    assert lows == pytest.approx([shown[name]["mean_low"] for name in labels])
