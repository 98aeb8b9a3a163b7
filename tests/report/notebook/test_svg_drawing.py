"""Inline SVG: well-formed, without script, in the colours of the page."""

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from hexveil.report.manifest_view import ManifestView
from hexveil.report.notebook import release_summary, svg_drawing
from hexveil.report.notebook.cell_picture import CellPicture, PlottedColumn, picture_of
from hexveil.report.notebook.release_summary import summarize
from hexveil.report.notebook.svg_drawing import colour, draw_svg
from hexveil.report.palette import ANCHORS

SVG = "{http://www.w3.org/2000/svg}"
RAW = PlottedColumn("mean_raw", "mean", "raw")
HOSTILE = "</title><script>alert('x')</script>"


def bars(names, **changes):
    """Return a picture of labels."""
    n_cells = len(names)
    value = np.arange(n_cells, dtype=float)
    return CellPicture(**{
        "title": "Average speed", "label": "mean_raw (km/h)", "names": tuple(names),
        "value": value, "low": value - 1, "high": value + 2,
        "quality": ("good",) * n_cells, "descriptions": tuple(names), "scale": (0.0, 5.0),
    } | changes)  # fmt: skip


def pixels(polygon):
    """Return the corners of a polygon."""
    return [tuple(map(float, pair.split(","))) for pair in polygon.get("points").split()]


def test_a_map_has_every_cell_in_its_colour(city):
    """A group per cell: its description for the pointer, its colour, its hatching."""
    picture = picture_of(city.table, ManifestView.from_manifest(city.manifest), RAW)
    root = ET.fromstring(draw_svg(picture))  # noqa: S314  our own text
    groups = root.findall(f"{SVG}g")
    assert [group.find(f"{SVG}title").text for group in groups] == list(picture.descriptions)
    for group, value, quality in zip(groups, picture.value, picture.quality, strict=True):
        shapes = group.findall(f"{SVG}polygon")
        assert shapes[0].get("fill") == colour(value, picture.scale)
        assert (shapes[0].get("fill-opacity") is not None) == (quality == "noise")
        hatched = [shape.get("fill") for shape in shapes[1:]]
        assert hatched == ([] if quality == "good" else [f"url(#hexveil-{quality})"])
    assert len(root.findall(f"{SVG}polygon")) == len(picture.others)


def test_a_map_fits_into_its_frame_and_north_is_up(city):
    """All corners lie within the picture; a northern hexagon is higher than a southern one."""
    picture = picture_of(city.table, ManifestView.from_manifest(city.manifest), RAW)
    root = ET.fromstring(draw_svg(picture))  # noqa: S314  our own text
    _, _, width, height = map(float, root.get("viewBox").split())
    corners = [pixels(group.find(f"{SVG}polygon")) for group in root.findall(f"{SVG}g")]
    flat = np.array([corner for ring in corners for corner in ring])
    assert (flat >= 0).all()
    assert (flat <= [width, height]).all()
    north = np.array([outline[:, 1].mean() for outline in picture.outlines])
    down = np.array([np.mean([y for _, y in ring]) for ring in corners])
    assert np.corrcoef(north, down)[0, 1] == pytest.approx(-1)


def test_colours_are_those_of_the_page():
    """Numbers beyond the scale have the colour of its end."""
    assert colour(-9, (0, 10)) == colour(0, (0, 10)) == ANCHORS[0]
    assert colour(99, (0, 10)) == colour(10, (0, 10)) == ANCHORS[-1]


def test_intervals_of_labels_lie_around_their_dots():
    """A row per cell: a line from end to end, and a dot at the number; noise is hollow."""
    root = ET.fromstring(draw_svg(bars(["a", "b"], quality=("good", "noise"))))  # noqa: S314
    groups = root.findall(f"{SVG}g")
    lines, dots = ([group.find(f"{SVG}{kind}") for group in groups] for kind in ("line", "circle"))
    scale = float(dots[1].get("cx")) - float(dots[0].get("cx"))
    for line, dot in zip(lines, dots, strict=True):
        assert float(dot.get("cx")) - float(line.get("x1")) == pytest.approx(scale, abs=0.2)
        assert float(line.get("x2")) - float(dot.get("cx")) == pytest.approx(2 * scale, abs=0.2)
    assert [dot.get("fill") for dot in dots] == [svg_drawing.DOT, "#ffffff"]


def test_one_constant_is_drawn():
    """A single cell without an interval has an axis all the same."""
    zero = np.zeros(1)
    assert "circle" in draw_svg(bars(["a"], value=zero, low=zero, high=zero))


@pytest.mark.parametrize("part", ["title", "label"])
def test_no_text_becomes_markup(part):
    """Names, titles and units are escaped, and a long name is shortened."""
    hostile = bars([HOSTILE * 3, "b"], **{part: HOSTILE})
    text = draw_svg(hostile)
    assert "<script" not in text
    root = ET.fromstring(text)  # noqa: S314  our own text
    assert HOSTILE in "".join(root.itertext()) + root.get("aria-label")


def test_a_summary_needs_no_script_and_no_network(city):
    """Promise, picture and first rows; no address but the name of SVG."""
    page = summarize(city.table, ManifestView.from_manifest(city.manifest), RAW)
    promise = city.manifest["guarantee"]["promise"]
    assert page.startswith(f"<p>{city.table.num_rows:,} cells. {promise}</p>")
    assert "(one of 6 slots: .plot(slot=...))" in page
    assert re.findall(r"<script|<style|<link|<img|on\w+=", page) == []
    assert set(re.findall(r"https?:[^\"]+", page)) == {"http://www.w3.org/2000/svg"}


def test_a_map_too_large_for_a_notebook_is_left_to_plot(city, monkeypatch):
    """A sentence stands in its place, and no outline is computed."""
    view = ManifestView.from_manifest(city.manifest)
    monkeypatch.setattr(release_summary, "MAX_HEXAGONS", 91)
    assert "<svg" in release_summary.summarize(city.table, view, RAW)
    monkeypatch.setattr(release_summary, "MAX_HEXAGONS", 90)
    monkeypatch.setattr(release_summary, "picture_of", pytest.fail)
    page = release_summary.summarize(city.table, view, RAW)
    assert "Too many hexagons for a notebook: .plot() draws them." in page
    assert "<svg" not in page
