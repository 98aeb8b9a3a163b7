"""Errors as other programs meet them."""

import pickle

import hexveil as hv


def test_an_error_reaches_another_process():
    """A pool of processes gets the error of its worker, with message and attributes."""
    for error in (hv.BudgetError("no", requested=2, remaining=1), hv.ColumnError("a", "b", ["c"])):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
