"""What the page carries: slots in words, colours, and public lines cut to the map."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.report import background as module
from hexveil.report.payload import colour_ends, draw_map, opening_slot, slot_text, ticks
from hexveil.report.shown_column import ShownColumn


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


def test_noise_does_not_stretch_the_colour_scale():
    """Colours run over what can be read; only if all is noise, over that."""
    values, grades = np.array([20.0, 30.0, 65.0]), ["good", "caution", "noise"]
    assert colour_ends(values, grades) == (20.0, 30.0)
    assert colour_ends(values[2:], grades[2:])[1] > 60


@given(st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=8))
def test_the_colour_scale_holds_every_value(values):
    """Each value lies within the ends, which differ."""
    low, high = colour_ends(np.array(values), ["good"] * len(values))
    assert low < high
    slack = 1e-9 * max(1.0, *map(abs, values))
    assert low <= min(values) + slack
    assert high >= max(values) - slack


def test_values_that_are_no_number_are_left_blank(city):
    """A value that is not a number becomes null, which the page shows as a dash."""
    index = city.table.column_names.index("mean_raw")
    table = city.table.slice(0, 2).set_column(index, "mean_raw", [[float("nan"), 1.25]])
    shown = ShownColumn.of(table, city.manifest, table["cell"].to_pylist())
    data = shown.describe(shown.views[0])
    assert data["columns"]["value"] == [None, 1.2]
    assert colour_ends(np.array([np.nan]), ["good"]) == (0.0, 1.0)


def context_of(city, lines) -> list:
    context = {"type": "MultiLineString", "coordinates": lines}
    hexagons = list(dict.fromkeys(city.table["hexagon"].to_pylist()))
    return draw_map(hexagons, context, geography=False)["context"]


def test_lines_far_away_are_cut_off(city):
    """Of a line through the map and on to another country only the near stretch is kept."""
    near = [[72.80 + 0.001 * i, 21.17] for i in range(60)]
    far = [[73.9 + 0.1 * i, 22.0 + 0.1 * i] for i in range(50)]
    (kept,) = context_of(city, [near + far])
    assert 60 <= len(kept) // 2 <= 62
    assert context_of(city, [far]) == []


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


def test_the_page_opens_where_most_is_good():
    """The slot with the most good cells wins; without a good one, that with the least noise."""
    slots = [0, 0, 0, 1, 1, 1, 2, 2]
    assert opening_slot(slots, [1, 1, 1, 0, 3, 3, 0, 0]) == 2
    assert opening_slot(slots, [3, 1, 1, 1, 3, 3, 3, 3]) == 0
    assert opening_slot(None, [3, 1]) == 0
