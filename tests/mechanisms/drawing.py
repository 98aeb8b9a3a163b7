"""Private stages run without a ledger, and what a booked release found."""

import numpy as np

from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.sensitivity_report import UNMETERED
from hexveil.mechanisms.stage_data import Outputs
from hexveil.planning.allocation import allocation_of
from hexveil.publishing.pipeline import private_sums


def executed(dataset, plan):
    """Return a plan's allocation and the outputs of all its stages, drawn now."""
    allocation = allocation_of(plan, dataset.public.lattice)
    sums = private_sums(dataset)
    return allocation, execute(allocation, sums, VettedNoise(), MemoryJournal(), UNMETERED)


def drawn(dataset, plan):
    """Return the noisy integers of all cells, by statistic."""
    allocation, outputs = executed(dataset, plan)
    return allocation.numbers(outputs)


def interval_of(booking, dataset, plan):
    """Return the ends that a booked release of one range found, in quanta."""
    allocation = allocation_of(plan, dataset.public.lattice)
    return allocation.released_range(
        Outputs({"histogram": np.array([booking.stages["histogram"]])})
    )
