"""From a run to the arguments of the library's doors."""

import pytest

import hexveil as hv
from hexveil import InputError
from hexveil.config import arguments, checked


def run(**sections):
    """Return a run of nested plain values."""
    return checked(sections, "test")


def door(source, *, user, value, bounds, quantum="1", cells=None, select=None, timezone=None):
    """Stand in for a door of the library."""


NEEDED = {"columns": {"user": "u", "value": "v"}, "values": {"bounds": [0, 1]}}


def test_only_what_was_given_is_handed_on():
    """Defaults stay the library's."""
    given = arguments.read_arguments(run(**NEEDED, cells={"timeslot": "none"}), door)
    assert given == {
        "user": "u", "value": "v", "bounds": ("0", "1"),
        "cells": hv.Cells(timeslot=None), "select": hv.Select(),
    }  # fmt: skip


def test_what_is_missing_is_asked_for_at_once():
    """All that a door needs is named in one sentence, with section and option."""
    with pytest.raises(InputError) as caught:
        arguments.read_arguments(run(cells={"timeslot": "none"}), door)
    assert str(caught.value) == (
        "user (in [columns], or --user), value (in [columns], or --value), "
        "bounds (in [values], or --bounds) are needed; hexveil inspect FILE --init > run.toml "
        "drafts a run file that names them."
    )


def test_labels_replace_the_place():
    """Labels make the cells, and clash with a resolution in one sentence."""
    made = run(**NEEDED, cells={"labels": ["route", "hour"], "timezone": "UTC"})
    given = arguments.read_arguments(made, door)
    assert given["cells"] == hv.Labels("route", "hour")
    assert given["timezone"] == "UTC"
    with pytest.raises(InputError, match="labels and resolution cannot be combined"):
        arguments.cells(run(cells={"labels": "route", "resolution": 5}))


def test_one_cell_replaces_places_and_labels():
    """One cell needs no column, keeps the clock of hours and dates, and clashes in one sentence."""
    made = run(**NEEDED, cells={"one_cell": True, "timezone": "UTC"})
    given = arguments.read_arguments(made, door)
    assert given["cells"] == hv.OneCell()
    assert given["timezone"] == "UTC"
    for other in ({"labels": "route"}, {"resolution": 5}):
        with pytest.raises(InputError, match=f"one_cell and {next(iter(other))} cannot be comb"):
            arguments.cells(run(cells={"one_cell": True, **other}))


@pytest.mark.parametrize("name", ["Baseline", "Baseline()"])
def test_mechanisms_have_their_library_name(name):
    """A mechanism is named as in Python, with or without parentheses."""
    plan = {"mechanism": name, "epsilon": 1, "method": "per-cell"}
    given = arguments.plan_arguments(run(plan=plan))
    assert given == {"mechanism": hv.mechanisms.Baseline(), "epsilon": "1", "method": "per-cell"}


def test_ledger_arguments():
    """What is named is handed on; a missing data set is asked for, a budget may be the ledger's."""
    ledger = {"url": "x", "dataset": "d", "budget": "0.1"}
    assert arguments.ledger_arguments(run(ledger=ledger), hv.Ledger) == ledger
    known = {"url": "x", "dataset": "d"}
    assert arguments.ledger_arguments(run(ledger=known), hv.Ledger) == known
    with pytest.raises(InputError, match=r"dataset \(in \[ledger\], or --dataset\) is needed"):
        arguments.ledger_arguments(run(ledger={"url": "x"}), hv.Ledger)
