"""The manifest: valid by its strict schema, rounded up, and made of public facts only."""

import copy
import json
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publishing.releases import problems_of
from publishing.setting import dataset_of, released, small_city

COMPONENT = ("components", 0)
OPTIONAL = {(): {"losses"}, (*COMPONENT, "accuracy", 0): {"beats_constant"}}
"""Keys that not every manifest has: under private presence no loss of a unit is stated."""


def parts(data, path=()):
    """Yield the path of every object whose keys the schema fixes."""
    free = {("software",), (*COMPONENT, "rules"), (*COMPONENT, "selection")}
    if isinstance(data, dict):
        if path not in free:
            yield path
        for key, value in data.items():
            yield from parts(value, (*path, key))
    elif isinstance(data, list) and data:
        yield from parts(data[0], (*path, 0))


def at(data, path):
    """Return the part of a manifest at a path."""
    for key in path:
        data = data[key]
    return data


@pytest.mark.slow
def test_the_schema_is_strict(city, tmp_path):
    """A key too many, and a key too few, in any part of the manifest is not valid."""
    whole = json.loads(json.dumps(released(city).manifest, allow_nan=False))
    paths = list(parts(whole))
    assert (*COMPONENT, "cells", 0) in paths
    assert () in paths

    def problems(manifest):
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))
        return " ".join(problems_of(tmp_path))

    # The other files are looked at only beside a valid manifest.
    assert "breaks its schema" not in problems(whole)
    for path in paths:
        said = copy.deepcopy(whole)
        at(said, path)["true_mean"] = 1.0
        assert "breaks its schema" in problems(said)
        for key in at(whole, path).keys() - OPTIONAL.get(path, set()):
            said = copy.deepcopy(whole)
            del at(said, path)[key]
            assert re.search("breaks its schema|has schema version", problems(said)), (path, key)


@pytest.mark.slow
@given(st.fractions(min_value=Fraction(1, 10), max_value=100, max_denominator=10**15))
def test_epsilon_is_said_rounded_up(epsilon):
    """The printed loss is never below the loss, and less than 1e-12 above it."""
    made = released(small_city(), epsilon=epsilon)
    said = Fraction(made.manifest["guarantee"]["epsilon_spent"])
    assert made.epsilon <= said < made.epsilon + Fraction(1, 10**12)


def test_a_factor_without_limit_is_null(tmp_path):
    """At a loss of 1000 the factor is beyond all doubles: the manifest says null, and is valid."""
    made = released(dataset_of(np.ones((12, 1), dtype=int), 30), epsilon=1000)
    assert made.epsilon > 999
    assert made.manifest["guarantee"]["probability_factor"] is None
    assert "without a limit" in made.manifest["guarantee"]["promise"]
    assert problems_of(made.write(tmp_path / "map")) == ()
