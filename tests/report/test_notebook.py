"""The picture of one slot: its cells, its axes of matplotlib, and the summary in a notebook."""

import base64
import importlib.util
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.report import notebook
from hexveil.report.manifest_view import ManifestView
from hexveil.report.notebook import DOT, draw_cells, summarize
from hexveil.report.payload import colour_ends

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("matplotlib is not installed", allow_module_level=True)

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.colors import to_hex

from hexveil.report.figure_style import colours_of

RAW = "mean_raw"


@pytest.fixture(autouse=True)
def closed():
    """Draw without a screen, and close every figure."""
    mpl.use("agg")
    yield
    plt.close("all")


def view_of(release):
    return ManifestView.from_manifest(release.manifest)


def drawn(city, name=RAW, table=None, **options):
    """Return the axes of a column, its hexagons with a number, and the rows that these show."""
    table = city.table if table is None else table
    axes = draw_cells(table, view_of(city), name, **options)
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
    """The colours are those that the page gives these numbers and grades."""
    axes, cells, _, rows = drawn(city)
    grades = city.table["mean_quality"].to_pylist()
    scale = colour_ends(city.table[RAW].to_numpy(), grades)
    values, own = (np.array([row[name] for row in rows]) for name in (RAW, "mean_quality"))
    fills = [to_hex(colour) for colour in cells.get_facecolor()]
    assert fills == colours_of(values, own.tolist(), scale)
    assert axes.get_title().startswith("Average speed, 19 Feb 2024")
    bar = next(one for one in axes.figure.axes if one is not axes)
    assert bar.get_ylim() == scale
    axes.figure.canvas.draw()


def test_each_grade_has_its_mark(city):
    """A cross on noise, a triangle on each cell cut off, and both in the legend."""
    grades = ["cut off", "noise", "good", "caution"] * city.table.num_rows
    at = city.table.column_names.index("mean_quality")
    table = city.table.set_column(at, "mean_quality", [grades[: city.table.num_rows]])
    axes, cells, marks, rows = drawn(city, table=table)
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
    page = summarize(city.table, view_of(city), RAW)
    promise = city.manifest["guarantee"]["promise"]
    assert page.startswith(f"<p>{city.table.num_rows:,} cells. {promise}</p>")
    assert "<p>One of 6 slots: .plot(slot=...)</p>" in page
    image = re.search(r'<img src="data:image/png;base64,([^"]+)" alt="Average speed, ', page)
    assert base64.b64decode(image[1]).startswith(b"\x89PNG")
    assert re.findall(r"<script|<style|<link|on\w+=|https?:", page) == []
    assert plt.get_fignums() == begun


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"MAX_HEXAGONS": 90}, "Too many hexagons for a notebook: .plot() draws them."),
        ({"is_installed": lambda _: False}, "A picture needs matplotlib: pip install"),
    ],
)
def test_a_sentence_stands_in_place_of_a_picture(city, monkeypatch, changes, sentence):
    """Where there are too many hexagons, or no library to draw them; no outline is computed."""
    for name, value in (changes | {"draw_cells": pytest.fail}).items():
        monkeypatch.setattr(notebook, name, value)
    page = summarize(city.table, view_of(city), RAW)
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
        draw_cells(city.table, view_of(city), RAW, slot="2024-02-19T7:00")
    with pytest.raises(hv.InputError, match="no slot 'noon'; it has 2024-02-19T07:00, 2024"):
        draw_cells(city.table, view_of(city), RAW, slot="noon")
    with pytest.raises(hv.InputError, match="has no timeslots; leave slot out"):
        draw_cells(city.table.drop_columns(["slot"]), view_of(city), RAW, slot="07:00")
    with pytest.raises(hv.InputError, match="column 'mean_quality' has none"):
        draw_cells(city.table, view_of(city), "mean_quality")


def test_smoothed_numbers_have_the_interval_of_the_model(city):
    """The ends in the table belong to smoothed numbers; raw ones then have those of the bound."""
    moved = np.clip(city.table["mean_raw"].to_numpy() + 1, 0, 65)
    table = city.table.append_column("mean_smoothed", pa.array(moved))
    for name, value in (("mean_low", moved - 0.5), ("mean_high", moved + 0.5)):
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(np.clip(value, 0, 65)))
    table = table.drop_columns(["hexagon", "slot", "slot_end"])
    widths = {}
    for name in ("mean_smoothed", RAW):
        (bars,) = draw_cells(table, view_of(city), name).containers
        widths[name] = [np.ptp(one[:, 0]) for one in bars.lines[2][0].get_segments()]
    assert max(widths["mean_smoothed"]) <= 1 + 1e-9
    assert min(widths[RAW]) > 2


def test_labels_begin_with_the_largest_number(city):
    """Labels are dots with intervals, noise hollow; of many cells those of most records."""
    names = [f"route ${row} $" for row in range(len(city.table))]
    table = city.table.drop_columns(["hexagon", "slot", "slot_end"])
    table = table.set_column(0, "cell", [names])
    axes = draw_cells(table, replace(view_of(city), label_columns=("cell",)), RAW)
    many = f"{notebook.MAX_BARS} of {len(table)} cells, those with most records"
    assert axes.get_title() == f"Average speed ({many})"
    axes.figure.canvas.draw()
    labels = [text.get_text() for text in axes.get_yticklabels()]
    shown = {row["cell"]: row for row in table.to_pylist() if row["cell"] in labels}
    numbers = [shown[name][RAW] for name in labels]
    assert numbers == sorted(numbers, reverse=True)
    most = sorted(table["records"].to_pylist())[-notebook.MAX_BARS :]
    assert sorted(row["records"] for row in shown.values()) == most
    certain, noise = axes.get_lines()[-2:]
    assert len(noise.get_xdata()) == sum(row["mean_quality"] == "noise" for row in shown.values())
    assert to_hex(noise.get_markerfacecolor()) == "#ffffff"
    assert to_hex(certain.get_markerfacecolor()).upper() == DOT
    (bars,) = axes.containers
    lows = [segment[0, 0] for segment in bars.lines[2][0].get_segments()]
    assert lows == pytest.approx([shown[name]["mean_low"] for name in labels])
