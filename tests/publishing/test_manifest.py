"""The manifest: valid by its strict schema, rounded up, and made of public facts only."""

import copy
import functools
import json
from fractions import Fraction

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.publishing.kinds.guarantee import epsilon_text
from hexveil.publishing.part_kinds import manifest_schema
from publishing.setting import dataset_of, manifest_of, plan_of


def written(dataset, plan=None):
    """Return the manifest of a plan as it would be written and read again."""
    made = manifest_of("buses", dataset, plan or plan_of(dataset, 1))
    return json.loads(json.dumps(made, allow_nan=False))


@functools.cache
def validator():
    """Return what validates against the schema, which is itself valid."""
    jsonschema.Draft202012Validator.check_schema(manifest_schema())
    return jsonschema.Draft202012Validator(manifest_schema())


def check(data):
    """Validate against the schema."""
    validator().validate(data)


COMPONENT = ("components", 0)


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


def test_the_schema_is_strict(city):
    """A key too many, and a key too few, in any part of the manifest is not valid."""
    whole = written(city)
    paths = list(parts(whole))
    assert (*COMPONENT, "cells", 0) in paths
    assert () in paths
    for path in paths:
        said = copy.deepcopy(whole)
        at(said, path)["true_mean"] = 1.0
        with pytest.raises(jsonschema.ValidationError):
            check(said)
        # Of maps with private presence no loss of a unit is stated.
        for key in [key for key in at(whole, path) if path or key != "losses"]:
            said = copy.deepcopy(whole)
            del at(said, path)[key]
            with pytest.raises(jsonschema.ValidationError):
                check(said)


@given(st.fractions(min_value=0, max_value=1000))
def test_epsilon_is_said_rounded_up(epsilon):
    """The printed loss is never below the loss, and less than 1e-12 above it."""
    said = Fraction(epsilon_text(epsilon))
    assert epsilon <= said < epsilon + Fraction(1, 10**12)


def test_a_factor_without_limit_is_null():
    """At a loss of 1000 the factor is beyond all doubles: the manifest says null, and is valid."""
    dataset = dataset_of([[1], [1]])
    plan = plan_of(dataset, [1], 0.001)
    assert plan.epsilon > 999
    said = written(dataset, plan)
    check(said)
    assert said["guarantee"]["probability_factor"] is None
    assert "without a limit" in said["guarantee"]["promise"]
