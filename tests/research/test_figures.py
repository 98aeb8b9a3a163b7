"""Figures of other data than the papers': each is drawn, and of the data that was given."""

from fractions import Fraction

import numpy as np
import pytest

from hexveil import Occupancy, theory
from hexveil.base.errors import InputError
from hexveil.evaluation import Normal
from hexveil_research.figures import figure_setting, outcomes
from hexveil_research.papers import catalogue
from hexveil_research.papers.comp import runs
from hexveil_research.papers.iot import iot_cells
from hexveil_research.papers.study import select_studies

COUNTS = [40, 30, 20, 10, 5, 5, 3, 2, 1]
CITY = Occupancy.from_dense(np.array([[9, 3, 1], [2, 8, 4], [7, 1, 0], [0, 2, 2]]))
SMALL = {"epsilons": ["0.5", "1"], "trials": 20}
OTHERS = ["beyond:clipping"]
"""What takes other data and is no figure of the papers; its own test is beside it."""
FIGURES = [study.name for study in catalogue.STUDIES if study.altered and study.name not in OTHERS]


def test_every_figure_of_the_papers_takes_other_data():
    """All eighteen, and the comparison of mechanisms that goes past them."""
    drawn = {study.name for study in catalogue.STUDIES if ":fig" in study.name}
    assert set(FIGURES) == drawn
    assert len(FIGURES) == 18
    assert [study.altered for study in select_studies(catalogue.STUDIES, OTHERS)] == [True]


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_of_own_counts(name):
    """Its axis has the values of ε that were given; no claim of the papers is judged."""
    (outcome,) = outcomes([name], figure_setting(counts=CITY, bounds=(0, 10), **SMALL)).values()
    assert outcome.panels
    assert outcome.claims == ()
    for panel in outcome.panels:
        assert "own counts" in panel.title
        assert all(line.x.tolist() == [0.5, 1.0] for line in panel.lines)
        assert all(np.isfinite(line.y).all() for line in panel.lines)
        assert "km/h" not in panel.y_label


def test_figure_5_of_iot_is_that_of_the_counts():
    """m^(ε) of the counts that were given."""
    setting = figure_setting(counts=COUNTS, **SMALL)
    caps = outcomes(["iot:fig5"], setting)["iot:fig5"].panels[0].lines[0]
    assert caps.y.tolist() == [theory.minimax_cap(np.array(COUNTS), e) for e in ("0.5", "1")]


def test_figure_3_of_comp_is_that_of_the_counts():
    """K of CLIP-USER on the cells that were given, with the figure's gamma or another."""
    for gamma, used in ((None, 3), (2, 2), (0, 0)):
        setting = figure_setting(counts=CITY, gamma=gamma, **SMALL)
        (panel,) = outcomes(["comp:fig3"], setting)["comp:fig3"].panels
        expected = theory.clip_user(runs.with_heavy_hitters(CITY, used), 65, 1).degradation
        assert panel.lines[1].y[-1] == expected
        assert panel.title.endswith(f"gamma = {used}" if used else "as they are")


def test_figures_3_to_5_of_own_counts_differ():
    """Their gamma is 3, 6 and 9, as in the paper: three figures, not one drawn three times."""
    names = ["comp:fig3", "comp:fig4", "comp:fig5"]
    made = outcomes(names, figure_setting(counts=CITY, **SMALL))
    drawn = [made[name].panels[0] for name in names]
    assert [panel.title[-9:] for panel in drawn] == ["gamma = 3", "gamma = 6", "gamma = 9"]
    assert len({tuple(line.y.sum() for line in panel.lines) for panel in drawn}) == 3


def test_counts_of_one_cell_take_the_place_of_geometric_ones():
    """COMP's layout, every count one of those given."""
    occupancy = runs.occupancy_of(figure_setting(counts=COUNTS), 0, 1)
    assert occupancy.n_cells == 12
    assert set(occupancy.n.tolist()) <= set(COUNTS)


def test_the_cell_of_a_setting():
    """λ scales it, values are drawn within the bounds, own means are not drawn again."""
    setting = figure_setting(counts=COUNTS, scale=3, values=Normal(0, 50), bounds=(-5, 20))
    plain, samples, users = (
        iot_cells.cells(setting, scaling)(0) for scaling in ("none", "samples", "users")
    )
    assert samples.counts.tolist() == [3 * m for m in COUNTS]
    assert users.counts.size == 3 * len(COUNTS)
    assert plain.bounds == (Fraction(-5), Fraction(20))
    assert -5 <= plain.means.min() < plain.means.max() <= 20
    built_in = figure_setting(built_in="itms", scale=2)
    assert len(iot_cells.seeds(built_in)) == 1
    before, after = (iot_cells.cells(built_in, word)(0) for word in ("none", "users"))
    assert after.means.tolist() == np.repeat(before.means, 2).tolist()


def test_a_setting_without_changes_is_the_papers():
    """Trials and the seed change no claim's data; each option does."""
    assert figure_setting(trials=50, seed=3).is_papers
    for option in ({"gamma": 1}, {"q": 0.1}, {"scale": 2}, {"epsilons": [1]}, {"bounds": (0, 9)}):
        assert not figure_setting(**option).is_papers


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"counts": [3], "built_in": "itms"}, "counts and built_in cannot be combined"),
        ({"cell": "17"}, "cell needs data"),
        ({"gamma": -1}, "gamma must be at least 0"),
        ({"q": 0.0}, "q must be above 0"),
        ({"scale": 0}, "scale must be at least 1"),
        ({"epsilons": []}, "epsilon must be a list"),
        ({"epsilons": ["0"]}, "epsilon"),
    ],
)
def test_wrong_use_is_refused(options, sentence):
    """Before anything is drawn."""
    with pytest.raises(InputError, match=sentence):
        figure_setting(**options)
