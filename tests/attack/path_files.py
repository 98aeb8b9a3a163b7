"""Neighbouring files: the same rows, but that one user's values lie at one end or the other."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hexveil as hv
from hexveil.planning.component import goal
from hexveil.planning.saved_plans import encode

LOW, HIGH = -1000.0, 1000.0
"""What stands in the files: far outside the bounds, so that clamping is part of the path."""
MIDNIGHT = 1_699_986_600
"""In Kolkata, in seconds since 1970."""


def one_id(group, number):
    """Return the id of a user: the target is number 0."""
    return f"{group:03d} {'canary' if not number else f'bus {number}'}"


@dataclass(frozen=True)
class Setting:
    """Records of a fleet, and how they are read and planned.

    Attributes
    ----------
    counts : mapping of cell name to records of each user
        The first user is the target, whose values differ between the two files.
    plan, read : dict
        Arguments of the plan, and more than the usual ones of reading.
    days, moving : int
        On how many days the same is recorded, and on how many of them the target's values differ.
    groups : int
        Fleets of the same kind, with cells and users of their own: as many targets.
    """

    counts: dict
    plan: dict = field(default_factory=dict)
    read: dict = field(default_factory=dict)
    days: int = 1
    moving: int = 1
    groups: int = 1

    def rows(self, *, right):
        """Return the records of one file."""
        return [
            {
                "bus": one_id(group, number),
                "route": f"{group:03d} {cell}",
                "lat": 21.1 + 0.3 * place,
                "lon": 72.8,
                "at": MIDNIGHT + 86_400 * day + 3600 * (2 + place) + 60 * k,
                "v": HIGH if right and not number and day < self.moving else LOW,
            }
            for group in range(self.groups)
            for day in range(self.days)
            for place, (cell, counts) in enumerate(self.counts.items())
            for number, n in enumerate(counts)
            for k in range(n)
        ]

    def files(self, folder):
        """Write the two files and return their paths."""
        paths = folder / "left.parquet", folder / "right.parquet"
        for path, right in zip(paths, (False, True), strict=True):
            pq.write_table(pa.Table.from_pylist(self.rows(right=right)), path)
        return paths

    def dataset(self, path):
        """Return the records of a file as read."""
        asked = {"cells": hv.Labels("route"), "bounds": (0, 60), "quantum": "0.5"}
        everybody = hv.Select(min_users=1)
        return hv.read(path, user="bus", value="v", select=everybody, **asked | self.read)

    def planned(self, dataset):
        """Return the plan of a data set."""
        return hv.plan(dataset, advise=False, **self.plan)

    def both(self, folder):
        """Return the data sets of the two files, each read once, and the one plan of both."""
        left, right = (self.dataset(path) for path in self.files(folder))
        plan, other = self.planned(left), self.planned(right)
        assert goal(plan) == goal(other)
        assert encode(plan) == encode(other)
        assert np.array_equal(plan.losses(), other.losses())
        assert left.units.ids() == right.units.ids()
        return left, right, plan


def losses_of_target(dataset, plan):
    """Return what each unit of the first target loses by the plan: one, unless it has several."""
    losses = zip(dataset.units.ids(), plan.losses().tolist(), strict=True)
    return [loss for name, loss in losses if name.decode() == one_id(0, 0)]
