"""What the page carries: slots in words, colours, and public lines cut to the map."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.report.figure_style import colours_of, palette
from hexveil.report.geography import background as module
from hexveil.report.geography.context import Layer, Shape
from hexveil.report.payload import colour_ends, slot_text, ticks
from hexveil.report.templates import format_rounded_up


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        ("2024-02-19T15:00", "2024-02-19T16:00", "19 Feb 2024, 15:00\u201316:00"),
        ("2024-02-19T18:00", "2024-02-20T00:00", "19 Feb 2024, 18:00\u201324:00"),
        ("2024-02-19T00:00", "2024-02-20T00:00", "19 Feb 2024"),
        ("2024-02-19T15:00", "", "19 Feb 2024, 15:00"),
        ("15:00", "16:00", "15:00\u201316:00"),
        ("18:00", "00:00", "18:00\u201324:00"),
        ("15:00", "", "15:00"),
    ],
)
def test_slots_are_said_for_people(start, end, text):
    """Calendar slots carry their day, pooled ones only the hours, whole days only the day."""
    assert slot_text(start, end) == text


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_marks_of_the_colour_bar_lie_on_it(low, width):
    """There are at least two marks, evenly spaced, none beyond the ends."""
    marks = ticks(low, low + width)
    slack = 1e-6 * max(width, abs(low))
    assert 2 <= len(marks) <= 6
    assert low - slack <= marks[0] < marks[-1] <= low + width + slack
    assert np.ptp(np.diff(marks)) <= slack


@given(st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=8))
def test_the_colour_scale_holds_every_value(values):
    """Each value lies within the ends, which differ; noise does not stretch it."""
    low, high = colour_ends(np.array([*values, 1e9]), [*["good"] * len(values), "noise"])
    assert high < 1e9
    assert low < high
    slack = 1e-9 * max(1.0, *map(abs, values))
    assert low <= min(values) + slack
    assert high >= max(values) - slack


def context_of(city, lines) -> list:
    context = Layer([Shape("", is_line=True, lines=lines)])
    hexagons = list(dict.fromkeys(city.table["hexagon"].to_pylist()))
    return module.draw_map(hexagons, context, geography=False)["context"]


def test_a_large_context_is_thinned(city, monkeypatch):
    """Lines with too many corners keep their shape and lose corners until they fit."""
    monkeypatch.setattr(module, "MAX_CONTEXT_BYTES", 300)
    fine = [[72.80 + 0.00001 * i, 21.17] for i in range(5_000)]
    (kept,) = context_of(city, [fine])
    assert 2 <= len(kept) // 2 < 5_000
    assert len(json.dumps([kept], separators=(",", ":"))) <= 300
    (whole,) = context_of(city, [[fine[0], fine[-1]]])
    assert kept[:2] == whole[:2]
    for axis in (0, 1):
        assert sum(kept[axis::2]) == sum(whole[axis::2])  # moves: both end in the same place


# ---- Colours that readers with any colour vision can order ----


# Machado, Oliveira and Fernandes (2009), full deficiency, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
    "without colour": np.full((3, 3), [0.2126, 0.7152, 0.0722]),
}  # fmt: skip
MODES = pytest.mark.parametrize("mode", ["light", "dark"])


def seen(colour: str, vision: str) -> np.ndarray:
    """Return CIELAB coordinates of a colour as a reader sees it."""
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    red_green_blue = np.clip(VISION[vision] @ linear, 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x, y, z = (
        v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116
        for v in to_xyz @ red_green_blue / np.array([0.9505, 1.0, 1.089])
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: str, other: str, vision: str) -> float:
    return float(np.linalg.norm(seen(one, vision) - seen(other, vision)))


@MODES
@pytest.mark.parametrize("vision", VISION)
def test_classes_of_one_grade_keep_their_order(mode, vision):
    """Lightness grows from class to class, and neighbours differ, whatever the colour vision."""
    for grade, least in (("good", 6), ("caution", 4)):
        colours = palette(mode)[grade]
        lightness = [seen(colour, vision)[0] for colour in colours]
        assert all(a + 2 < b for a, b in itertools.pairwise(lightness))
        assert all(distance(*pair, vision) > least for pair in itertools.pairwise(colours))


@MODES
@pytest.mark.parametrize("vision", ["normal", "protanopia", "deuteranopia", "tritanopia"])
def test_differences_have_a_sign_that_everyone_sees(mode, vision):
    """Lower and higher differ in colour at each size, and both from a doubtful difference."""
    colours = palette(mode)["difference"]
    for lower, higher in zip(colours[:3], colours[:2:-1], strict=True):
        assert distance(lower, higher, vision) > 15
    for colour in colours:
        assert distance(colour, palette(mode)["unsure"][0], vision) > 10


@MODES
def test_a_number_has_the_colour_of_its_class(mode):
    """Equal parts of the scale are a class each; numbers beyond it have the colour of its end."""
    colours = palette(mode)
    values = np.array([-3.0, 0.0, 2.49, 2.5, 9.99, 10.0, 99.0])
    for grade, places in (("good", [0, 0, 1, 2, 7, 7, 7]), ("caution", [0, 0, 0, 1, 3, 3, 3])):
        found = colours_of(values, [grade] * 7, (0.0, 10.0), mode)
        assert found == [colours[grade][place] for place in places]
    assert set(colours_of(values, ["noise"] * 7, (0.0, 10.0), mode)) == set(colours["noise"])


# ---- Numbers as the page writes them ----


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (math.e, "2.72"),
        (math.exp(5), "149"),
        (1.0, "1.00"),
        (22026.4657, "22,100"),
        (0.00123, "0.00123"),
        (9.999, "10.00"),
        (math.inf, "unlimited"),
    ],
)
def test_digits_are_rounded_up(number, text):
    """Three digits, never below the number."""
    assert format_rounded_up(number) == text
