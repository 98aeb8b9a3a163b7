"""IOT's figures: each study runs, has the stated lines, and its claims can hold and fail."""

import numpy as np
import pytest

import hexveil as hv
from hexveil_research.papers.iot import extremes, figure_claims, gains, lengths, scaling, surrogate
from hexveil_research.papers.iot.iot_cells import Curve, X


def curve(*levels, noise=0.0):
    """Return a curve that is as high at every ε, in as many cells as levels."""
    error = np.repeat(np.array(levels, dtype=float)[:, None], X.size, axis=1)
    return Curve(error, np.full_like(error, noise))


def test_a_curve_is_below_another_beyond_noise_only():
    """Noise of the simulation and differences between cells both count."""

    def below(one, rival):
        return one.below(rival).positive

    assert below(curve(1.0, noise=0.1), curve(2.0, noise=0.1)).all()
    assert not below(curve(1.0, noise=0.3), curve(2.0, noise=0.5)).any()
    assert not below(curve(1.0, 3.0), curve(2.0, 2.5)).any()
    assert below(curve(1.0, 3.0), curve(2.0, 4.0)).all()
    assert not below(curve(1.0), curve(1.0)).any()
    # Of three cells the gaps 1, 2 and 3: mean 2, standard error 1/√3, two degrees of freedom.
    margin = curve(1.0, 1.0, 1.0).below(curve(2.0, 3.0, 4.0))
    assert (margin.estimate[0], margin.noise[0]) == (2.0, pytest.approx(3**-0.5))
    assert (margin.degrees, margin.positive.any()) == (2, False)


def test_claims_of_figure_1_turn():
    """Similar within a factor of 1.25 either way; much better beyond it, at every ε."""
    low, high, near = curve(1.0), curve(1.5), curve(1.1)

    def claims(averaging, other, printed=high):
        curves = {"ARRAY-AVERAGING": averaging, "LEVY": other, "FIXEDQUANTILE": other}
        return [one.holds for one in figure_claims.grouping_claims(curves, printed, {0.5: curves})]

    assert claims((near, low), (high, low)) == [False, True, True, True]
    assert claims((high, low), (near, low), near) == [True, False, False, False]
    assert claims((low, high), (low, high), low) == [False, False, False, False]
    curves = {"ARRAY-AVERAGING": (near, low), "LEVY": (high, low), "FIXEDQUANTILE": (high, low)}
    swapped = {name: pair[::-1] for name, pair in curves.items()}
    found = figure_claims.grouping_claims(curves, high, {0.5: swapped})
    assert [one.holds for one in found] == [False, True, None, None]


def test_claims_of_figures_2_to_4_turn():
    """Each fails on curves that say the opposite."""
    good = {"BASELINE": curve(3.0), "A": curve(1.0), "B": curve(1.1)}
    bad = {"BASELINE": curve(1.05), "A": curve(1.0), "B": curve(1.6)}
    for papers, holds in ((good, True), (bad, False)):
        assert figure_claims.clipping_claim("", "", papers, {0.5: papers}).holds is holds
        assert figure_claims.little_difference(papers, {0.5: papers}).holds is holds
    for_the_records = (
        figure_claims.clipping_claim("", "", good, {0.5: bad}),
        figure_claims.little_difference(good, {0.5: bad}),
    )
    for claim in for_the_records:
        assert claim.verdict == "not tried"
        assert "the records themselves would have to decide" in claim.measured
    assert figure_claims.order_claim("", "", good, ("A", "B")).holds
    assert not figure_claims.order_claim("", "", good, ("B", "A")).holds
    assert not figure_claims.order_claim("", "", bad, ("A", "B")).holds
    ours = {"no more": curve(1.0), "more": curve(1.2), "less": curve(0.5)}
    claims = figure_claims.ours_claims("", "", good, ours)
    assert [one.holds for one in claims] == [True, False, True]


# ---- QUANTILE's ends: which are best, and what is lost by choosing them privately ----


@pytest.mark.slow
def test_the_printed_rank_is_wrong_where_it_is_rounded_down():
    """At every ε with 2/ε not whole, and at no other."""
    printed, right = extremes.extremes_claims()
    assert (printed.verdict, printed.reading) == ("fails", "as printed")
    assert "ε = 0.7, 0.9, 1.3, 1.5, 5 " in printed.measured
    assert (right.verdict, right.reading) == ("holds", "corrected")


# ---- Claims of the lemmas: a wrong formula or rule turns each verdict ----


CELLS = surrogate.instances(3, 30)
HEAVY = [*CELLS, (60, *[1] * 60)]


def upside_down(counts, epsilon):
    """Return a larger cap for a smaller ε: no lemma is on its side."""
    return max(counts) if epsilon < 1 else min(counts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "given", "wrong"),
    [
        (gains.moved_claim, (), lambda counts, _: 1 / len(counts)),
        (gains.median_claim, (HEAVY,), max),
        (gains.root_claim, (CELLS,), max),
        (gains.concentrated_claim, (2,), 1 / 3),
        (scaling.samples_claim, (CELLS,), [lambda _: 2]),
        (scaling.same_noise_claim, (CELLS,), [hv.mechanisms.Levy()]),
        (lengths.counts_claim, (CELLS,), upside_down),
        (lengths.growing_claim, (CELLS,), upside_down),
        (lengths.ends_claim, (CELLS,), upside_down),
    ],
)
def test_a_wrong_rule_is_found(claim, given, wrong):
    """Every claim holds by the formula or rule of the paper, and fails by another one."""
    assert claim(*given).holds
    assert not claim(*given, wrong).holds
