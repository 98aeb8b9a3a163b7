"""Errors as other programs meet them."""

import pickle
from fractions import Fraction

import pytest

import hexveil as hv


@pytest.mark.parametrize(
    "error",
    [
        hv.BudgetError("too much", requested=Fraction(2), remaining=Fraction(1)),
        hv.ColumnError("value", "sped", ["speed"]),
        hv.StorageError("the disk is full"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_reaches_another_process(error):
    """A pool of processes gets the error of its worker, with message and attributes."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
