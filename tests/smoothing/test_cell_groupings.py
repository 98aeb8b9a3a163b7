"""Random effects: how cells of places, times and labels are grouped, and correlated."""

import h3
import numpy as np
import pytest

from hexveil.base import hexagons
from hexveil.smoothing import cell_groupings as module
from hexveil.smoothing.cell_groupings import (
    RandomEffect,
    correlate_across_edges,
    correlate_along_axis,
    drop_uninformative,
    group_hexagons,
    group_labels,
)

HOUR = 3_600


def a_city(rings, resolution=7):
    """Return hexagons around a place."""
    disk = h3.grid_disk(h3.latlng_to_cell(52.2, 21.0, resolution), rings)
    return np.array([h3.str_to_int(i) for i in sorted(disk)], dtype=np.uint64)


def by_name(groupings):
    """Return groupings as a mapping by name, which must be distinct."""
    found = {grouping.name: grouping for grouping in groupings}
    assert len(found) == len(groupings)
    return found


def test_hexagons_in_slots():
    """Cells are grouped by hexagon, two parents, slot, hour, parent in a slot, and smoothly."""
    places = a_city(3)
    slots = np.array([7, 8, 31, 32]) * HOUR
    hexagon, slot = np.repeat(places, 4), np.tile(slots, places.size)
    found = by_name(group_hexagons(hexagon, slot))
    assert set(found) == {
        "same hexagon", "same hexagon at resolution 6", "same hexagon at resolution 5", "same slot",
        "same hour of day", "same hexagon at resolution 6, same slot", "near in time",
        "neighbouring hexagons",
    }  # fmt: skip
    assert np.array_equal(found["same hour of day"].label, slot // HOUR % 24)
    parents = hexagons.parents(hexagon, 6)
    together = found["same hexagon at resolution 6"].label
    assert np.array_equal(together[:, None] == together, parents[:, None] == parents)
    both = found["same hexagon at resolution 6, same slot"].label
    alike = (parents[:, None] == parents) & (slot[:, None] == slot)
    assert np.array_equal(both[:, None] == both, alike)


def test_coarsest_hexagons_have_no_parents():
    """Hexagons of resolution 0 and 1 are grouped as far as there is something above."""
    whole = np.array([h3.str_to_int(i) for i in h3.get_res0_cells()], dtype=np.uint64)
    assert set(by_name(group_hexagons(whole))) == {"neighbouring hexagons"}
    names = set(by_name(group_hexagons(a_city(3, 1))))
    assert names == {"same hexagon at resolution 0", "neighbouring hexagons"}


def test_neighbours_are_those_of_the_reference():
    """Pairs that share an edge are H3's, each once, pentagons and missing cells among them."""
    places = np.concatenate([a_city(2, 5), a_city(1, 5)])
    pentagon = h3.get_pentagons(5)[0]
    around = [h3.str_to_int(i) for i in h3.grid_disk(pentagon, 2)]
    places = np.unique(np.concatenate([places, np.array(around, dtype=np.uint64)]))[::2]
    text = [h3.int_to_str(int(i)) for i in places]
    expected = {
        (min(int(a), int(b)), max(int(a), int(b)))
        for a, one in zip(places, text, strict=True)
        for b, other in zip(places, text, strict=True)
        if a != b and h3.are_neighbor_cells(one, other)
    }
    found = [tuple(int(i) for i in pair) for pair in hexagons.neighbours(places)]
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert hexagons.neighbours(places[:0]).shape == (0, 2)


def test_labels():
    """Columns group the cells; numbers are an axis too, hours a circle."""
    airport, hour = ["JFK"] * 20 + ["LGA"] * 20, [f"{h:02}" for h in range(4, 24)] * 2
    found = by_name(group_labels({"origin": airport, "Hour": hour}))
    assert set(found) == {"same origin", "same Hour", "near in Hour"}
    near = found["near in Hour"].correlation
    assert near[0, 19] == pytest.approx(np.exp(-5 / 2))


def test_three_columns_are_paired():
    """Three columns have groupings by pair too, and numbers that are no hours are a line."""
    cells = [(a, b, c) for a in "xy" for b in "uvw" for c in ("1", "2", "50")]
    one, two, three = (list(column) for column in zip(*cells, strict=True))
    found = by_name(group_labels({"line": one, "stop": two, "zone": three}))
    assert {"same line and stop", "same line and zone", "same stop and zone"} <= set(found)
    assert found["near in zone"].correlation[0, 2] < found["near in zone"].correlation[0, 1]


def test_groupings_that_say_nothing_are_left_out():
    """One label for all, a label per cell, and a split seen before say nothing."""
    cell = np.arange(6)
    good = RandomEffect("good", cell // 2)
    again = RandomEffect("again", 5 - cell // 2)
    found = drop_uninformative(
        [RandomEffect("one", 0 * cell), RandomEffect("each", cell), good, again]
    )
    assert found == (good,)


def test_axis():
    """Correlation falls by e over the reach, around a circle the shorter way."""
    line = correlate_along_axis("hour", [23, 0, 1, 23], 2.0)
    assert line.label.tolist() == [2, 0, 1, 2]
    assert line.correlation[0, 1] == pytest.approx(np.exp(-0.5))
    assert line.correlation[0, 2] == pytest.approx(np.exp(-11.5))
    circle = correlate_along_axis("hour", [23, 0, 1, 23], 2.0, 24.0)
    assert circle.correlation[0, 2] == pytest.approx(np.exp(-0.5))
    assert (
        np.linalg.eigvalsh(correlate_along_axis("day", np.arange(24), 5.0, 24.0).correlation).min()
        > 0
    )


def test_edges():
    """Neighbours are alike, farther cells less, cells without edges not at all."""
    label = np.array([10, 20, 30, 40, 10])
    done = correlate_across_edges("near", label, [(10, 20), (30, 20), (20, 10), (10, 10), (10, 99)])
    near = done.correlation
    assert done.label.tolist() == [0, 1, 2, 3, 0]
    assert np.diag(near) == pytest.approx(np.ones(4))
    assert near[0, 1] == near[1, 0] > near[0, 2] > 0
    assert np.all(near[3, :3] == 0)


def test_what_would_be_too_large(monkeypatch):
    """Smooth groupings of too many labels, or without an edge, are not made."""
    assert correlate_across_edges("near", [1, 2], np.empty((0, 2), int)) is None
    monkeypatch.setattr(module, "MAX_CORRELATED_LABELS", 3)
    assert correlate_along_axis("axis", [1, 2, 3, 4], 1.0) is None
    assert correlate_across_edges("near", [1, 2, 3, 4], [(1, 2)]) is None
