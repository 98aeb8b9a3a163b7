"""Counts and speeds of a cell like the published one: every fact holds, whatever the seed."""

from dataclasses import astuple

import numpy as np
import pytest

import hexveil as hv
from hexveil import theory
from hexveil_research.papers import exponential_mechanism as printed
from hexveil_research.papers import itms


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 3, 8, 9, 123456])
def test_every_published_fact_holds_for_any_seed(seed):
    """217 users of 1 to 417 samples, 17166 in all, median 46, and 160 and 164 arrays."""
    m = itms.counts(seed)
    assert (m.size, m.max(), m.min(), m.sum()) == (217, 417, 1, 17166)
    assert (m >= 46).sum() == 109  # IOT's own definition of the median: half of the users
    cap = theory.sqrt_cap(m)
    assert np.minimum(m, cap).sum() // cap == 160
    assert theory.best_fit(m, cap).n_arrays == 164
    assert astuple(itms.facts(m)) == (217, 417, 1, 17166, 46, 160, 164)


# ---- The exponential mechanism of the figures: its law, and that choices follow it ----


def test_a_mechanism_with_the_printed_choice_follows_its_law():
    """Estimates of AKMV without its last noise have the chances of the law."""
    plan = printed.PrintedChoice(hv.mechanisms.AKMV()).plan(
        [40, 20, 10, 5, 3], bounds=(0, 8), epsilon="0.4"
    )
    means = [8.0, 3.0, 5.0, 1.0, 6.0]
    sums = plan.cell.sums(means)
    stage = plan.allocation.stages[0]
    (costs,), (request,) = stage.measure(sums, {}), stage.noise({})
    law = printed.exponential_law(-costs.scores, costs.sizes, request.scale)[0]
    chosen = plan.outputs(sums, printed.ExponentialNoise(np.random.default_rng(5), 30_000))[
        stage.name
    ]
    end = np.cumsum(costs.sizes[0])
    runs = np.searchsorted(end, chosen[:, 0], side="right")
    assert np.bincount(runs, minlength=law.size) / runs.size == pytest.approx(law, abs=0.015)
    # Simulated noise, whose choices are permute-and-flip, is replaced by it.
    noise = printed.ExponentialNoise(np.random.default_rng(5), 30_000)
    simulated = plan.simulate(means, np.random.default_rng(5), 30_000)
    assert simulated.tolist() == plan.estimates(sums, noise).tolist()
