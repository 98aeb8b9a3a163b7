"""A mechanism as an engineer would add it: this file, and a line in the registry.

Every user counts the same: Σ floor(1024 s/m) over 1024 L, L the number of users.
Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: floor(1024 s/m) is monotone in s, with whole ends 0 and 1024 S: a user moves it by the
latter, exactly.
Loss: ε for every user, by `LinearSum`.
"""

from dataclasses import dataclass

import numpy as np

from hexveil.accounting.error_model import LN20
from hexveil.mechanisms import CellMechanism
from hexveil.mechanisms.single_cell import CellAllocation, EstimateError
from hexveil.mechanisms.single_cell.clipped_user_sums import LinearSum


@dataclass(frozen=True, eq=False)
class MeanOfUserMeans(CellAllocation):
    """Every user counts the same: Σ floor(s/m) over the number of users."""

    kind = "mean-of-user-means"

    def estimate(self, outputs):
        """Return the estimates: see `CellAllocation.estimate`."""
        return outputs["mean"][:, 0] / (1024 * self.cell.counts.size)

    def sensitivity(self, width):
        """Return U/L."""
        return width / self.cell.counts.size

    def error(self, width):
        """Return the proven error: see `CellAllocation.error`."""
        share = self.cell.counts / self.cell.total
        bias = width * float(np.maximum(share - 1 / share.size, 0).sum())
        scale = self.sensitivity(width) / float(self.epsilon)
        return EstimateError(scale, bias + scale * LN20, bias)

    def grid(self):
        """Return multiples of a part of a quantum over L."""
        return 0.0, 1 / (1024 * self.cell.counts.size)


@dataclass(frozen=True, repr=False)
class UserAverage(CellMechanism):
    """The mean of user means, each to 1/1024 of a quantum."""

    def allocate_cell(self, cell, epsilon):
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        weight = np.full_like(cell.counts, 1024)
        ends = np.zeros_like(weight), weight * cell.span
        stage = LinearSum("mean", cell.counts, weight, *ends, cell.span, epsilon)
        return MeanOfUserMeans(cell, epsilon, (stage,))
