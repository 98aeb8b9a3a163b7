"""What the page carries: slots in words, colours, and public lines cut to the map."""

import json
import math
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from report.pages import data_of, page_of, restated, with_column, write_layer


@pytest.mark.parametrize(
    "slots",
    [
        {
            ("2024-02-19T00:00", "2024-02-20T00:00"): "19 Feb 2024",
            ("2024-02-19T14:00", ""): "19 Feb 2024, 14:00",
            ("2024-02-19T15:00", "2024-02-19T16:00"): "19 Feb 2024, 15:00\u201316:00",
            ("2024-02-19T18:00", "2024-02-20T00:00"): "19 Feb 2024, 18:00\u201324:00",
        },
        {
            ("14:00", ""): "14:00",
            ("15:00", "16:00"): "15:00\u201316:00",
            ("18:00", "00:00"): "18:00\u201324:00",
        },
    ],
)
def test_slots_are_said_for_people(wards, slots):
    """Calendar slots carry their day, pooled ones only the hours, whole days only the day."""
    table = wards.table.slice(0, len(slots))
    for name, column in zip(("slot", "slot_end"), zip(*slots, strict=True), strict=True):
        table = table.append_column(name, pa.array(column))
    assert data_of(page_of(restated(wards, table)))["slots"] == [*slots.values()]


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=8), st.floats(1e-3, 1e6), st.floats(-1e6, 1e6)
)
@examples(60)
def test_the_colour_scale_and_its_marks_hold_every_value(wards, shares, width, middle):
    """Noise does not stretch it; it has two marks at least, evenly spaced, none beyond an end."""
    numbers = middle + np.array(shares) * width
    table = wards.table.slice(0, len(shares) + 1)
    table = with_column(table, "mean_raw", [*numbers, 1e9])
    table = with_column(table, "mean_quality", [*["good"] * len(shares), "noise"])
    (choice,) = data_of(page_of(restated(wards, table)))["choices"]
    low, high = choice["colour"].values()
    slack = 1e-9 * max(1.0, *map(abs, numbers))
    assert low < high < 1e9
    assert low <= numbers.min() + slack
    assert high >= numbers.max() - slack
    places = [place for place, _ in choice["marks"]]
    assert 2 <= len(places) <= 7
    assert 0 <= places[0] < places[-1] <= 100
    assert np.ptp(np.diff(places)) <= 0.02 + 1e-9


def context_of(city, folder, line) -> list:
    file = write_layer(folder, ({}, "LineString", line))
    return data_of(page_of(city, context=file, hide_geography=True))["map"]["context"]


def test_a_large_context_is_thinned(city, tmp_path):
    """Lines with too many corners keep their shape and lose corners until they fit."""
    fine = [[72.80 + 1e-6 * i, 21.17 + 2e-6 * (i % 2)] for i in range(60_000)]
    (kept,) = context_of(city, tmp_path, fine)
    assert 2 <= len(kept) // 2 < 60_000
    assert len(json.dumps([kept], separators=(",", ":"))) <= 150_000
    # A turn further west is the same line.
    (whole,) = context_of(city, tmp_path, [[lon - 360, lat] for lon, lat in (fine[0], fine[-1])])
    assert kept[:2] == whole[:2]
    for axis in (0, 1):
        assert sum(kept[axis::2]) == sum(whole[axis::2])  # moves: both end in the same place


# ---- Colours that readers with any colour vision can order ----


@pytest.fixture(scope="module", params=["light", "dark"])
def palette(request, city):
    """Return the colours of a page on a light or a dark ground."""
    return data_of(page_of(city))["palette"][request.param]


def parts(colour: str) -> np.ndarray:
    """Return red, green and blue of a colour, from 0 to 1."""
    return np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255


def lightness(colour: str) -> float:
    """Return the lightness of CIELAB, which every colour vision and grey paper keeps."""
    one = parts(colour)
    linear = np.where(one <= 0.04045, one / 12.92, ((one + 0.055) / 1.055) ** 2.4)
    return float(116 * (linear @ [0.2126, 0.7152, 0.0722]) ** (1 / 3) - 16)


def test_classes_of_one_grade_keep_their_order(palette):
    """Lightness grows from class to class, so that it is seen without colours too."""
    for grade, number in (("good", 8), ("caution", 4), ("cut off", 4)):
        steps = np.diff([lightness(colour) for colour in palette[grade]])
        assert len(steps) == number - 1
        assert (steps > 4).all() if grade == "good" else (steps > 2).all()
    assert len(palette["noise"]) == 1


def test_differences_have_a_sign_that_everyone_sees(palette):
    """Lower is blue and higher orange, which no usual colour vision confuses; doubt is grey."""
    signs = [parts(colour)[2] - parts(colour)[0] for colour in palette["difference"]]
    assert min(signs[:3]) > 0.1
    assert max(signs[3:]) < -0.1
    assert palette["lower"] + palette["higher"] == palette["difference"]
    assert np.ptp(parts(palette["unsure"][0])) < 0.1


# ---- Numbers as the page writes them ----


def test_digits_are_rounded_up(city):
    """Three digits of a loss, never below the number."""
    losses = [math.e, 0.001234, 9.9999, 22026.4657, 1.0]
    names = ("max", "p99", "p90", "median", "mean")
    stated = dict(zip(names, losses, strict=True)) | {"units": 30, "at_zero": 0}
    html = page_of(restated(city, own={"losses": stated}, losses=stated))
    (row,) = re.findall(r"<dt>Loss per privacy unit</dt><dd>(.*?)</dd>", html, re.DOTALL)
    assert re.findall(r"(?:largest|at most|average) ([\d.,]*\d)", row) == [
        "2.72", "0.00124", "10.0", "22,100", "1.00",
    ]  # fmt: skip
