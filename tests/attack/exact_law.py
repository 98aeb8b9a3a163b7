"""The exact privacy loss of a release, found by looking at nothing but its door to the noise.

`hv.release` runs as it is; in place of the two functions of the noise door stands an oracle. It
notes what it was handed (whole numbers or scores, and scales) and answers with outcomes that were
chosen beforehand, so that every path of a release can be walked for every data set of a small
world. The privacy loss is then exact, with no statistics in between:

- discrete Laplace noise of scale R tells v from v' by |z - v'| / R - |z - v| / R at the outcome z;
  over all outcomes that is |v - v'| / R at most, and so much is reached;
- a choice has the law of permute-and-flip, computed here from its definition, to 40 digits.

A stage of noise that later stages look at is walked on a grid of outcomes, the ends of which tell
any two numbers apart as well as any outcome does. What a unit is charged is read from the ledger at
the moment when noise is first asked for.
"""

import itertools
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from functools import cache
from unittest.mock import patch

import numpy as np

import hexveil as hv
from hexveil.ledger import hash_losses, odometer
from hexveil.ledger.databases import transaction
from hexveil.mechanisms import noise

DIGITS = 40
PARTS = 10**12
"""A ledger counts losses in such parts of one epsilon."""
EXACT = 1e-12
"""Relative rounding of a sum of a few double numbers."""
BUDGET = 10**6


class Heard(BaseException):
    """Stops a release at the door."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """What a release hands to the door once.

    Attributes
    ----------
    chosen : bool
        Whether it asks for a choice, and not for noise.
    values : ndarray of int64
        Scores, or numbers to be noised.
    scales : ndarray of float
    """

    chosen: bool
    values: np.ndarray
    scales: np.ndarray

    def alike(self, other):
        """Return whether another call is of the same kind, size and scales: those are public."""
        return (
            other is not None
            and self.chosen == other.chosen
            and self.values.size == other.values.size
            and np.array_equal(self.scales, other.scales)
        )

    def same(self, other):
        """Return whether another call hands over the same numbers too."""
        return self.alike(other) and np.array_equal(self.values, other.values)


@dataclass
class Oracle:
    """The door of one release: answers as told, then notes the next call and stops it."""

    outcomes: tuple
    book: hv.Ledger
    ids: tuple
    made: int = 0
    call: Call | None = None
    charged: list = field(default_factory=list)

    def add_laplace(self, values, scales):
        """Stand in the place of the door's function of this name."""
        call = Call(chosen=False, values=values.copy(), scales=scales.copy())
        return np.array(self._answer(call), dtype=np.int64)

    def noisy_max(self, scores, scale):
        """Stand in the place of the door's function of this name."""
        call = Call(chosen=True, values=scores.copy(), scales=np.array([scale]))
        return int(self._answer(call))

    def _answer(self, call):
        if not self.made:
            self.charged = charged(self.book, *self.ids)
        if self.made == len(self.outcomes):
            self.call = call
            raise Heard
        self.made += 1
        return self.outcomes[self.made - 1]


@contextmanager
def door(oracle):
    """Put an oracle in the place of the noise door, which test_door.py shows who calls."""
    with patch.multiple(noise, add_laplace=oracle.add_laplace, noisy_max=oracle.noisy_max):
        yield


def charged(book, ids, periods):
    """Return what the ledger says that each unit has spent, in epsilon."""
    one, spent = np.array([1.0]), []
    for k, name in enumerate(ids):
        period = None if periods is None else [periods[k]]
        spent += hash_losses([name], one, book.key, max_loss=1, periods=period).hashes
    account = book.account.name
    with transaction(book._engine) as connection:
        return (odometer.Odometer(connection, account, "").balances(spent) / PARTS).tolist()


@cache
def empty_book():
    """Return a ledger in memory, and a copy of its database before any release."""
    book, copy = hv.Ledger("memory://", dataset="small", budget=BUDGET), sqlite3.connect(":memory:")
    with book._engine.connect() as connection:
        connection.connection.driver_connection.backup(copy)
    return book, copy


def new_book():
    """Return a ledger without a release: always the same one, whose database is put back.

    A new one would compile its statements anew: a third of the time of a release.
    """
    book, copy = empty_book()
    with book._engine.connect() as connection:
        copy.backup(connection.connection.driver_connection)
    return book


def asked(dataset, plan, outcomes):
    """Return the call that a release makes after these outcomes, None at its end, and charges."""
    book = new_book()
    oracle = Oracle(tuple(outcomes), book, (dataset.units.ids(), dataset.units.periods()))
    # Decoding sees what was drawn, and no sums: half of the time of a release, for nothing here.
    with door(oracle), patch("hexveil.publishing.pipeline._decode"):
        try:
            hv.release(dataset, plan, ledger=book, accept_noise=True)
        except Heard:
            return oracle.call, oracle.charged
    return None, oracle.charged


