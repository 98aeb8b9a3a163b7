"""Every kind of release at the door to the noise: what one unit moves there, and its charge.

A release of each kind runs as it is, once for each of two data sets that differ in one unit. A
recorder stands in place of the noise: it notes the numbers and scales that it is handed, and gives
both releases the same outcomes. The unit's loss follows from these numbers alone, without a formula
of the package: Σ |v - v'| / R of Laplace noise, the law of permute-and-flip for a choice, squares
of Gaussian noise. So an accountant that booking and meter share is not its own guard.
"""

import contextlib
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from attack import exact_law, folder_kinds
from hexveil.accounting.gaussian_composition import square_epsilon, square_of_pure
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.sensitivity_report import Meter
from publishing import releases

UNIT, TOP = "b0", {"speed": 60.0, "load": 50.0}
QUICK = ("delta", "interval", "means", "presence-labels", "variance")
RECORDS = releases.records
SECOND_LOOKS = {"cell-ranges": (2,), "columns": (2, 5)}
"""Calls that spend what a first look at the same cells was charged and left over."""
LEAST = 0.75
"""Part of its charge that the unit loses at least."""
ALL = 1 - 1e-5
"""Part of its charge that the meter adds up for some unit: what is booked is not more than that."""


class Recorder:
    """A source of noise that adds none, or gives the outcomes of another one."""

    def __init__(self, outcomes=()):
        self.given, self.calls, self.outcomes = iter(outcomes), [], []
        self.metered = 0.0

    def laplace(self, values, scales):
        """Note a call, and return the outcome."""
        return self._answer("laplace", values, scales, values.copy())

    def gaussian(self, values, deviations):
        """Note a call, and return the outcome."""
        return self._answer("gaussian", values, deviations, values.copy())

    def noisy_max(self, scores, sizes, scale):
        """Note a call, and return the candidate."""
        rows = zip(*np.broadcast_arrays(scores, sizes), strict=True)
        full = np.array([np.repeat(score, size) for score, size in rows])
        return self._answer("choice", full, scale, full.argmax(axis=1))

    def _answer(self, kind, values, scales, own):
        self.calls.append((kind, values.copy(), np.array(scales, dtype=np.float64)))
        self.outcomes.append(next(self.given, own))
        return self.outcomes[-1].copy()


@contextlib.contextmanager
def _recorded(recorder):
    """Put a recorder in place of the noise library; give what else to patch."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("laplace", "gaussian", "noisy_max"):
            answer = getattr(recorder, name)
            patch.setattr(VettedNoise, name, lambda _, *given, answer=answer: answer(*given))

        def authorise(meter, *given, real=Meter.authorise):
            real(meter, *given)
            recorder.metered = float((meter._spent / meter._booked).max())

        patch.setattr(Meter, "authorise", authorise)
        yield patch


def _readings(columns, value):
    """Return readings of all at the lower bounds, and of one unit at a value; None: it has none."""
    table = RECORDS()
    mine = np.array([bus == UNIT for bus in table["bus"].to_pylist()])
    table = table.drop_columns("speed")
    for column in columns:
        table = table.append_column(column, pa.array(np.where(mine, value and TOP[column], 0.0)))
    return table if value is not None else table.filter(pa.array(~mine))


def _released(kind, value, recorder):
    """Return the ledger of a release in which the unit's readings are at a bound, or none."""
    releases.dataset_of.cache_clear()
    with _recorded(recorder) as patch:
        for module in (folder_kinds, releases):
            patch.setattr(module, "records", lambda: _readings(["speed"], value))
        patch.setattr(folder_kinds, "_table", lambda: _readings(list(TOP), value))
        book = hv.Ledger("memory://", **folder_kinds.ACCOUNTS.get(kind, folder_kinds.ACCOUNT))
        if kind in folder_kinds.MAKERS:
            folder_kinds.MAKERS[kind](book)
        else:
            dataset = releases.dataset_of(mapped=False)
            plan = hv.plan(dataset, advise=False, **releases.PLANS[kind])
            hv.release(dataset, plan, ledger=book, accept_noise=True)
    releases.dataset_of.cache_clear()
    return book


def _lost(noise, one, other, scales, delta):
    """Return what a call tells of two data sets: its largest log-ratio, or a square of mu."""
    if noise == "gaussian":
        return float((((one - other) / scales) ** 2).sum())
    if noise == "laplace":
        pure = float((np.abs(one - other) / scales).sum())
    else:
        laws = [
            [exact_law.choice(tuple(row.tolist()), float(scales)) for row in scores]
            for scores in (one, other)
        ]
        pure = float(np.abs(np.subtract(*laws)).max(axis=1).sum())
    return square_of_pure(pure) if delta else pure


def part_of_charge(kind):
    """Return what one unit loses along a path, and what the meter adds up, in parts of charges."""
    values = (None, 1) if kind.startswith("presence") else (0, 1)
    first = Recorder()
    book = _released(kind, values[0], first)
    second = Recorder(first.outcomes)
    assert _released(kind, values[1], second).spent == book.spent
    delta, told = Fraction(book.account.delta or 0), 0.0
    calls = list(zip(first.calls, second.calls, strict=True))
    for number, ((noise, one, scales), (same, other, again)) in enumerate(calls):
        assert noise == same, "the noise asked for depends on values"
        assert np.array_equal(scales, again), "a scale depends on values"
        if number not in SECOND_LOOKS.get(kind, ()):
            told += _lost(noise, one, other, scales, delta)
    lost = square_epsilon(Fraction(told), delta) if delta else told
    return lost / float(book.spent), first.metered


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow)
        for kind in sorted({*folder_kinds.KINDS, *releases.PLANS})
    ],
)
def test_a_unit_loses_what_it_is_charged_and_no_more(kind):
    """Of every kind of release, by the whole numbers and scales at the door alone."""
    part, metered = part_of_charge(kind)
    assert part <= 1 + exact_law.EXACT, f"a unit loses {part} times its charge"
    assert part >= LEAST
    assert metered >= ALL
