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

import numpy as np

from hexveil.accounting.noise_law import NoiseLaw
from hexveil.base.arrays import Ints
from hexveil.mechanisms.contract import NoisyTotals, PrivateSums, SensitivityReport
from hexveil.mechanisms.distribution.binned_stage import two_bins
from hexveil.mechanisms.private_quantile import ListedPoints, VotedValues


def histogram(
    name: str, values: VotedValues, edges: Ints, law: NoiseLaw, report: SensitivityReport
) -> NoisyTotals:
    """Return the stage of the votes of bins, one more than the inner edges between them."""

    def total(sums: PrivateSums) -> Ints:
        return values.tally(sums, ListedPoints(edges))

    return NoisyTotals(name, int(edges.size) + 1, law, report, total)


def user_histogram(
    name: str, values: VotedValues, edges: Ints, user_votes: Ints, law: NoiseLaw
) -> NoisyTotals:
    """Return the same where values alone are private: of the public votes of each user."""
    users = np.arange(user_votes.size)
    return histogram(name, values, edges, law, two_bins(users, np.zeros_like(users), user_votes))