@cache
def choice(scores, scale):
    """Return the logarithm of each candidate's chance, by the definition of permute-and-flip.

    In random order, the first whose coin of odds q falls: q ∫ Π_j (1 - u q_j) du over the others,
    a polynomial in u.
    """
    with localcontext(prec=DIGITS) as _:
        r, most = Decimal(scale), max(scores)
        odds = [(Decimal(one - most) / r).exp() for one in scores]
        found = []
        for i, q in enumerate(odds):
            terms = [Decimal(1)]
            for other in odds[:i] + odds[i + 1 :]:
                raised = [Decimal(0), *(-other * one for one in terms)]
                terms = [a + b for a, b in zip([*terms, Decimal(0)], raised, strict=True)]
            found.append(float((q * sum(t / (k + 1) for k, t in enumerate(terms))).ln()))
    return np.array(found)


@dataclass
class World:
    """All that a search needs: data sets that differ in one unit's values, and the one plan.

    Attributes
    ----------
    datasets : list of Dataset
    plan : Plan
    branches : int
        Outcomes of a choice that are walked, the most telling ones; a grid has up to its cube.
    """

    datasets: list
    plan: hv.Plan
    branches: int
    charged: list = field(default_factory=list)
    last: dict = field(default_factory=dict)

    def worst(self):
        """Return the largest log-ratio of any outcome under any two of the data sets."""
        return self._walk((), np.zeros((len(self.datasets),) * 2))

    def _walk(self, before, ratio):
        """Return the same of outcomes that begin with some; `ratio` is what those tell."""
        calls = [self._ask(one, before) for one in self.datasets]
        if calls[0] is None:
            assert all(one is None for one in calls), "whether noise is drawn hangs on values"
            return float(ratio.max())
        assert all(calls[0].alike(one) for one in calls), (
            "what is asked of the door hangs on values"
        )
        if calls[0].chosen:
            return self._choose(before, ratio, calls)
        return self._noise(before, ratio, calls)

    def _ask(self, dataset, before):
        call, book = asked(dataset, self.plan, before)
        self.charged = self.charged or book
        assert book == self.charged or call is None, "what is booked hangs on values"
        return call

    def _choose(self, before, ratio, calls):
        scale = float(calls[0].scales[0])
        logs = np.array([choice(tuple(one.values.tolist()), scale) for one in calls])
        told = logs[:, None, :] - logs[None, :, :]
        order = np.argsort(-(ratio[:, :, None] + told).max(axis=(0, 1)), kind="stable")
        kept = [*order[: self.branches - 1], order[-1]] if self.branches > 1 else order[:1]
        if self.branches >= order.size:
            kept = order
        return max(
            self._walk((*before, int(k)), ratio + told[:, :, k]) for k in dict.fromkeys(kept)
        )

    def _noise(self, before, ratio, calls):
        values, scales = np.array([one.values for one in calls]), calls[0].scales
        most = ratio + (np.abs(values[:, None] - values[None, :]) / scales).sum(axis=2)
        grid = self._grid(values)
        key = (len(before), values.shape[1])
        if key not in self.last:
            self.last[key] = self._follows(before, grid)
        follows = self.last[key]
        if follows == "nothing":
            return float(most.max())
        if follows == "the same":
            return self._walk((*before, grid[0]), most)
        found = 0.0
        for outcome in grid:
            away = np.abs(np.array(outcome) - values) / scales
            told = (away[None, :] - away[:, None]).sum(axis=2)
            found = max(found, self._walk((*before, outcome), ratio + told))
        return found

    def _grid(self, values):
        """Return outcomes: of each number that moves the ends and the middle, if not too many."""
        low, high = values.min(axis=0).tolist(), values.max(axis=0).tolist()
        each = [sorted({a, (a + b) // 2, b}) for a, b in zip(low, high, strict=True)]
        if np.prod([len(one) for one in each]) > self.branches**3:
            each = [sorted({one[0], one[-1]}) for one in each]
        return list(itertools.product(*each))

    def _follows(self, before, grid):
        """Return whether after noise there is nothing, the same whatever it was, or something."""
        first, last = self.datasets[0], self.datasets[-1]
        once = self._ask(first, (*before, grid[0]))
        if once is None:
            return "nothing"
        asked = ((first, grid[-1]), (last, grid[0]), (last, grid[-1]))
        again, *other = (self._ask(one, (*before, outcome)) for one, outcome in asked)
        alike = once.same(again) and other[0].same(other[1])
        return "the same" if alike else "something"
