import h3
import numpy as np
import pytest

import hexveil as hv
from hexveil.base import hexagons
from hexveil.smoothing import group_hexagons, group_labels

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
        "same hexagon",
        "same hexagon at resolution 6",
        "same hexagon at resolution 5",
        "same slot",
        "same hour of day",
        "same hexagon at resolution 6, same slot",
        "near in time",
        "neighbouring hexagons",
    }
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


@pytest.mark.parametrize(
    ("hexagon", "slot", "said"),
    [
        ([5, 6], None, "must be one H3 cell index per cell"),
        (np.concatenate([a_city(0, 7), a_city(0, 6)]), None, "must be of one resolution"),
        (a_city(1), [0, 1], "slot must be one start per cell: 7 cells, 2"),
        ([0x87FFFFFFFFFFFFF], None, "no H3 cell"),
    ],
)
def test_bad_hexagons_are_refused(hexagon, slot, said):
    """Indexes that are no hexagons of one resolution are refused in a sentence."""
    with pytest.raises(hv.InputError, match=said):
        group_hexagons(hexagon, slot)
