"""Whole runs: file, engine, plan, book, noise and folder, each with a new ledger.

Each file holds many fleets of the same kind, with cells and users of their own. What is published
of one fleet depends on its records and its noise alone, so that a run of either file is as many
independent outcomes as there are fleets, each of a pair of neighbours: a few hundred runs
decide what would take thousands. Were it not so, the audit would be wrong on the safe side:
it would raise an alarm.
"""

import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import hexveil as hv
from attack.path_audit import Pair
from hexveil.mechanisms.looks.clipped_variance import STEPS, centring


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


def pair_by_fleet(pair, setting):
    """Return a pair with a row for each fleet."""
    return Pair(*(by_fleet(one, setting) for one in pair.entries))


def run(setting, source, slip=nullcontext, again=None):
    """Return what one run publishes, as whole numbers of each fleet, and what the ledger says.

    Parameters
    ----------
    setting : Setting
    source : Path
        The file.
    slip : callable
        A broken twin, in which the run is made.
    again : callable, optional
        A broken twin in which the same is asked once more; the answers stand side by side.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, answers = Path(name), []
        for number, twin in enumerate((slip, again) if again else (slip,)):
            with twin():
                dataset = setting.dataset(source)
                plan = setting.planned(dataset)
                book = hv.Ledger(folder / "ledger.sqlite", dataset="buses", budget=100)
                released = hv.release(dataset, plan, ledger=book, accept_noise=True)
                table = pq.read_table(released.write(folder / f"map {number}") / "cells.parquet")
            assert tuple(table["cell"].to_pylist()) == plan.names
            numbers = whole_numbers(table, plan, dataset.public.lattice)
            answers.append(by_fleet(numbers, setting))
        return np.concatenate(answers, axis=1), book.spent


def runs(setting, source, n, **how):
    """Return the outcomes of n runs, a row for each fleet of each, and what each run booked."""
    made = [run(setting, source, **how) for _ in range(n)]
    (spent,) = {spent for _, spent in made}
    return np.stack([outcome for outcome, _ in made]), spent
