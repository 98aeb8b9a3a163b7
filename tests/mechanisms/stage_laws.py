"""Exact laws of an allocation's own stages on tiny problems: the largest loss of every user.

The batch holds every data set of the problem. Every path of earlier outputs is followed, and at the
last stage the discrete Laplace attains exp(|change|/scale). So the largest log-ratio of two
neighbours' chances, over all outputs, comes from the integers and scales that the stages themselves
hand to the noise source, without a formula of the mechanism.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attack.exact_law import choice
from hexveil.mechanisms.contract import DONE, NoisyTotals
from hexveil.mechanisms.per_cell_allocation import MapStage
from hexveil.mechanisms.sensitivity_report import LaplaceNoise, MappedMoves, Meter, Separate
from hexveil.mechanisms.stage_data import Outputs, PrivateSums, Scores, Values

WINDOW = 2
"""Noisy sums that a later stage sees are followed this far beyond the sums there can be."""


def every_data_set(counts, span):
    """Return all sums of pairs with these counts, a row per data set."""
    return np.array(list(itertools.product(*[range(span * int(m) + 1) for m in counts])))


def candidate_scores(scores):
    """Return one score per candidate, a row per data set, from run-length encoded scores."""
    rows = zip(*np.broadcast_arrays(scores.scores, scores.sizes), strict=True)
    return np.array([np.repeat(score, size) for score, size in rows])


@dataclass(frozen=True, eq=False)
class Problem:
    """A tiny map: pairs sorted by cell, all their sums, and who may differ in them."""

    counts: tuple[int, ...]
    span: int
    user: tuple[int, ...] = ()

    @cached_property
    def users(self):
        """Return the user of each pair: one pair each unless given."""
        return np.array(self.user or range(len(self.counts)))

    @cached_property
    def data(self):
        """Return every data set."""
        return every_data_set(self.counts, self.span)

    @cached_property
    def neighbours(self):
        """Return, per user, all pairs of data sets that differ in that user's sums alone."""
        return [self._neighbours(user) for user in range(self.users.max() + 1)]

    def _neighbours(self, user):
        fixed = self.data[:, self.users != user]
        _, group = np.unique(fixed, axis=0, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        edges = np.flatnonzero(np.diff(group.ravel()[order], prepend=-1, append=-2))
        one, other = [], []
        for start, stop in itertools.pairwise(edges):
            i, j = np.meshgrid(order[start:stop], order[start:stop], indexing="ij")
            one.append(i.ravel())
            other.append(j.ravel())
        return np.concatenate(one), np.concatenate(other)


class ExactLoss:
    """The largest log-ratio of every user, found by following every path.

    Parameters
    ----------
    problem : Problem
    allocation : Allocation

    Attributes
    ----------
    worst : ndarray of float, shape (n_users,)
    paths : int
    """

    def __init__(self, problem, allocation):
        self.problem, self.allocation = problem, allocation
        self.sums = PrivateSums(problem.data)
        self.worst = np.zeros(len(problem.neighbours))
        self.paths = 0
        self._follow({}, np.zeros(len(problem.data)), ())

    def _follow(self, rows, logs, metered):
        earlier = Outputs({name: np.array([row]) for name, row in rows.items()})
        stage = self.allocation.next_stage(earlier)
        if stage is DONE:
            self._end(logs, np.zeros((len(logs), 0)), np.ones(0), metered)
            return
        requests, reports = stage.noise(earlier), stage.sensitivity(earlier)
        measured = measured_by(stage, self.sums, earlier)
        self._check_reports(stage, measured, reports)
        metered = (*metered, (requests, reports))
        if self._is_last(stage, rows) and all(isinstance(m, Values) for m in measured):
            values = np.concatenate([m.integers for m in measured], axis=1)
            scales = np.concatenate([np.atleast_2d(r.scales) for r in requests], axis=1)[0]
            self._end(logs, values, scales, metered)
            return
        options = [
            option
            for request, integers in zip(requests, measured, strict=True)
            for option in self._options(request, integers)
        ]
        for path in itertools.product(*options):
            row = [number for number, _ in path]
            self._follow({**rows, stage.name: row}, logs + sum(log for _, log in path), metered)

    def _options(self, request, measured):
        """Return, per number of a query, every value followed with its log-chance per data set."""
        if isinstance(request, LaplaceNoise):
            options = []
            for entry, scale in enumerate(np.atleast_2d(request.scales)[0]):
                column = measured.integers[:, entry]
                followed = range(column.min() - WINDOW, column.max() + WINDOW + 1)
                options.append([(z, -np.abs(z - column) / scale) for z in followed])
            return options
        rows = candidate_scores(measured).tolist()
        logs = np.array([choice(tuple(row), request.scale) for row in rows])
        return [list(enumerate(logs.T))]

    def _is_last(self, stage, rows):
        """Return whether nothing follows, whatever this stage puts out."""
        after = {name: np.array([row]) for name, row in rows.items()}
        after[stage.name] = np.zeros((1, stage.entries), dtype=np.int64)
        return self.allocation.next_stage(Outputs(after)) is DONE

    def _end(self, logs, values, scales, metered):
        """Add the losses of a complete path; the meter accepts it at what is booked."""
        self.paths += 1
        for user, (one, other) in enumerate(self.problem.neighbours):
            gap = logs[one] - logs[other]
            gap = gap + (np.abs(values[one] - values[other]) / scales).sum(axis=1)
            self.worst[user] = max(self.worst[user], gap.max(initial=0.0))
        meter = Meter(self.allocation.losses())
        for requests, reports in metered:
            meter.authorise(requests, reports)

    def _check_reports(self, stage, measured, reports):
        """Check that integers are int64 and that no user moves one by more than is reported."""
        for query, stated_report in zip(measured, reports, strict=True):
            # What earlier stages have authorised changes the loss, not how far numbers move.
            values = query.integers if isinstance(query, Values) else candidate_scores(query)
            assert values.dtype == np.int64
            report = moves_of(stated_report)
            values = np.broadcast_to(values, (len(self.problem.data), values.shape[1]))
            for user, (one, other) in enumerate(self.problem.neighbours):
                by_entry = np.abs(values[one] - values[other])
                moved = by_entry.max(axis=0, initial=0)
                moved = moved if isinstance(query, Values) else moved.max(keepdims=True)
                stated = np.zeros(moved.size, dtype=np.int64)
                rows = report.user == user
                np.add.at(stated, report.entry[rows], report.by[rows])
                # Bins of one scale move together: what is stated at one of them is for all.
                together = by_entry.sum(axis=1).max(initial=0) <= stated.sum()
                joint = isinstance(stage, NoisyTotals) and together
                assert joint or (moved <= stated).all(), (stage.name, user, moved, stated)


def measured_by(stage, sums, earlier):
    """Return the integers of all data sets; stages of maps measure one at a time."""
    if not isinstance(stage, MapStage):
        return stage.measure(sums, earlier)
    alone = (stage.measure(PrivateSums(row), earlier) for row in sums.total)
    merged = []
    for queries in zip(*alone, strict=True):
        if isinstance(queries[0], Values):
            merged.append(Values(np.concatenate([one.integers for one in queries])))
            continue
        scores = np.concatenate([candidate_scores(one) for one in queries])
        merged.append(Scores(scores, np.ones_like(scores)))
    return tuple(merged)


def moves_of(report):
    """Return by how much each user moves each entry, of a report of any kind."""
    if not isinstance(report, MappedMoves):
        return getattr(report, "moves", report)
    made, moves, before = report.moves, [], 0
    pairs = made.occupancy
    for one in made.statistics:
        drawn = np.isfinite(one.scale)
        entry, rows = before + np.cumsum(drawn) - 1, drawn[pairs.cell]
        by = one.moved_by(pairs)
        moves.append((pairs.user[rows], entry[pairs.cell[rows]], by[rows]))
        before += np.count_nonzero(drawn)
    return Separate(*(np.concatenate(column) for column in zip(*moves, strict=True)))


def holds(problem, allocation, epsilon):
    """Return whether no user loses more than is booked, nor books more than ε."""
    booked = allocation.losses()
    worst = ExactLoss(problem, allocation).worst
    return bool(
        (worst <= booked * (1 + 1e-9)).all() and booked.max() <= float(epsilon) * (1 + 1e-9)
    )
