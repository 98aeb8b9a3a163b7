"""README.txt: the promise, the files and the columns, in words that are true of this release."""

import numpy as np

from hexveil.publishing.estimates.table import build_table
from publishing.setting import dataset_of, manifest_of, plan_of, readme_of


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
