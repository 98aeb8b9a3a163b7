"""Classes of users: who is in which, how few may be, and that public counts alone decide it."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from distributed_blocks import distributed
from examples import examples
from hexveil import Occupancy
from hexveil.planning.clipping_range import user_clusters
from hexveil.planning.clipping_range.user_clusters import (
    MAX_DIRECTIONS,
    MIN_CLUSTER_USERS,
    SHARE_WEIGHT,
    SIZE_WEIGHT,
    cluster_labels,
    clusters_from_labels,
    user_features,
)


def mixed(seed, users=120, cells=5):
    """Return users of a few habits and many sizes."""
    rng = np.random.default_rng(seed)
    habit = rng.integers(0, 3, users)
    rates = rng.gamma(0.3, 1.0, (3, cells))[habit] * rng.gamma(0.5, 8.0, (users, 1))
    counts = rng.poisson(rates)
    counts[np.arange(users), rng.integers(0, cells, users)] += 1
    counts[0] += 1
    return Occupancy.from_dense(counts)


def made(occupancy, number):
    """Return the classes of an occupancy."""
    (labels,) = cluster_labels(occupancy, [number])
    return clusters_from_labels(occupancy, labels)


def points_of(occupancy):
    """Return each user as a point."""
    return user_features(occupancy, occupancy.records_per_user)


@examples(25)
@given(st.integers(0, 500), st.integers(1, 30))
@example(38, 21)  # a class loses all its points on the way
def test_every_user_is_in_one_class_and_none_is_small(seed, number):
    """Classes are numbered from 0 without gaps, and none is smaller than `MIN_CLUSTER_USERS`."""
    occupancy = mixed(seed)
    found = made(occupancy, number)
    sizes = np.bincount(found.labels)
    assert found.labels.size == occupancy.n_users
    assert 1 <= sizes.size <= number
    assert sizes.min() >= MIN_CLUSTER_USERS


@examples(25)
@given(st.integers(0, 500))
def test_classes_are_an_occupancy_of_all_records(seed):
    """A class is a cell of its users' records; shares are the parts of each cell's records."""
    occupancy = mixed(seed)
    found = made(occupancy, 7)
    merged = found.occupancy
    assert (np.sort(merged.user) == np.arange(occupancy.n_users)).all()
    assert (found.labels[merged.user] == merged.cell).all()
    records, counted = np.zeros(occupancy.n_users), np.zeros(found.share.shape)
    for cell, user, n in zip(occupancy.cell, occupancy.user, occupancy.n, strict=True):
        records[user] += n
        counted[cell, found.labels[user]] += n
    assert (merged.n == records[merged.user]).all()
    assert found.share == pytest.approx(counted / occupancy.records_per_cell[:, None])
    assert found.share.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("cells", [6, MAX_DIRECTIONS + 30])
def test_chance_elsewhere_does_not_matter(cells):
    """Whatever state numpy's own generator is in, the classes are the same, and it stays there."""
    occupancy = mixed(3, cells=cells)
    one = made(occupancy, 8)
    np.random.seed(77)  # noqa: NPY002  the state that must not be used
    other = made(occupancy, 8)
    after = np.random.random()  # noqa: NPY002
    np.random.seed(77)  # noqa: NPY002
    assert (one.labels == other.labels).all()
    assert after == np.random.random()  # noqa: NPY002


def test_habits_are_told_apart():
    """Users of different places, or of very different sizes, are not in one class."""
    places = Occupancy.from_dense([[8, 0, 0]] * 20 + [[0, 8, 0]] * 20 + [[0, 0, 8]] * 20)
    sizes = Occupancy.from_dense([[1, 1]] * 20 + [[4000, 4000]] * 20)
    assert made(places, 3).labels.reshape(3, 20).std(axis=1).max() == 0
    assert np.unique(made(places, 3).labels).size == 3
    assert made(sizes, 2).labels.reshape(2, 20).std(axis=1).max() == 0
    assert np.unique(made(sizes, 2).labels).size == 2


