"""Quantiles, shares and histograms with a δ, end to end: booked, verified, saved, said in words."""

import html
import re

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.base.errors import InputError
from hexveil.publishing import folder as folders
from hexveil.publishing.dossier import dossier
from hexveil.publishing.verification.verify import find_problems
from publishing.releases import edited

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


def component(number, **fields):
    """Return a change of one component."""

    def change(manifest):
        manifest["plan"]["components"][number] |= fields

    return change


CHANGES = {
    "no δ": (lambda m: m["guarantee"].pop("delta"), "squares of mu are stated without a delta"),
    "a smaller δ": (lambda m: m["guarantee"].update(delta="0.0000001"), "of mu at this delta"),
    "a δ above one unit": (lambda m: m["guarantee"].update(delta="0.01"), "one over the number"),
    "less noise of bins": (
        lambda m: m["plan"]["components"][1]["stages"][-1].update(scale=1.0), "mean loss of the",
    ),
    "a weight": (lambda m: m["cells"][0].update(squared_weight=99.0), "mean loss of the shape"),
    "a smaller square": (
        component(1, squared_mu={"max": 1e-3, "mean": 1e-3}), "the shape is not that of its",
    ),
    "another ε of a part": (component(1, epsilon="0.1"), "largest square of mu"),
    "a square of means": (component(0, squared_mu={"max": 1.0, "mean": 1.0}), "are not those of"),
    "a smaller sum": (
        lambda m: m["losses"]["squared_mu"].update(mean=1e-3), "do not add up to that",
    ),
    "hardly any noise": (
        lambda m: m["plan"]["components"][1]["stages"][0].update(scale=1e-300), "mean loss of the",
    ),
    "an enormous square": (
        component(1, squared_mu={"max": 1e300, "mean": 1.0}), "larger than that of any release",
    ),
    "a promise": (lambda m: m["guarantee"].update(promise="None."), "guarantee/promise"),
}  # fmt: skip


@pytest.mark.slow
def test_changed_statements_are_found(made, tmp_path):
    """Squares, noise, δ and words that do not agree are named."""
    for number, (name, (change, message)) in enumerate(CHANGES.items()):
        manifest = edited(made["bins"].manifest, change)
        path = tmp_path / str(number)
        found = find_problems(folders.write(made["bins"].table, manifest, path))
        assert any(message in one for one in found), (name, found)


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
