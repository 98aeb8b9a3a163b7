"""Frozen data classes: arrays cannot be written, whatever way an object came to be."""

import copy
import pickle
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

import hexveil as hv

WAYS = {
    "made": lambda one: one,
    "replaced": replace,
    "copied": copy.copy,
    "copied deep": copy.deepcopy,
    "pickled": lambda one: pickle.loads(pickle.dumps(one)),  # noqa: S301  our own
}


def arrays(one):
    """Return all arrays below an object, by their places."""
    if isinstance(one, np.ndarray):
        return {"": one}
    if hasattr(one, "items"):
        below = dict(one.items())
    elif is_dataclass(one):
        below = {field.name: getattr(one, field.name) for field in fields(one)}
    else:
        return {}
    return {f"{name}/{place}": a for name, v in below.items() for place, a in arrays(v).items()}


@pytest.mark.parametrize("way", WAYS)
def test_arrays_are_read_only_copies(way):
    """Neither the caller's array nor the object's can change what the object says."""
    given = np.array([2, 1, 4])
    one = WAYS[way](hv.Occupancy(np.array([0, 0, 1]), np.array([0, 1, 1]), given, 2, 2))
    given[0] = 9
    assert one.n.tolist() == [2, 1, 4]
    with pytest.raises(ValueError, match="read-only"):
        one.n[0] = 9
    plan = WAYS[way](hv.plan(one, bounds=(0, 10), target_error=5, advise=False))
    target = plan.single.request.target
    with pytest.raises(ValueError, match="read-only"):
        target["mean"][0] = 9
    with pytest.raises(TypeError):
        target["mean"] = given


def test_nothing_that_was_computed_travels():
    """A copy computes anew what an object had computed."""
    one = hv.Occupancy.from_dense([[2, 1], [1, 3]])
    assert one.start.tolist() == [0, 2, 4]
    vars(one)["start"] = 7
    for way in ("replaced", "copied", "copied deep", "pickled"):
        assert WAYS[way](one).start.tolist() == [0, 2, 4]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 2},
        {"target_error": {"mean": 2, "variance": 3}, "statistics": ("mean", "variance")},
        {"epsilon": 2, "clipping_range": "private", "statistics": ("mean", "sd")},
        {"epsilon": 2, "clipping_range": "per-cell"},
        {"epsilon": 2, "method": "clip-user"},
    ],
    ids=str,
)
def test_all_that_a_loss_depends_on_is_read_only(way, options):
    """Allocation, range, steps, bounds, targets and counts of a plan, and what it caches."""
    occupancy = hv.Occupancy.from_dense([[2, 1, 4], [1, 0, 1], [1, 3, 1], [5, 1, 2]])
    plan = WAYS[way](hv.plan(occupancy, bounds=(0, 10), advise=False, **options))
    assert not plan.losses().flags.writeable
    (part,) = plan.components.values()
    found = arrays(part)
    decided = {f"allocation/{name}/" for name in ("noise_scale_records", "contribution_factor")}
    assert decided | {"occupancy/n/", "lower/"} <= found.keys()
    cached = ("start", "records_per_cell", "users_per_cell", "cells_per_user", "records_per_user")
    found |= {name: getattr(plan.occupancy, name) for name in cached}
    for model in plan.error_models.values():
        found |= arrays(model)
    assert not [place for place, array in found.items() if array.flags.writeable]
