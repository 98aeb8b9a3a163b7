"""Streets and routes: one piece, of the right size, and routes that follow the streets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from examples import examples
from hexveil.simulation.city import fleet, streets


@pytest.fixture(scope="module")
def laid():
    """Return the streets of a city of 300 buses."""
    return streets.lay(300, np.random.default_rng(5))


@pytest.fixture(scope="module")
def network(laid):
    """Return its routes."""
    return streets.draw(laid, 300, np.random.default_rng(6))


def test_streets_are_one_piece(laid):
    """Every crossing can be reached, each street is there once, and its ends are neighbours."""
    pieces, _ = connected_components(laid.matrix(), directed=False)
    assert pieces == 1
    assert (laid.tail < laid.head).all()
    pairs = np.stack([laid.tail, laid.head], axis=1)
    assert len(np.unique(pairs, axis=0)) == len(pairs)
    assert set(laid.tail) | set(laid.head) == set(range(laid.x.size))
    apart = np.hypot(laid.x[laid.tail] - laid.x[laid.head], laid.y[laid.tail] - laid.y[laid.head])
    np.testing.assert_allclose(laid.length, apart)
    assert laid.length.min() > 0.2 * streets.SPACING
    assert laid.length.max() < 2 * streets.SPACING


def test_the_centre_is_slow_and_avenues_are_fast(laid):
    """Free speeds are lower in the centre, and some streets are faster than their neighbours."""
    away = np.hypot(laid.x[laid.tail], laid.y[laid.tail])
    centre, edge = away < 0.25 * laid.radius, away > 0.7 * laid.radius
    assert laid.speed[centre].mean() < 0.85 * laid.speed[edge].mean()
    assert 8 < laid.speed.min() < laid.speed.max() < 110
    assert 0.2 < laid.lights.mean() < 0.5


def test_a_street_is_found_by_its_ends(laid):
    """In either direction."""
    number = np.arange(laid.tail.size)
    assert (laid.between(laid.tail, laid.head) == number).all()
    assert (laid.between(laid.head, laid.tail) == number).all()


def test_degrees_are_metres_from_the_centre():
    """A kilometre to the north and to the east."""
    lat, lon = streets.to_degrees(np.array([0.0, 1_000.0]), np.array([1_000.0, 0.0]))
    assert lat == pytest.approx([21.2 + 1 / 111.195, 21.2])
    assert lon == pytest.approx([74.9, 74.9 + 1 / 111.195 / np.cos(np.radians(21.2))])


@given(users=st.integers(1, 400), seed=st.integers(0, 10**6))
@examples(25)
def test_any_city_has_routes_that_can_be_driven(users, seed):
    """Each route's two ways have legs, lead to and fro, and lie on the streets they name."""
    generator = np.random.default_rng(seed)
    laid = streets.lay(users, generator)
    network = streets.draw(laid, users, generator)
    legs = network.legs
    assert (legs.count[:, : streets.DOWN + 1] > 0).all()
    assert (legs.count[:, streets.UP] == legs.count[:, streets.DOWN]).all()
    assert legs.count.sum() == legs.x.size
    assert network.share.sum() == pytest.approx(1)
    ends = np.append(legs.first.ravel(), legs.x.size)
    joined = np.ones(legs.x.size, bool)
    joined[ends[ends < legs.x.size]] = False
    gap = np.hypot(*(np.diff(at) - along[:-1] for at, along in
                     ((legs.x, legs.dx), (legs.y, legs.dy))))  # fmt: skip
    assert gap[joined[1:]].max() < 0.1
    on_street = np.bincount(legs.street, legs.length, laid.length.size)
    used = np.bincount(legs.street, minlength=laid.length.size) > 0
    assert (on_street[used] > 0.999 * laid.length[used]).all()


def test_routes_share_streets_and_end_at_home(laid, network):
    """Ways from and to the depot have no stops; ways of the line have one in most streets."""
    legs = network.legs
    for route in range(network.share.size):
        for way in range(streets.WAYS):
            part = slice(legs.first[route, way], legs.first[route, way] + legs.count[route, way])
            stops = legs.stop[part]
            if way > streets.DOWN:
                assert (stops == -1).all()
            else:
                assert (stops >= 0).sum() >= 0.6 * len(set(legs.street[part].tolist()))
    used = [
        set(legs.street[first : first + count].tolist())
        for first, count in zip(legs.first[:, 0], legs.count[:, 0], strict=True)
    ]
    assert sum(map(len, used)) > 1.3 * len(set.union(*used))


def test_stops_differ_by_side(network):
    """To and fro the stops of a street are on different sides."""
    legs = network.legs
    for route in range(network.share.size):
        sides = [
            set(legs.stop[first : first + count].tolist()) - {-1}
            for first, count in zip(legs.first[route, :2], legs.count[route, :2], strict=True)
        ]
        assert not sides[0] & sides[1]
        assert {stop // 2 for stop in sides[0]} == {stop // 2 for stop in sides[1]}


def test_plates_and_labels_are_different_for_all():
    """Every bus has a plate and a label of its own."""
    users = [*range(0, 30_000, 7), fleet.MOST_USERS - 1]
    plates = {fleet.plate(user) for user in users}
    assert len(plates) == len(users)
    assert {len(plate) for plate in plates} == {10}
    assert len({fleet.label(user, user % streets.MOST_DEPOTS) for user in users}) == len(users)
