"""README.txt: the promise, the files and the columns, in words that are true of this release."""

import copy

import numpy as np
import pytest

from hexveil.publishing.estimates.accuracy import accuracy_statement
from hexveil.publishing.estimates.table import COLUMNS, build_table, describe_column
from publishing.setting import dataset_of, manifest_of, plan_of, readme_of


@pytest.fixture
def parts(city):
    """Return table and manifest of a map."""
    plan = plan_of(city, [2, 2, 0], 2.0)
    table = build_table(plan, city.public, {"mean": np.arange(3.0)})
    accuracy = accuracy_statement(plan, table, None)
    return table, manifest_of("buses", city, plan, None, accuracy)


def text_of(table, said, *, mapped=True):
    """Return README.txt on one line."""
    return " ".join(readme_of(table, said, mapped=mapped).split())


def test_without_a_unit_of_measure_none_is_said():
    """A value without unit has no empty brackets."""
    dataset = dataset_of([[1], [2]])
    plan = plan_of(dataset, [2])
    table = build_table(plan, dataset.public, {"mean": np.zeros(1)})
    text = readme_of(table, manifest_of("wards", dataset, plan))
    assert text.splitlines()[0] == "Average value of wards, 1 cell"
    assert "()" not in text
    assert "[]" not in text
    assert "route: public label of the cell" in text


def test_the_spread_of_losses_is_said(parts):
    """The most exposed unit, the others, and what counting cells would claim, rounded up."""
    table, said = parts[0], copy.deepcopy(parts[1])
    losses = said["components"][0]["losses"]
    losses |= {"units": 40, "p99": 0.98761, "p90": 0.5, "median": 0.25, "mean": 0.3}
    losses["at_zero"] = 7
    said["components"][0]["l0_epsilon"] = "3.00001"
    text = text_of(table, said)
    assert "most exposed of 40 users. Of these, 99 percent lose at most 0.9877, 90 percent" in text
    assert "and 7 lose nothing. Naive accounting, cell by cell, would claim epsilon 3.001." in text
    losses["at_zero"] = 0
    assert "lose nothing" not in text_of(table, said)


def test_each_column_has_its_own_words(parts):
    """Every column of the table is explained by the dictionary, none twice."""
    text = text_of(*parts)
    for name in parts[0].column_names:
        assert f": {describe_column(name)}" in text
    assert len(set(map(describe_column, COLUMNS))) == len(COLUMNS)
