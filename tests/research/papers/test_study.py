"""Tests of `hexveil_research.papers.study`."""

import numpy as np
import pytest

import hexveil as hv
from hexveil_research.papers.study import Outcome, Study, band, line, select_studies

STUDIES = tuple(
    Study(name, "", "", lambda _: Outcome()) for name in ("iot:fig1", "iot:fig10", "wc:fig1")
)


def test_a_band_is_the_mean_and_the_extremes_of_the_draws():
    """Of ten draws the mean is drawn, between the smallest and the largest."""
    draws = np.array([[1.0, 5.0], [3.0, 4.0], [2.0, 9.0]])
    made = band("loss", [0.1, 1], draws, whose="ours")
    assert made.y.tolist() == [2, 6]
    assert (made.low.tolist(), made.high.tolist()) == ([1, 4], [3, 9])
    assert made.whose == "ours"


@pytest.mark.parametrize("more", [{"low": [1]}, {"low": [1], "high": [1]}, {"high": [1, 2]}])
def test_parts_of_different_lengths_are_refused(more):
    """A bar needs both ends, at every point."""
    with pytest.raises(hv.InputError, match="different lengths"):
        line("loss", [1, 2], [1, 2], **more)
    with pytest.raises(hv.InputError, match="different lengths"):
        line("loss", [1, 2, 3], [1, 2])


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["iot"], ["iot:fig1", "iot:fig10"]),
        (["iot:fig1"], ["iot:fig1"]),
        (["wc", "iot:fig10", "wc:fig1"], ["wc:fig1", "iot:fig10"]),
    ],
)
def test_studies_are_chosen_by_name_or_paper(names, found):
    """A name means itself alone, a paper all of its studies, and none comes twice."""
    assert [one.name for one in select_studies(STUDIES, names)] == found
