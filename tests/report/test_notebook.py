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
from hexveil.report.notebook import DOT, draw_axes, picture_of, summarize
from hexveil.report.payload import colour_ends

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("matplotlib is not installed", allow_module_level=True)

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

from hexveil.report.figure_style import colours_of

RAW = "mean_raw"


@pytest.fixture(autouse=True)
def closed():
    """Draw without a screen, and close every figure."""
    mpl.use("agg")
    yield
    plt.close("all")


@pytest.fixture
def picture(city):
    """Return the map of one slot."""
    return picture_of(city.table, view_of(city), RAW)


def test_a_map_has_every_cell_in_its_colour(picture):
    """The colours are those that the page gives these numbers and grades."""
    axes = draw_axes(picture)
    cells = next(c for c in axes.collections if len(c.get_paths()) == len(picture.names))
    fills = [to_hex(colour) for colour in cells.get_facecolor()]
    assert fills == colours_of(picture.value, picture.quality, picture.scale)
    drawn = [path.vertices[:-1] for path in cells.get_paths()]
    assert all(np.allclose(a, b) for a, b in zip(drawn, picture.outlines, strict=True))
    assert axes.get_title() == picture.title
    bar = next(one for one in axes.figure.axes if one is not axes)
    assert bar.get_ylim() == picture.scale
    axes.figure.canvas.draw()


def test_each_grade_has_its_mark(picture):
    """A cross on noise, a triangle on each cell cut off, and both in the legend."""
    n_cells = len(picture.names)
    grades = ("cut off", "cut off", "noise", *("good", "caution") * n_cells)[:n_cells]
    axes = draw_axes(replace(picture, quality=grades))
    marks = [layer for layer in axes.collections if isinstance(layer, PathCollection)]
    middles = [(ring.max(axis=0) + ring.min(axis=0)) / 2 for ring in picture.outlines[:3]]
    places = np.concatenate([layer.get_offsets() for layer in marks])
    assert sorted(places.tolist()) == pytest.approx(np.array(sorted(map(list, middles))))
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
    for name, value in (changes | {"picture_of": pytest.fail}).items():
        monkeypatch.setattr(notebook, name, value)
    page = summarize(city.table, view_of(city), RAW)
    assert sentence in page
    assert "<img" not in page


def view_of(release):
    return ManifestView.from_manifest(release.manifest)


def test_slots_share_scale_and_place(city):
    """A hexagon lies in one place in each slot, colours are those of numbers, most records lead."""
    slots = sorted(set(city.table["slot"].to_pylist()))
    pictures = [picture_of(city.table, view_of(city), RAW, slot) for slot in slots]
    assert {picture.scale for picture in pictures} == {
        colour_ends(city.table["mean_raw"].to_numpy(), city.table["mean_quality"].to_pylist())
    }
    first, second = ({n: o.tolist() for n, o in zip(p.names, p.outlines, strict=True)}
                     for p in pictures[:2])  # fmt: skip
    shared = first.keys() & second.keys()
    assert len(shared) > 50
    assert all(first[name] == second[name] for name in shared)
    every = {name for picture in pictures for name in picture.names}
    assert {len(p.outlines) + len(p.others) for p in pictures} == {len(every)}
    totals = city.table.group_by("slot").aggregate([("records", "sum")]).to_pylist()
    most = max(totals, key=lambda row: row["records_sum"])["slot"]
    assert picture_of(city.table, view_of(city), RAW).title == pictures[slots.index(most)].title


def test_an_unknown_slot_and_a_column_of_text_are_refused(city):
    """A name that is nearly right is proposed; else the slots are listed."""
    with pytest.raises(
        hv.InputError, match=r"no slot '2024-02-19T7:00'; did you mean '2024-02-19T07"
    ):
        picture_of(city.table, view_of(city), RAW, "2024-02-19T7:00")
    with pytest.raises(hv.InputError, match="no slot 'noon'; it has 2024-02-19T07:00, 2024"):
        picture_of(city.table, view_of(city), RAW, "noon")
    with pytest.raises(hv.InputError, match="has no timeslots; leave slot out"):
        picture_of(city.table.drop_columns(["slot"]), view_of(city), RAW, "07:00")
    with pytest.raises(hv.InputError, match="column 'mean_quality' has none"):
        picture_of(city.table, view_of(city), "mean_quality")


def test_smoothed_numbers_have_the_interval_of_the_model(city):
    """The ends in the table belong to smoothed numbers; raw ones then have those of the bound."""
    moved = np.clip(city.table["mean_raw"].to_numpy() + 1, 0, 65)
    table = city.table.append_column("mean_smoothed", pa.array(moved))
    for name, value in (("mean_low", moved - 0.5), ("mean_high", moved + 0.5)):
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(np.clip(value, 0, 65)))
    smoothed = picture_of(table, view_of(city), "mean_smoothed")
    assert (smoothed.high - smoothed.low).max() <= 1 + 1e-9
    raw = picture_of(table, view_of(city), RAW)
    assert ((raw.low <= raw.value) & (raw.value <= raw.high)).all()
    assert (raw.high - raw.low).min() > 1


def test_labels_begin_with_the_largest_number(city):
    """Labels are dots with intervals, noise hollow; of many cells those of most records."""
    names = [f"route ${row} $" for row in range(len(city.table))]
    table = city.table.drop_columns(["hexagon", "slot", "slot_end"])
    table = table.set_column(0, "cell", [names])
    picture = picture_of(table, replace(view_of(city), label_columns=("cell",)), RAW)
    many = f"{notebook.MAX_BARS} of {len(table)} cells, those with most records"
    assert picture.title == f"Average speed ({many})"
    axes = draw_axes(picture)
    axes.figure.canvas.draw()
    drawn = [text.get_text() for text in axes.get_yticklabels()]
    shown = {row["cell"]: row for row in table.to_pylist() if row["cell"] in drawn}
    numbers = [shown[name][RAW] for name in drawn]
    assert numbers == sorted(numbers, reverse=True)
    most = sorted(table["records"].to_pylist())[-notebook.MAX_BARS :]
    assert sorted(row["records"] for row in shown.values()) == most
    certain, noise = axes.get_lines()[-2:]
    assert len(noise.get_xdata()) == sum(row["mean_quality"] == "noise" for row in shown.values())
    assert to_hex(noise.get_markerfacecolor()) == "#ffffff"
    assert to_hex(certain.get_markerfacecolor()).upper() == DOT
    (bars,) = axes.containers
    lows = [segment[0, 0] for segment in bars.lines[2][0].get_segments()]
    assert lows == pytest.approx([shown[name]["mean_low"] for name in drawn])
