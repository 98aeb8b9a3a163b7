"""Frozen data classes: arrays cannot be written, whatever way an object came to be."""

import copy
import pickle
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import pytest

import hexveil as hv
from hexveil.base.read_only import ReadOnlyArrays

WAYS = {
    "made": lambda one: one,
    "replaced": replace,
    "copied": copy.copy,
    "copied deep": copy.deepcopy,
    "pickled": lambda one: pickle.loads(pickle.dumps(one)),  # noqa: S301  our own
}


@dataclass(frozen=True, eq=False)
class Numbers(ReadOnlyArrays):
    """Some numbers, and a sum that is computed once."""

    of: np.ndarray
    by_name: dict

    @cached_property
    def total(self):
        """Return the sum."""
        return self.of.sum()


def arrays(one):
    """Return all arrays below an object, by their places."""
    if isinstance(one, np.ndarray):
        return {"": one}
    if hasattr(one, "items"):
        below = dict(one.items())
    elif isinstance(one, ReadOnlyArrays):
        below = {field.name: getattr(one, field.name) for field in fields(one)}
    else:
        return {}
    return {f"{name}/{place}": a for name, v in below.items() for place, a in arrays(v).items()}


@pytest.mark.parametrize("way", WAYS)
def test_arrays_are_read_only_copies(way):
    """Neither the caller's array nor the object's can change what the object says."""
    given = np.arange(3)
    one = WAYS[way](Numbers(given, {"a": np.ones(2)}))
    given[0] = 9
    assert one.of.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        one.of[0] = 9
    with pytest.raises(ValueError, match="read-only"):
        one.by_name["a"][0] = 9
    with pytest.raises(TypeError):
        one.by_name["a"] = given


def test_nothing_that_was_computed_travels():
    """A copy computes anew what an object had computed."""
    one = Numbers(np.arange(3), {})
    assert one.total == 3
    vars(one)["total"] = 7
    for way in ("replaced", "copied", "copied deep", "pickled"):
        assert WAYS[way](one).total == 3


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
