"""Outcomes of the publishing path under neighbours, and the bound on a loss that they prove.

Outcome: the noisy whole numbers of every cell and statistic at once. With left and right the two
neighbours' numbers without noise, and R the noise scales (public), the likelihood ratio of an
outcome z is exp(l(z)), l(z) = Σ (|z - right| - |z - left|) / R, for the noise is discrete Laplace.
Events are {l >= t}: no event of equal chance tells the neighbours apart better (Neyman, Pearson).
The mirror image {l <= -t} is the event of the other direction. t is one of a fixed list.

All bounds of the folder hold together but for a chance of one in a million.

Whole runs: file, engine, plan, book, noise and folder, each with a new ledger. Each file holds many
fleets of the same kind, with cells and users of their own. What is published of one fleet depends
on its records and its noise alone, so that a run of either file is as many independent outcomes as
there are fleets, each of a pair of neighbours. Were it not so, the audit would raise an alarm.
"""

import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq

import hexveil as hv
from hexveil.mechanisms import noise
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.looks.clipped_variance import STEPS, centring
from hexveil.mechanisms.sensitivity_report import UNMETERED
from hexveil.publishing.pipeline import private_sums
from hexveil_research.audit import loss_bound
from hexveil_research.audit.run import FAMILY
from mechanisms import measuring

AUDITS = 40
"""Bounds that are compared with a claim, in the long form; test_path_audit.py counts them."""
SHARES = (0.9, 0.7, 0.5)
"""Thresholds t, as shares of the largest l."""
LEVEL = FAMILY / (AUDITS * len(SHARES) * 4)
"""The chance allowed per end: two directions, and two ends of each."""


@dataclass(frozen=True, eq=False)
class Pair:
    """What two neighbours hand to the noise door, entry by entry; all of it known to the attacker.

    Attributes
    ----------
    left, right : ndarray of int, shape (..., n_entries)
        Numbers without noise.
    scales : ndarray of float, shape (..., n_entries)
        Of the noise that is really drawn.
    """

    left: np.ndarray
    right: np.ndarray
    scales: np.ndarray

    @property
    def exact(self):
        """Return the exact loss between the two, as a fraction; the largest of several."""
        moved = np.abs(self.left - self.right).reshape(-1, self.left.shape[-1]).tolist()
        scales = self.scales.reshape(-1, self.left.shape[-1]).tolist()
        return max(
            sum(Fraction(d) / Fraction(r) for d, r in zip(*row, strict=True))
            for row in zip(moved, scales, strict=True)
        )

    def evidence(self, outcomes):
        """Return l of each outcome: above zero it speaks for the left."""
        right, left = np.abs(outcomes - self.right), np.abs(outcomes - self.left)
        return ((right - left) / self.scales).sum(axis=-1).ravel()


def handed(dataset, plan, door):
    """Release with a function in place of the door, from whole numbers and scales to numbers."""
    measuring.check(dataset, plan)
    stages = measuring.allocation_of(plan, dataset.public.lattice)
    with patch.object(noise, "add_laplace", door):
        execute(stages, private_sums(dataset), noise.VettedNoise(), MemoryJournal(), UNMETERED)


def pair_of(left, right, plan):
    """Return the pair of two data sets under one plan."""
    seen = []

    def door(values, scales):
        seen.append((values.copy(), scales.copy()))
        return values

    for dataset in (left, right):
        handed(dataset, plan, door)
    (numbers, scales), (others, same) = seen
    assert scales.tolist() == same.tolist()
    return Pair(numbers, others, scales)


def draws(dataset, plan, n):
    """Return n outcomes, a row each: the publishing functions' own numbers, through the door.

    The numbers of a release are the same every time, so that they are computed once, and the door
    is asked once for all releases.
    """
    door, batches = noise.add_laplace, []

    def many(values, scales):
        batches.append(door(np.tile(values, n), np.tile(scales, n)).reshape(n, -1))
        return batches[0][0].copy()

    handed(dataset, plan, many)
    (batch,) = batches
    return batch


def bound(pair, for_left, for_right):
    """Return the largest loss proven by outcomes under the left input and under the right one."""
    left, right = pair.evidence(for_left), pair.evidence(for_right)
    return max(
        loss_bound(int((sample >= t).sum()), int((other >= t).sum()), left.size, LEVEL)
        for sample, other in ((left, right), (-right, -left))
        for t in np.array(SHARES) * float(pair.exact)
    )


# ---- whole runs ----


def whole_numbers(table, plan, scale):
    """Return the noisy whole numbers from a published table: entries as at the door.

    Every one is found again from its double; all cells must have noise.
    """
    found = []
    if "mean" in plan.error_models:
        parts = 2 * plan.occupancy.records_per_cell / float(scale.quantum)
        found.append((table["mean_noisy"].to_numpy() - plan.lower) * parts)
    if "variance" in plan.error_models:
        part = plan.error_models["variance"]
        shown = table["variance_noisy"].to_numpy() / part.unit - centring(part.clipped_share)
        found.append(shown / part.noise * STEPS)
    numbers = np.rint(np.concatenate(found)).astype(np.int64)
    # A double holds 53 bits, a variance of b / 2^30 steps about 35.
    assert np.abs(np.concatenate(found) - numbers).max() < 1e-2
    return numbers


def by_fleet(entries, setting):
    """Return entries, cells within statistics, as a row for each fleet."""
    cells = setting.groups * len(setting.counts)
    parts = entries.reshape(-1, setting.groups, cells // setting.groups)
    return np.concatenate(list(parts), axis=1)


def run(setting, source):
    """Return what one run publishes, as whole numbers of each fleet, and what the ledger says."""
    with tempfile.TemporaryDirectory() as name:
        dataset = setting.dataset(source)
        plan = setting.planned(dataset)
        book = hv.Ledger(Path(name) / "ledger.sqlite", dataset="buses", budget=100)
        released = hv.release(dataset, plan, ledger=book, accept_noise=True)
        table = pq.read_table(released.write(Path(name) / "map") / "cells.parquet")
        assert tuple(table["cell"].to_pylist()) == plan.names
        numbers = whole_numbers(table, plan, dataset.public.lattice)
        return by_fleet(numbers, setting), book.spent


def runs(setting, source, n):
    """Return the outcomes of n runs, a row for each fleet of each, and what each run booked."""
    made = [run(setting, source) for _ in range(n)]
    (spent,) = {spent for _, spent in made}
    return np.stack([outcome for outcome, _ in made]), spent
