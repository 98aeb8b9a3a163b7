"""Quantiles, shares and histograms with a δ, end to end: booked, verified, saved, said in words."""

import html
import re

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.base.errors import InputError
from hexveil.publishing.dossier import dossier

DELTA = "1e-6"
ASKED = ("mean", "p50", "p85", "share<20", "histogram")
ESTIMATORS = ("bins", "ranks", "indicator")


@pytest.fixture(scope="module")
def dataset():
    """Return 150 vehicles in 20 wards."""
    rng = np.random.default_rng(11)
    bus = rng.integers(0, 150, 6000)
    ward = rng.integers(0, 20, bus.size)
    speed = rng.gamma(4.0, 3.0 + ward / 5) + rng.normal(0, 2, 150)[bus]
    table = pa.table({"bus": bus.astype(str), "ward": ward.astype(str), "speed": speed})
    return hv.read(
        table, user="bus", value="speed", bounds=(0, 80), cells=hv.Labels("ward"), statistics=ASKED
    )


def asked(estimator):
    """Return the arguments of a plan that is measured in a way."""
    if estimator == "indicator":
        return {"statistics": "share<20"}
    return {"statistics": ASKED, "estimator": estimator}


@pytest.fixture(scope="module")
def made(dataset, tmp_path_factory):
    """Return a release of each way of measuring, from one account."""
    file = tmp_path_factory.mktemp("book") / "l.sqlite"
    book = hv.Ledger(file, dataset="buses", budget=4, delta=DELTA)
    released = {}
    for estimator in ESTIMATORS:
        plan = hv.plan(dataset, epsilon=2, delta=DELTA, advise=False, **asked(estimator))
        assert plan.estimator == estimator
        assert 1.98 < plan.epsilon <= 2
        released[estimator] = hv.release(dataset, plan, ledger=book, accept_noise=True)
        again = hv.plan(dataset, epsilon="2.0", delta="0.000001", advise=False, **asked(estimator))
        assert hv.release(dataset, again, ledger=book, accept_noise=True).replayed
    # Squares of μ add up: three releases of ε 2 lose less than 6.
    assert 3 < book.spent < 4
    pure = hv.plan(dataset, epsilon="0.1", **asked("bins"), advise=False)
    with pytest.raises(InputError, match="opened with delta"):
        hv.release(dataset, pure, ledger=book, accept_noise=True)
    return released


@pytest.mark.slow
def test_texts_say_what_delta_means(made, tmp_path):
    """README.txt, page and dossier: the promise, what δ allows, and why it is below 1/n."""
    folder = made["bins"].write(tmp_path / "map")
    texts = [
        (folder / "README.txt").read_text(),
        html.unescape(re.sub(r"<[^>]*>", " ", (folder / "report.html").read_text())),
        str(dossier(folder)),
    ]
    for text in texts:
        said = " ".join(text.split())
        assert "and beyond that by at most 0.000001" in said
        assert "it would reveal 0.00015 on average" in said
        assert "pure ε-" not in said.lower()
    assert "pure differential privacy" not in texts[0]
