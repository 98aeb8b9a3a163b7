"""The sentence about a package that is missing."""

import importlib.util

import pytest

import hexveil as hv


def test_a_missing_package_names_its_extra(monkeypatch):
    """The extra is that of the package unless it has another name."""
    occupancy = hv.Occupancy.from_dense([[2, 1], [1, 3]])
    plan = hv.plan(occupancy, bounds=(0, 10), epsilon=1, advise=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(
        hv.InputError, match=r'^pandas is not .*: pip install "hexveil\[pandas\]"\.$'
    ):
        plan.to_pandas()
    with pytest.raises(hv.InputError, match=r'^scipy is .*: pip install "hexveil\[publish\]"\.$'):
        hv.plan(occupancy, bounds=(0, 10), epsilon=1)
