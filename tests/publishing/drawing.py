"""Private stages run without a ledger, and what a booked release found."""

import numpy as np

from hexveil.mechanisms.contract import UNMETERED, MemoryJournal, Outputs, execute
from hexveil.mechanisms.noise import VettedNoise
from hexveil.planning.release_allocation import allocation_of
from hexveil.publishing.private_sums import private_sums


def executed(dataset, plan):
    """Return a plan's allocation and the outputs of all its stages, drawn now."""
    allocation = allocation_of(plan, dataset.public.lattice)
    sums = private_sums(dataset)
    return allocation, execute(allocation, sums, VettedNoise(), MemoryJournal(), UNMETERED)


def drawn(dataset, plan):
    """Return the noisy integers of all cells, by statistic."""
    allocation, outputs = executed(dataset, plan)
    return allocation.numbers(outputs)


def stage_draw(dataset, stage):
    """Return the row of one stage, measured and drawn now."""

    class Only:
        def next_stage(self, outputs):
            return None if stage.name in outputs else stage

    outputs = execute(Only(), private_sums(dataset), VettedNoise(), MemoryJournal(), UNMETERED)
    return outputs[stage.name][0]


def interval_of(booking, dataset, plan):
    """Return the ends that a booked release of one range found, in quanta."""
    allocation = allocation_of(plan, dataset.public.lattice)
    return allocation.released_range(
        Outputs({"histogram": np.array([booking.stages["histogram"]])})
    )
