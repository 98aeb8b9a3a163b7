"""Statistics of distributions as text: forms, exact thresholds, and bins of whole quanta."""

from fractions import Fraction

import numpy as np
import pytest

from hexveil import InputError
from hexveil.model import statistic_terms
from hexveil.model.public_metadata import FineBins, ValueLattice

LATTICE = ValueLattice.of((-5, 20), "0.5")


def test_texts_become_terms_in_one_order():
    """The order of the texts, spaces and trailing zeros do not matter."""
    moments, terms = statistic_terms.parse_statistics(
        ("histogram", "share>=2.50", "p85", "sd", "p5.5", "mean")
    )
    assert moments == ("mean", "sd")
    assert terms == (
        statistic_terms.Quantile(Fraction(11, 200)),
        statistic_terms.Quantile(Fraction(17, 20)),
        statistic_terms.Share(">=", Fraction(5, 2)),
        statistic_terms.Histogram(),
    )
    assert [t.text for t in terms] == ["p5.5", "p85", "share>=2.5", "histogram"]
    assert [t.column for t in terms] == ["p5_5", "p85", "share_at_least_2_5", "histogram"]
    assert statistic_terms.parse_statistics("share < -3")[1][0].column == "share_below_minus_3"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("p0", "smallest record"), ("p0.0", "smallest record"), ("p100", "largest record"),
        ("p101", "must be some of"), ("median", "must be some of"), ("share=10", "must be some of"),
        ("share<1.2.3", "threshold of"), (7, "must be some of"), ((), "must be 1 to"),
        (("p50", "p50.0"), "asked once"), (("mean", "mean"), "asked once"),
    ],
)  # fmt: skip
def test_other_texts_are_refused(asked, message):
    """What is wrong with a text is said."""
    with pytest.raises(InputError, match=message):
        statistic_terms.parse_statistics(asked if isinstance(asked, (str, tuple)) else (asked,))


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("threshold", ["-4.5", "0", "19.5"])
def test_a_sign_means_what_it_says_on_the_lattice(sign, threshold):
    """Bins beyond the edge hold exactly the values for which the comparison is true."""
    share = statistic_terms.Share(sign, Fraction(threshold))
    bins = statistic_terms.fine_bins(LATTICE, (share,))
    quanta = np.arange(LATTICE.span_quanta + 1)
    values = [LATTICE.lower + int(k) * LATTICE.quantum for k in quanta]
    compare = {"<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[sign]
    expected = [getattr(value, compare)(share.threshold) for value in values]
    above = bins.above(share.edge(LATTICE))[np.searchsorted(bins.edges, quanta)]
    assert (above if share.is_above else ~above).tolist() == expected


@pytest.mark.parametrize("text", ["share<-5", "share>=-5", "share>20", "share<=20", "share<30"])
def test_thresholds_that_divide_nothing_are_refused(text):
    """A share that is 0 or 1 whatever the values are is no statistic."""
    (share,) = statistic_terms.parse_statistics(text)[1]
    with pytest.raises(InputError, match="name a threshold between"):
        share.edge(LATTICE)
    with pytest.raises(InputError, match="not a multiple of the quantum"):
        statistic_terms.Share("<", Fraction(1, 3)).edge(LATTICE)


@pytest.mark.parametrize("span", [1, 2, 63, 64, 65, 1000])
def test_bins_cover_each_quantum_once(span):
    """Edges rise, end at the span, and have no bin without a quantum."""
    edges = statistic_terms.equal_edges(64, span)
    assert edges[-1] == span
    assert (np.diff(edges, prepend=0) > 0).all()
    assert edges.size == min(64, span)
    bins = FineBins(edges)
    assert (bins.ends > bins.starts).all()
    assert np.array_equal(bins.starts[1:], bins.ends[:-1])
