"""Small worlds for the exact laws: who reported how often where, every kind of plan, neighbours."""

import itertools
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa

import hexveil as hv
from attack.exact_law import World
from hexveil.base.errors import InputError

LOWER, QUANTUM = -2.0, 0.5
BOTH = ("mean", "variance")


@dataclass(frozen=True)
class Kind:
    """A kind of plan.

    Attributes
    ----------
    asked : mapping
        Of `hv.plan`, beside epsilon.
    floor : float
        The part of what is booked that is lost, at least, by that unit of a world of which most is:
        on average over the worlds of the suite.
    """

    asked: dict
    floor: float

    @property
    def private(self):
        """Whether ranges are chosen privately, from few points."""
        return "clipping_range" in self.asked

    @property
    def squared(self):
        """Whether a neighbour is told by squares too."""
        return set(self.asked.get("statistics", ("mean",))) != {"mean"} or "error" in self.asked


def _apart(method, **more):
    return {"method": method, **more}


KINDS = {
    "joint": Kind({}, 0.99),
    "joint, largest error": Kind({"objective": "max"}, 0.99),
    "joint, target": Kind({"target_error": "20%"}, 0.99),
    "joint, average target": Kind({"target_error": "20%", "objective": "mean"}, 0.99),
    "joint, variance": Kind({"statistics": "variance"}, 0.99),
    "joint, sd": Kind({"statistics": "sd", "objective": "max"}, 0.99),
    "joint, both": Kind({"statistics": BOTH}, 0.99),
    "joint, both, largest error": Kind({"statistics": (*BOTH, "sd"), "objective": "max"}, 0.95),
    "joint, both, target": Kind(
        {"statistics": BOTH, "target_error": {"mean": "20%", "variance": "8%"}}, 0.9
    ),
    "joint, both, average target": Kind(
        {
            "statistics": BOTH,
            "target_error": {"mean": "20%", "variance": "8%"},
            "objective": "mean",
        },
        0.9,
    ),
    "per-cell": Kind(_apart("per-cell"), 0.99),
    "per-cell, baseline": Kind(_apart("per-cell", mechanism=hv.mechanisms.Baseline()), 0.99),
    "per-cell, target": Kind(_apart("per-cell", target_error="25%"), 0.99),
    "per-cell, variance": Kind(_apart("per-cell", statistics="variance"), 0.75),
    "per-cell, both": Kind(_apart("per-cell", statistics=BOTH), 0.75),
    "per-cell, both, baseline": Kind(
        _apart("per-cell", statistics=BOTH, mechanism=hv.mechanisms.Baseline()), 0.95
    ),
    "equal-split": Kind(_apart("equal-split"), 0.99),
    "composition, both": Kind(_apart("equal-split", statistics=BOTH), 0.7),
    "clip-user": Kind(_apart("clip-user"), 0.99),
    "clip-user, both": Kind(_apart("clip-user", statistics=BOTH), 0.9),
    "clip-user, sd": Kind(_apart("clip-user", statistics="sd"), 0.75),
    "private": Kind({"clipping_range": "private"}, 0.84),
    "global, variance": Kind({"clipping_range": "private", "statistics": "variance"}, 0.7),
    "global, both": Kind({"clipping_range": "private", "statistics": BOTH}, 0.7),
    # Four users have too few votes for ranges of cells, which have laws of their own
    # (tests/mechanisms/cell_ranges).
    "auto": Kind({"clipping_range": "auto", "epsilon": 54}, 0.84),
}

KNOWN = (
    ([[3], [3], [2]], 2), ([[3, 1], [3, 2], [2, 0]], 1), ([[2, 1, 1], [1, 1, 0], [1, 0, 1]], 1),
    ([[1, 0], [1, 1]], 2), ([[3], [1]], 2), ([[1]], 3), ([[3, 3], [1, 0], [0, 1]], 1),
    ([[1, 3], [2, 1], [0, 2], [1, 1]], 1),
)  # fmt: skip
"""Counts (users down, cells across) with quanta of the bounds: uneven users, pairs that are cut,
users of more than half a cell, cells of one record, a user alone."""


@dataclass(frozen=True)
class Case:
    """A kind of plan for a small world."""

    kind: Kind
    counts: np.ndarray
    steps: int
    privacy_unit: str
    plan: hv.Plan
    dataset: object

    @property
    def pairs(self):
        """Number of user and of records of each pair, in the order of the occupancy."""
        occupancy = self.dataset.occupancy
        return occupancy.user, occupancy.n


def case(kind, seed):
    """Return a case of a kind: of the known worlds first, then of random ones."""
    rng = np.random.default_rng([seed, 17])
    for _ in range(100):
        counts, steps = _world(kind, seed, rng)
        seed += len(KNOWN)  # a world that cannot be planned so is followed by a random one
        try:
            made = planned(kind, counts, steps, rng)
        except InputError:
            continue
        if made.plan.epsilon:
            return made
    raise AssertionError("no world for this kind of plan")


