"""Pooled histogram: whole votes of all units over bins, released in one norm.

Each unit casts whole votes, at most `PARTS` = 2^20 together, and a value with its votes lies in one
bin. The inner edges of the bins are public: fixed, or made from numbers that were released before.
All bins get noise of one scale, whatever their number. What a range cuts off, quantiles and
deviations follow from the noisy bins without further loss (`pooled_law`).

**Presence private.** Neighbours: all records of one privacy unit are added or removed.
Sensitivity: votes are not negative, and those of other units do not change. So a unit moves all
bins together by an L1 distance of its votes, at most PARTS, and by no more than that in L2.
Loss: PARTS / b with discrete Laplace noise of scale b; or PARTS² / r² as a square of μ with
discrete Gaussian noise of parameter r . Votes of a unit are limited by their
sum under either noise: values of several cells meet in one bin, where squares would not do.

**Values private.** Neighbours: one unit's values all change within the bounds; units, counts and
votes are public.
Sensitivity: a unit's bins are not negative and add up to its V <= PARTS votes, whatever its values
are. Two such vectors differ by an L1 distance of at most 2 V and an L2 distance of at most √2 V,
which all votes moving from one bin to another attain.
Loss: 2 V / b, or 2 V² / r² as a square of μ (`distribution.binned_stage`).

Source: L1 sensitivity of histograms (Dwork, McSherry, Nissim and Smith, 2006), with whole votes in
place of counts; the discrete Gaussian (Canonne, Kamath and Steinke, 2020).
Later ranges depend on the noisy bins and on public facts alone, so stages compose adaptively
(`mechanisms.contract`). Sums of votes of fewer than 2^32 units are below 2^53.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import EvenNoise, Values
from hexveil.mechanisms.distribution.binned_stage import two_bins
from hexveil.mechanisms.private_quantile import ListedPoints

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Ints
    from hexveil.mechanisms.contract import Outputs, PrivateSums, SensitivityReport


class VotedValues(Protocol):
    """Values, wherever they are, each with a number of votes. PRIVATE once measured."""

    def tally(self, sums: PrivateSums, candidates: ListedPoints) -> Ints:
        """Return the votes of each place, shape (batch, n_points + 1). PRIVATE.

        A value takes the place of the first point that is not below it; last come those above all.
        """


@dataclass(frozen=True, eq=False)
class PooledHistogram(EvenNoise, ReadOnlyArrays):
    """Noisy votes of each bin; its row also holds public decisions made from them.

    Attributes
    ----------
    name : str
    values : VotedValues
    edges : ndarray of int64, shape (n_bins - 1,)
        Inner edges, ascending; a value at an edge lies in the bin below it.
    law : NoiseLaw
        Of the noise on every bin.
    report : SensitivityReport
    decide : callable, optional
        From the noisy votes of a release to whole numbers, such as a range. They are stored with
        the votes, as the last digits of a double may differ between processors.
    n_decided : int
        How many those are.
    """

    name: str
    values: VotedValues
    edges: Ints
    law: NoiseLaw
    report: SensitivityReport
    decide: Callable[[Ints], Ints] | None = None
    n_decided: int = 0

    @classmethod
    def of_users(
        cls, name: str, values: VotedValues, edges: Ints, user_votes: Ints, noise: NoiseLaw
    ) -> PooledHistogram:
        """Return the stage where values alone are private.

        Parameters
        ----------
        name : str
        values : VotedValues
        edges : ndarray of int64
        user_votes : ndarray of int64, shape (n_users,)
            Votes of each user over all of its values.
        noise : NoiseLaw
            Of every bin.
        """
        users = np.arange(user_votes.size)
        report = two_bins(users, np.zeros_like(users), user_votes)
        return cls(name, values, edges, noise, report)

    @property
    def n_bins(self) -> int:
        """One more than the inner edges."""
        return int(self.edges.size) + 1

    @property
    def n_noised(self) -> int:
        """The bins."""
        return self.n_bins

    @property
    def entries(self) -> int:
        """Noisy votes, then the decisions."""
        return self.n_bins + self.n_decided

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return by how much a unit moves all bins together."""
        return (self.report,)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the votes of each bin. PRIVATE."""
        return (Values(self.values.tally(sums, ListedPoints(self.edges))),)

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:  # noqa: ARG002  see Stage.row
        """Return the noisy votes, then the decisions made from them."""
        if self.decide is None:
            return drawn
        return np.hstack([drawn, np.array([self.decide(noisy) for noisy in drawn])])

    def votes(self, outputs: Outputs) -> Ints:
        """Return the released votes of each bin."""
        return np.asarray(outputs[self.name][0][: self.n_bins])

    def decisions(self, outputs: Outputs) -> Ints:
        """Return the decisions that were stored with them."""
        return np.asarray(outputs[self.name][0][self.n_bins :])
