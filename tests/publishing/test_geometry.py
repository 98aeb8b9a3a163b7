"""The geometry of released cells: closed rings that are the hexagons' outlines."""

import struct
from itertools import pairwise

import numpy as np

from hexveil.base import hexagons as h3_door
from hexveil.publishing.estimates.places import geojson, with_geometry
from hexveil.publishing.estimates.table import build_table
from publishing.setting import dataset_of, hexagons, labels, plan_of


def table_of(cells):
    """Return a released table of one user in each of three cells."""
    dataset = dataset_of([[1, 1, 1]], cells=cells)
    return build_table(plan_of(dataset, [1, 1, 1]), dataset.public, {"mean": np.arange(3.0)})


def ring_of(wkb):
    """Return the corners of a well-known-binary polygon of one ring, read by hand."""
    order, kind, rings, corners = struct.unpack_from("<BIII", wkb)
    assert (order, kind, rings) == (1, 3, 1)
    assert len(wkb) == 13 + 16 * corners
    flat = struct.unpack_from(f"<{2 * corners}d", wkb, 13)
    return list(zip(flat[::2], flat[1::2], strict=True))


def area(ring):
    """Return the signed area of a closed ring: positive if counter-clockwise."""
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in pairwise(ring)) / 2


def test_geoparquet_rings_are_the_outlines():
    """Each WKB polygon is the closed outline of its hexagon, counter-clockwise."""
    table = with_geometry(table_of(hexagons(3)))
    for name, wkb in zip(table["hexagon"].to_pylist(), table["geometry"].to_pylist(), strict=True):
        outline = h3_door.outline(int(name, 16))
        assert ring_of(wkb) == [*outline, outline[0]]
        assert area(ring_of(wkb)) > 0


def test_labels_have_no_geometry():
    """A table of labels stays as it is and has no GeoJSON."""
    table = table_of(labels(3))
    assert with_geometry(table) is table
    assert geojson(table) is None
