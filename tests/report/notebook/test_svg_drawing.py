"""Inline SVG: well-formed, without script, in the colours of the page."""

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from hexveil.report.manifest_view import ManifestView
from hexveil.report.notebook import release_summary, svg_drawing
from hexveil.report.notebook.cell_picture import CellPicture, PlottedColumn, picture_of
from hexveil.report.notebook.release_summary import summarize
from hexveil.report.notebook.svg_drawing import draw_svg
from hexveil.report.palette import colours_of

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
    """A group per cell: its description for the pointer, its colour, the mark of its grade."""
    picture = picture_of(city.table, ManifestView.from_manifest(city.manifest), RAW)
    grades = ("cut off", *picture.quality[1:])
    picture = replace(picture, quality=grades)
    root = ET.fromstring(draw_svg(picture))  # noqa: S314  our own text
    groups = root.findall(f"{SVG}g")
    assert [group.find(f"{SVG}title").text for group in groups] == list(picture.descriptions)
    fills = [group.find(f"{SVG}polygon").get("fill") for group in groups]
    assert fills == colours_of(picture.value, grades, picture.scale)
    marked = [group.find(f"{SVG}path") is not None for group in groups]
    assert marked == [grade in ("cut off", "noise") for grade in grades]
    assert len(root.findall(f"{SVG}polygon")) == len(picture.others)
    words = [text.text for text in root.findall(f"{SVG}text")]
    assert (
        words[-2:] == [grade for grade in ("caution", "cut off", "noise") if grade in grades][-2:]
    )


@pytest.mark.parametrize(("low", "high", "points_up"), [(0, 9, True), (9, 0, False)])
def test_a_cell_cut_off_points_to_where_its_true_number_may_lie(city, low, high, points_up):
    """The tip of its triangle is up where the interval is longer above the number."""
    picture = picture_of(city.table, ManifestView.from_manifest(city.manifest), RAW)
    picture = replace(
        picture,
        quality=("cut off",) * len(picture.names),
        low=picture.value - low,
        high=picture.value + high,
    )
    root = ET.fromstring(draw_svg(picture))  # noqa: S314  our own text
    line = root.find(f"{SVG}g/{SVG}path").get("d")
    heights = [float(number) for number in re.findall(r" (-?[\d.]+)", line)]
    assert (heights[2] < heights[0]) == points_up


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