def planned(kind, counts, steps, rng):
    """Return a kind of plan for a world."""
    privacy_unit = "user-day" if rng.random() < 0.3 else "user"
    dataset = _counted(counts.shape, counts.tobytes(), steps, privacy_unit)
    # With its bound: every release of a world would compute it anew.
    plan = hv.plan(dataset, **_asked(kind, rng), advise=False).with_lower_bound()
    return Case(kind, counts, steps, privacy_unit, plan, dataset)


def _world(kind, seed, rng):
    if seed < len(KNOWN):
        counts, steps = KNOWN[seed]
        return np.array(counts), steps
    while True:
        shape = rng.integers(1, 5), rng.integers(1, 4)
        counts = rng.integers(1, 4, shape) * (rng.random(shape) < 0.7)
        if counts.any(axis=0).all() and counts.any(axis=1).all():
            return counts, int(rng.integers(1, 3 if kind.private or counts.size > 6 else 4))


def _asked(kind, rng):
    asked = dict(kind.asked)
    if "target_error" not in asked:
        # At less, noise of squares under an interval may leave 64 bits where users are so few.
        least = "1.5" if kind.private else "0.3"
        asked.setdefault("epsilon", rng.choice([least, "1", "2.5", "6"]).item())
    return asked


@cache
def _counted(shape, counts, steps, privacy_unit):
    """Return the data set of a world, of its counts as bytes: many kinds are planned for one."""
    return dataset_of(np.frombuffer(counts, np.int64).reshape(shape), steps, privacy_unit)


def dataset_of(counts, steps, privacy_unit="user", quanta=(0, 0)):
    """Return records of these counts and sums of quanta and of their squares, read as sums."""
    user, cell = np.nonzero(counts)
    order = np.lexsort((user, cell))
    user, cell = user[order], cell[order]
    day = [f" 2026-11-{20 + u % 3}" if privacy_unit == "user-day" else "" for u in user]
    n, (total, squares) = counts[user, cell], quanta
    table = pa.table(
        {
            "cell": [f"r{g}" for g in cell],
            "user": [f"bus {u}{d}" for u, d in zip(user, day, strict=True)],
            "n": n,
            "sum": LOWER * n + QUANTUM * total,
            "sum_sq": LOWER**2 * n + 2 * LOWER * QUANTUM * total + QUANTUM**2 * squares,
        }
    )
    bounds = LOWER, LOWER + QUANTUM * steps
    return hv.from_sums(
        table, bounds=bounds, quantum=QUANTUM, min_users=1, privacy_unit=privacy_unit
    )


def worlds(case, rng, *, units, bases, more=1, most, branches):
    """Yield units with worlds in which their values alone differ.

    Parameters
    ----------
    case : Case
    rng : Generator
    units : int
        How many: the one that is charged most first.
    bases : int
        Values of the others that are tried: all low, random, all high, then random ones.
    more : int
        How many of them are tried with each unit but the first.
    most : int
        Data sets in a world: those of extreme values first.
    branches : int
    """
    user, n = case.pairs
    follows = {}
    for place, one in enumerate(np.argsort(-case.plan.losses(), kind="stable")[:units].tolist()):
        # Numbers are sums, so what the others have cancels unless a release looks at it.
        for base in range(bases if place == 0 else more):
            others = [_values(int(m), case.steps, base, rng) for m in n]
            mine = np.flatnonzero(user == one)
            options = [_options(int(n[p]), case.steps, squares=case.kind.squared) for p in mine]
            found = []
            for own in _some(options, most, rng):
                pairs = list(others)
                for p, values in zip(mine, own, strict=True):
                    pairs[p] = values
                found.append(_with(case.dataset, pairs))
            yield one, World(found, case.plan, branches, last=follows)


def _values(m, steps, base, rng):
    """Return the quanta of a pair's records: all low, random, all high, or random again."""
    if base in {0, 2}:
        return (steps * base // 2,) * m
    return tuple(int(k) for k in rng.integers(0, steps + 1, m))


def _options(m, steps, *, squares):
    """Return what m records can be, the extreme ones first; up to equal sums."""
    every = itertools.combinations_with_replacement(range(steps + 1), m)
    distinct = {}
    for values in every:
        distinct.setdefault((sum(values), sum(k * k for k in values) if squares else 0), values)
    extreme = [(0,) * m, (steps,) * m]
    return extreme + [one for one in distinct.values() if one not in extreme]


def _some(options, most, rng):
    """Return combinations of the options of several pairs, those of extreme ones first."""
    ends = list(itertools.product(*(one[:2] for one in options)))
    total = int(np.prod([len(one) for one in options]))
    if total <= most:
        return list(itertools.product(*options))
    chosen = dict.fromkeys(ends[:1] + ends[-1:] + ends[1:-1])
    while len(chosen) < min(most, total):
        chosen[tuple(one[rng.integers(len(one))] for one in options)] = None
    return list(chosen)[:most]


def _with(dataset, pairs):
    """Return the data set with other values: what the door for sums makes of their sums."""
    total = np.array([sum(one) for one in pairs], dtype=np.int64)
    squares = np.array([sum(k * k for k in one) for one in pairs], dtype=np.int64)
    return replace(dataset, sums=type(dataset.sums)(total, squares))
