"""Small fleets on a lattice of few steps, with sums that their counts can have."""

from hexveil.model.public_metadata import ValueLattice
from publishing.setting import dataset_of


def fleet(counts, totals, steps=12):
    """Return a data set on a lattice of few steps."""
    return dataset_of(counts, totals, scale=ValueLattice.of((0, steps), 1))
