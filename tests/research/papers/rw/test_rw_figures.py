"""RW's two figures: their lines, what is said of them, and that other curves turn it."""

import numpy as np
import pytest

from hexveil.mechanisms import AKMV, Auto, OptimalClipping
from hexveil_research.mechanisms.foresight import Foresight
from hexveil_research.papers.iot import figure_claims, iot_cells
from hexveil_research.papers.iot.iot_cells import Curve, X
from hexveil_research.papers.rw import STUDIES, rw_figures
from hexveil_research.papers.study import Setting

SIX_CELLS = Setting(trials=600)
PLOTTED = ["BASELINE", *rw_figures.CLIPPING]
OPTIMISED = list(rw_figures.OPTIMISED)


@pytest.fixture(scope="module")
def both():
    """Figures 1 and 2 at three values of ε, with quick mechanisms in the places of ours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iot_cells, "EPSILONS", ("0.5", "1", "2"))
        patch.setattr(rw_figures, "OURS", {"Foresight": OptimalClipping(), "Auto": AKMV()})
        for module in (iot_cells, figure_claims, rw_figures):
            patch.setattr(module, "X", np.array([0.5, 1.0, 2.0]))
        return rw_figures.like_itms(SIX_CELLS), rw_figures.scaling(SIX_CELLS)


@pytest.fixture
def first(both):
    return both[0]


@pytest.fixture
def second(both):
    return both[1]


def names(panel):
    return [line.name for line in panel.lines]


def verdicts(outcome, reading="as printed"):
    return {c.says: c.verdict for c in outcome.claims if c.reading == reading}


def test_studies_are_listed():
    """Two figures and the claims; ours are what their names say."""
    ours = {"Foresight": Foresight(), "Auto": Auto()}
    assert ours == rw_figures.OURS
    assert [study.name for study in STUDIES] == ["rw:fig1", "rw:fig2", "rw:claims"]


@pytest.mark.slow
def test_figure_1_has_all_algorithms(first):
    """RW's five, its OPT-ARRAY-AVERAGING in two forms, and ours."""
    panel, choices = first.panels
    assert names(choices)[-2:] == [
        "ε-DEPENDENTQUANTILE, exponential mechanism (printed)",
        "ε-DEPENDENTQUANTILE, permute-and-flip",
    ]
    assert names(panel) == [*PLOTTED, *OPTIMISED, "Foresight", "Auto"]
    assert [line.whose for line in panel.lines] == ["paper"] * 7 + ["ours"] * 2
    assert panel.log_y
    assert panel.ends
    assert "km/h" in panel.y_label
    for line in panel.lines:
        assert line.x.tolist() == [0.5, 1.0, 2.0]
        assert (line.low <= line.y).all()
        assert (line.y <= line.high).all()


def test_figure_2_has_two_panels(second):
    """Sample scaling and user scaling, and the private choice in each; Auto is in the first."""
    samples, users, *choices = second.panels
    assert [len(names(panel)) for panel in choices] == [6, 6]
    assert names(samples) == [*PLOTTED, *OPTIMISED, "Foresight", "Auto"]
    assert names(users) == [*PLOTTED, *OPTIMISED, "Foresight"]
    assert samples.lines[0].y == pytest.approx(10 * users.lines[0].y, rel=0.5)


@pytest.mark.slow
def test_what_figure_1_says(first):
    """The published facts are met, minimax is not typical, and nothing is refuted."""
    found = verdicts(first)
    assert {claim.paper for claim in first.claims} == {"RW"}
    # Six cells leave open whether clipping is much better at every ε.
    assert [says.split()[0] for says, verdict in found.items() if verdict == "holds"] == [
        "L",
        "The",
    ]
    assert "fails" not in found.values()
    levy = next(claim for claim in first.claims if claim.place == "Appendix C")
    assert levy.holds


@pytest.mark.slow
def test_what_figure_2_says(second):
    """LEVY is best with more samples, FIXEDQUANTILE with more users, by a wide margin."""
    found = verdicts(second)
    best = [says for says in found if "errs less than all other algorithms" in says]
    assert [says.split()[0] for says in best] == ["LEVY", "FIXEDQUANTILE"]
    assert all(found[says] == "holds" for says in best)


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