def test_users_who_are_all_alike_are_one_class():
    """Points that coincide cannot be divided, however many classes are asked for."""
    assert set(made(Occupancy.from_dense([[2, 3]] * 200), 20).labels) == {0}
    assert set(made(Occupancy.from_dense([[5]]), 20).labels) == {0}


def test_points_are_shares_and_the_logarithm_of_size():
    """With few cells a share has a direction of its own; twice as many records are one step."""
    points = points_of(Occupancy.from_dense([[3, 1], [0, 8]]))
    assert points == pytest.approx(
        np.array(
            [
                [0.75 * SHARE_WEIGHT, 0.25 * SHARE_WEIGHT, 2 * SIZE_WEIGHT],
                [0, SHARE_WEIGHT, 3 * SIZE_WEIGHT],
            ]
        )
    )


def test_many_cells_are_reduced_and_distances_stay():
    """Distances between users over 300 cells are kept within a few tenths by `MAX_DIRECTIONS`."""
    occupancy = mixed(5, users=60, cells=300)
    records = occupancy.records_per_user
    whole = np.zeros((60, 300))
    whole[occupancy.user, occupancy.cell] = occupancy.n / records[occupancy.user]
    points = points_of(occupancy)[:, :-1]
    assert points.shape == (60, MAX_DIRECTIONS)
    pairs = np.triu_indices(60, 1)
    true = SHARE_WEIGHT * np.linalg.norm(whole[pairs[0]] - whole[pairs[1]], axis=1)
    seen = np.linalg.norm(points[pairs[0]] - points[pairs[1]], axis=1)
    far = true > 0.5
    assert np.abs(seen[far] / true[far] - 1).mean() < 0.15
    assert (seen[far] / true[far]).mean() == pytest.approx(1, abs=0.1)


def test_a_sample_finds_the_classes_of_many(monkeypatch):
    """Where middles are found by some of the users, clear habits are still told apart."""
    monkeypatch.setattr(user_clusters, "SAMPLED_USERS", 60)
    crowd = Occupancy.from_dense([[8, 0, 0]] * 200 + [[0, 8, 0]] * 200 + [[0, 0, 8]] * 200)
    of = made(crowd, 3).labels.reshape(3, 200)
    assert of.std(axis=1).max() == 0
    assert np.unique(of).size == 3


@pytest.mark.parametrize(("cells", "sampled"), [(6, 60), (MAX_DIRECTIONS + 30, 60), (6, 120)])
def test_users_in_blocks_have_the_classes_of_users_at_hand(cells, sampled, monkeypatch):
    """Those of the sample and all others; every cell's parts are the same doubles."""
    monkeypatch.setattr(user_clusters, "SAMPLED_USERS", sampled)
    monkeypatch.setattr(user_clusters, "NEAREST_AT_ONCE", 50)
    whole = mixed(3, cells=cells)
    apart = distributed(whole, 40)
    for one, other in zip(*(cluster_labels(o, [3, 8]) for o in (whole, apart)), strict=True):
        assert one.tolist() == other.tolist()
        shares = [clusters_from_labels(o, one).share for o in (whole, apart)]
        assert np.array_equal(*shares)


def test_classes_whose_numbers_are_known_are_put_together():
    """`grouped` takes the classes as they are, as a saved plan states them."""
    occupancy = Occupancy.from_dense([[1, 2], [3, 0], [0, 4]])
    found = user_clusters.clusters_from_labels(occupancy, np.array([1, 0, 1]))
    assert found.share.tolist() == [[0.75, 0.25], [0.0, 1.0]]
    assert found.occupancy.cell.tolist() == [0, 1, 1]
    assert found.occupancy.user.tolist() == [1, 0, 2]
    assert found.occupancy.n.tolist() == [3, 3, 4]
