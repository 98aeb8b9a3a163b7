"""Errors as other programs meet them."""

import pickle
from fractions import Fraction

import hexveil as hv


def test_an_error_reaches_another_process():
    """A pool of processes gets the error of its worker, with message and attributes."""
    refused = hv.BudgetError("too much", requested=Fraction(2), remaining=Fraction(1))
    for error in (refused, hv.ColumnError("value", "sped", ["speed"]), hv.StorageError("full")):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
