"""Axes of matplotlib: what was drawn is what was released."""

import importlib.util

import numpy as np
import pytest

from hexveil.report.manifest_view import ManifestView
from hexveil.report.notebook.cell_picture import CellPicture, PlottedColumn, picture_of

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("matplotlib is not installed", allow_module_level=True)

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

from hexveil.report.notebook.matplotlib_drawing import DOT, HATCHES, draw_axes

RAW = PlottedColumn("mean_raw", "mean", "raw")


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
    """The colours are the numbers on the scale, and noise is pale."""
    axes = draw_axes(picture)
    cells = next(c for c in axes.collections if c.get_array() is not None)
    assert cells.get_array().tolist() == picture.value.tolist()
    assert cells.get_clim() == picture.scale
    assert (cells.get_alpha() < 1).tolist() == [grade == "noise" for grade in picture.quality]
    drawn = [path.vertices[:-1] for path in cells.get_paths()]
    assert all(np.allclose(a, b) for a, b in zip(drawn, picture.outlines, strict=True))
    assert axes.get_title() == picture.title
    axes.figure.canvas.draw()


def test_each_grade_has_its_hatching(picture):
    """A layer for every grade but the best, named in the legend."""
    axes = draw_axes(picture)
    layers = [c for c in axes.collections if isinstance(c, PolyCollection) and c.get_hatch()]
    sizes = {layer.get_hatch(): len(layer.get_paths()) for layer in layers}
    graded = [grade for grade in HATCHES if grade in picture.quality]
    assert graded
    assert sizes == {HATCHES[grade]: picture.quality.count(grade) for grade in graded}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == graded


def test_given_axes_are_drawn_on(picture):
    """Two slots stand side by side on one figure."""
    figure, (left, right) = plt.subplots(1, 2)
    assert draw_axes(picture, left) is left
    assert draw_axes(picture, right) is right
    assert plt.get_fignums() == [figure.number]


def test_labels_are_dots_with_intervals():
    """The first cell is uppermost, noise is hollow, and a dollar sign begins no formula."""
    value = np.array([30.0, 20.0, 10.0])
    names = ("route $x$", "route $\\frac$", "b")
    axes = draw_axes(CellPicture(
        title="a $ b $", label="mean_raw ($)", names=names, value=value, low=value - 1,
        high=value + 2, quality=("good", "noise", "caution"), descriptions=names, scale=(0.0, 30.0),
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
