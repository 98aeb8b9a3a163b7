"""Axes of matplotlib: what was drawn is what was released; and the page of a notebook."""

import base64
import importlib.util
import re
from dataclasses import replace

import numpy as np
import pytest

from hexveil.report.manifest_view import ManifestView
from hexveil.report.notebook.cell_picture import CellPicture, picture_of

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("matplotlib is not installed", allow_module_level=True)

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

from hexveil.report.figure_style import colours_of
from hexveil.report.notebook import axes_drawing
from hexveil.report.notebook.axes_drawing import DOT, draw_axes, summarize

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
    return picture_of(city.table, ManifestView.from_manifest(city.manifest), RAW)


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
    above = np.arange(n_cells) == 0
    low, high = np.where(above, 0.0, 9.0), np.where(above, 9.0, 0.0)
    marked = replace(picture, quality=grades, low=picture.value - low, high=picture.value + high)
    axes = draw_axes(marked)
    points = {
        tuple(place)
        for layer in axes.collections
        if isinstance(layer, PathCollection)
        for place in np.round(layer.get_offsets(), 3).tolist()
    }
    middles = [(ring.max(axis=0) + ring.min(axis=0)) / 2 for ring in picture.outlines[:3]]
    assert points == {tuple(np.round(middle, 3).tolist()) for middle in middles}
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["caution", "cut off", "noise"]
    axes.figure.canvas.draw()


def test_given_axes_are_drawn_on(picture):
    """Two slots stand side by side on one figure."""
    _, (left, right) = plt.subplots(1, 2)
    begun = plt.get_fignums()
    assert draw_axes(picture, left) is left
    assert draw_axes(picture, right) is right
    assert plt.get_fignums() == begun


def test_labels_are_dots_with_intervals():
    """The first cell is uppermost, noise is hollow, and a dollar sign begins no formula."""
    value = np.array([30.0, 20.0, 10.0])
    names = ("route $x$", "route $\\frac$", "b")
    axes = draw_axes(CellPicture(
        title="a $ b $", label="mean_raw ($)", names=names, value=value, low=value - 1,
        high=value + 2, quality=("good", "noise", "caution"), scale=(0.0, 30.0),
    ))  # fmt: skip
    axes.figure.canvas.draw()
    assert [text.get_text() for text in axes.get_yticklabels()] == list(names)
    certain, noise = axes.get_lines()[-2:]
    assert (certain.get_xdata().tolist(), noise.get_xdata().tolist()) == ([30, 10], [20])
    assert to_hex(noise.get_markerfacecolor()) == "#ffffff"
    assert to_hex(certain.get_markerfacecolor()).upper() == DOT
    (bars,) = axes.containers
    ends = np.sort([segment[:, 0] for segment in bars.lines[2][0].get_segments()], axis=None)
    assert ends.tolist() == [9, 12, 19, 22, 29, 32]


def test_a_summary_needs_no_script_and_no_network(city):
    """Promise, picture and first rows; the picture stands in the page, its title is escaped."""
    begun = plt.get_fignums()
    page = summarize(city.table, ManifestView.from_manifest(city.manifest), RAW)
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
        monkeypatch.setattr(axes_drawing, name, value)
    page = summarize(city.table, ManifestView.from_manifest(city.manifest), RAW)
    assert sentence in page
    assert "<img" not in page
