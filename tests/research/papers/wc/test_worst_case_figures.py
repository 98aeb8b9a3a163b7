"""WC's studies: each runs, and has the stated lines and claims."""

import numpy as np

from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil_research.papers.study import Setting
from hexveil_research.papers.wc import worst_case_figures
from hexveil_research.papers.wc.count_collections import geometric

STUDIES = {study.name: study for study in worst_case_figures.STUDIES}


def test_the_error_of_akmv_is_that_of_the_papers_formula():
    """E at ε = 2 is (Σ E max(U m - T, 0) + 2 E T/ε)/N, for T as the mechanism draws it."""
    counts = geometric()
    plan = worst_case_figures.HALVES.plan(counts, bounds=(0, 65), epsilon=2)
    noise = SimulatedNoise(np.random.default_rng(1), 4000)
    outputs = plan.outputs(plan.cell.sums(np.full(counts.size, 65.0)), noise)
    top = plan.allocation.range_sum.clipping.ends(outputs)[1] * float(plan.cell.quantum)
    expected = np.maximum(65.0 * counts - top[:, None], 0).sum(axis=1).mean() + top.mean()
    found = worst_case_figures.akmv_error(counts, Setting(trials=4000))
    assert abs(found.error[-1] - expected / 448) < 6 * found.standard_error[-1]
