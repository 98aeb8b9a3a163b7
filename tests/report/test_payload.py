"""What the page carries: slots in words, colours, and public lines cut to the map."""

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
    # A turn further west is the same line.
    (whole,) = context_of(city, [[[lon - 360, lat] for lon, lat in (fine[0], fine[-1])]])
    assert kept[:2] == whole[:2]
    for axis in (0, 1):
        assert sum(kept[axis::2]) == sum(whole[axis::2])  # moves: both end in the same place


# ---- Colours that readers with any colour vision can order ----


MODES = pytest.mark.parametrize("mode", ["light", "dark"])


def parts(colour: str) -> np.ndarray:
    """Return red, green and blue of a colour, from 0 to 1."""
    return np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255


def lightness(colour: str) -> float:
    """Return the lightness of CIELAB, which every colour vision and grey paper keeps."""
    one = parts(colour)
    linear = np.where(one <= 0.04045, one / 12.92, ((one + 0.055) / 1.055) ** 2.4)
    return float(116 * (linear @ [0.2126, 0.7152, 0.0722]) ** (1 / 3) - 16)


@MODES
def test_classes_of_one_grade_keep_their_order(mode):
    """Lightness grows from class to class, so that it is seen without colours too."""
    for grade in ("good", "caution"):
        steps = np.diff([lightness(colour) for colour in palette(mode)[grade]])
        assert (steps > 4).all() if grade == "good" else (steps > 2).all()


@MODES
def test_differences_have_a_sign_that_everyone_sees(mode):
    """Lower is blue and higher orange, which no usual colour vision confuses; doubt is grey."""
    colours = palette(mode)["difference"]
    signs = [parts(colour)[2] - parts(colour)[0] for colour in colours]
    assert min(signs[:3]) > 0.1
    assert max(signs[3:]) < -0.1
    assert np.ptp(parts(palette(mode)["unsure"][0])) < 0.1


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
        (9.999, "10.0"),
        (math.inf, "unlimited"),
    ],
)
def test_digits_are_rounded_up(number, text):
    """Three digits, never below the number."""
    assert format_rounded_up(number) == text
