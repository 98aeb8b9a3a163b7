"""What records of labels should become, worked out slowly; or only what is true of any reading."""

import math
from collections import Counter
from fractions import Fraction

import hexveil as hv
from hexveil.base.errors import InputError, StorageError
from hexveil.publishing.markup import clean
from records import oracle

BOUNDS, QUANTUM = (-5, 60), "0.5"
SCALE = tuple(map(Fraction, (*BOUNDS, QUANTUM)))
NAMES = ("user", "speed", "route", "time")
UNUSABLE = (
    "unparsable",
    "without a usable value",
    "without a user",
    "without a usable time",
    "without a usable place",
)


def read(source, **more):
    """Read records of labels; return the data set, or the error a person would be told."""
    arguments = {
        "user": "user", "value": "speed", "time": "time", "bounds": BOUNDS, "quantum": QUANTUM,
        "cells": hv.Labels("route"), "select": hv.Select(min_users=1), "timezone": "UTC",
        "max_bad_rows": 1, "max_repeats": 1,
    }  # fmt: skip
    try:
        return hv.read(source, **(arguments | more))
    except (InputError, StorageError) as error:
        return checked_error(error)


def checked_error(error, *named):
    """Return an error if it is one clear sentence: in our words, on one line, with its end.

    Of the names, if there are any, it says one.
    """
    text = clean(str(error))  # as the command says it: names of columns may hold line breaks
    assert not named or any(name in text for name in named), text
    assert text.endswith((".", "?")), text
    for foreign in ("Traceback", "Error:", "duckdb", "pyarrow", "SELECT "):
        assert foreign not in text.replace('engine must be "duckdb"', ""), text
    return error


def found(dataset):
    """Return the public rules, and {(label, user): (n, sum, squares)} of a data set."""
    occupancy, sums = dataset.occupancy, dataset.sums
    labels = dataset.public.cells.labels["route"]
    users = dataset.units.users.to_pylist()
    columns = (occupancy.cell, occupancy.user, occupancy.n, sums.total, sums.total_sq)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    pairs = {(labels[cell], users[user]): tuple(rest) for cell, user, *rest in rows}
    return dict(dataset.public.rules), pairs


def expected(records):
    """Return the same of records (user, value, label, microseconds)."""
    left_out, passed = Counter(), []
    for record in records:
        why = _why(record)
        left_out[why] += 1
        if why is None:
            user, value, label, micros = record
            passed.append((user, int(micros), label.encode(), oracle.quanta(value, *SCALE)))
    pairs, kept = {}, oracle.without_repeats(passed)
    for user, _, label, k in kept:
        n, total, squares = pairs.get((label.decode(), user), (0, 0, 0))
        pairs[label.decode(), user] = n + 1, total + k, squares + k * k
    cells = len({label for label, _ in pairs})
    rules = {"records read": sum(left_out.values())}
    rules |= {why: left_out[why] for why in UNUSABLE}
    rules["repeats of a user and time"] = left_out[None] - len(kept)
    rules |= {"cells before selection": cells, "cells left out by selection": 0}
    return rules | {"records left": len(kept)}, pairs


def _why(record):
    """Return why a record is left out, or None."""
    user, value, label, micros = record
    usable = (
        value is not None and math.isfinite(value),
        user not in (None, ""),
        micros is not None and 0 <= micros < oracle.LAST * 10**6,
        label not in (None, ""),
    )
    return next((why for why, good in zip(UNUSABLE[1:], usable, strict=True) if not good), None)


def check(outcome, records):
    """Compare a reading with records; with None, check only that its counts add up."""
    if isinstance(outcome, Exception):
        assert records is None or not expected(records)[1], (outcome, records)
        return
    rules, pairs = found(outcome)
    if records is not None:
        assert (rules, pairs) == expected(records)
    assert rules["records left"] == sum(n for n, *_ in pairs.values())
    unused = sum(count for rule, count in rules.items() if rule.startswith(("with", "unp", "rep")))
    assert rules["records read"] == rules["records left"] + unused
