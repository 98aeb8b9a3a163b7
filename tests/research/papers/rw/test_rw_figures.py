"""RW's two figures: their lines, what is said of them, and that other curves turn it."""

import numpy as np

from hexveil_research.papers.iot.iot_cells import Curve, X
from hexveil_research.papers.rw import rw_figures

PLOTTED = ["BASELINE", *rw_figures.CLIPPING]
OPTIMISED = list(rw_figures.OPTIMISED)


def curve(level, spread=0.001):
    return Curve(np.full((1, X.size), float(level)), np.full((1, X.size), spread))


def test_a_minimax_cap_that_is_typical_is_seen():
    """If OPT-ARRAY-AVERAGING erred less on all records, the remark would not hold."""
    plotted = {"ARRAY-AVERAGING": curve(1.0)}
    assert rw_figures.not_typical(plotted, {OPTIMISED[0]: curve(2.0)}).holds
    assert rw_figures.not_typical(plotted, {OPTIMISED[0]: curve(0.5)}).holds is False
    assert rw_figures.not_typical(plotted, {OPTIMISED[0]: curve(1.1, 9.0)}).verdict == "undecided"


def test_two_unlike_forms_of_levy_are_seen():
    """Similar is within the factor that is stated."""
    assert rw_figures.levy_claim(curve(1.0), curve(1.0)).holds
    assert rw_figures.levy_claim(curve(2.0), curve(1.0)).holds is False
    assert rw_figures.levy_claim(curve(1.0), curve(2.0)).holds is False
    assert rw_figures.levy_claim(curve(1.0, 9.0), curve(1.0)).verdict == "undecided"


def test_another_order_is_seen():
    """With LEVY worst of all, or BASELINE best, nothing is left of figure 2's claims."""
    level = {name: 1.0 + i for i, name in enumerate(["LEVY", *PLOTTED[:2], *PLOTTED[3:]])}
    plotted = {name: curve(value) for name, value in level.items()}
    ours = {"Foresight": curve(9.0)}
    assert rw_figures.sample_claims(plotted, {}, ours)[1].holds
    worse = {**plotted, "LEVY": curve(99.0)}
    assert not rw_figures.sample_claims(worse, {}, ours)[1].holds
    assert not any(claim.holds for claim in rw_figures.user_claims(plotted, {}, ours))
