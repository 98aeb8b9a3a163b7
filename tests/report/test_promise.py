"""The promise: true of correlated values, where a promise on beliefs is false; one wording."""

import contextlib
import io
import re
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
from hypothesis import given

import hexveil as hv
from hexveil.cli import main
from hexveil.model.public_metadata import UNITS, ValueLattice
from hexveil.report.promise_wording import (
    factor_words,
    limits_of_promise,
    probability_factor,
    promise,
)
from publishing import measuring
from publishing.releases import release_of
from publishing.setting import dataset_of

ROOT = Path(__file__).resolve().parents[2]
BUSES = 100
SLOW, FAST = 27, 60
"""km/h within bounds of 0 to 65: half of them apart, and 50 km/h between them."""


def line_of_buses(speeds):
    """Return buses of one record each, in one cell."""
    return dataset_of([[1]] * len(speeds), speeds, scale=ValueLattice.of((0, 66), 1))


def law_of(dataset, plan):
    """Return what decides the law of a release of one cell: its number without noise, its scale.

    With noise of scale R an outcome y has the probability (1 - q) / (1 + q) q^|y - number|, where
    ln q = -1 / R.
    """
    where = measuring.lattice(plan, dataset.public.lattice)
    (number,) = measuring.statistic(dataset, plan, where).tolist()
    (scale,) = where.noise.tolist()
    return number, Fraction(scale)


def log_ratio(outcome, law, other):
    """Return the exact logarithm of the ratio of an outcome's probabilities under two laws."""
    (number, scale), (apart, same) = law, other
    assert scale == same
    return (abs(outcome - apart) - abs(outcome - number)) / scale


def largest_ratio(law, other):
    """Return the largest logarithm over all outcomes: it is reached at one of the two numbers."""
    return max(abs(log_ratio(outcome, law, other)) for outcome in (law[0], other[0]))


def released(speeds):
    """Return a plan at ε = 1 for buses of these speeds, and the law of its release."""
    dataset = line_of_buses(speeds)
    plan = hv.plan(dataset, epsilon=1, clipping_range="bounds", advise=False)
    return plan, law_of(dataset, plan)


def test_belief_about_one_bus_changes_by_far_more_where_buses_are_alike():
    """An attacker believes that buses of a line drive alike: one release settles the fact.

    Before, "bus 7 is above 50 km/h" is as likely as not. The attacker's odds on it change by the
    ratio of an outcome's probabilities under the two cases, exactly.
    """
    plan, fast = released([FAST] * BUSES)
    _, slow = released([SLOW] * BUSES)
    assert plan.epsilon <= 1
    change = log_ratio(fast[0], fast, slow)
    assert change > 49
    assert change > 49 * plan.epsilon


@pytest.mark.parametrize("others", [SLOW, FAST])
@pytest.mark.parametrize("unit", [0, 7])
def test_the_promise_is_true_of_buses_that_are_alike(others, unit):
    """Had bus 7's value been anything else, any outcome is as probable, to a factor of e^ε."""
    laws = []
    for speed in (0, SLOW, 50, FAST, 66):
        speeds = [others] * BUSES
        speeds[unit] = speed
        plan, law = released(speeds)
        laws.append(law)
    ratios = [largest_ratio(*pair) for pair in combinations(laws, 2)]
    assert max(ratios) <= plan.epsilon <= 1
    assert max(ratios) > Fraction(9, 10)


@pytest.mark.parametrize("unit", UNITS)
def test_the_promise_names_the_unit_and_the_factor(unit):
    """It compares two releases, and says nothing of beliefs."""
    said = promise(unit, Fraction(1))
    assert said.startswith("Compared with the release that would have been published had")
    assert {"user": "one vehicle", "user-day": "one day", "user-week": "one week"}[unit] in said
    assert said.endswith("differs by a factor of at most 2.72.")
    assert "e^ε" in promise(unit)
    assert "the release would be the same" in promise(unit, Fraction(0))
    assert "differs without a limit" in promise(unit, Fraction(1000))


@given(st.integers(0, 700_000))
def test_factors_are_rounded_up(thousandths):
    """The factor is at least e to the loss, in as many digits as a double has."""
    epsilon = Fraction(thousandths, 1000)
    true = (Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp()
    assert true <= Decimal(probability_factor(epsilon)) <= true * (1 + Decimal("1e-12"))


@given(st.floats(1, 1e307))
def test_factors_in_words_are_rounded_up(factor):
    """The factor said in words is not below the factor, and at most a hundredth above it."""
    words = factor_words(factor).removeprefix("by a factor of at most ")
    said = Decimal(words.replace(",", ""))
    assert len(re.sub("[,.]|e.*", "", words).strip("0")) <= 3
    assert Decimal(factor) <= said <= Decimal(factor) * Decimal("1.0101")


def flat(text):
    """Return a text on one line, without emphasis."""
    return " ".join(text.replace("**", "").split())


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/index.md",
        "docs/how-to/choose-epsilon-and-unit.md",
        "docs/understand/user-level-privacy.md",
        "docs/reference/glossary.md",
    ],
)
def test_pages_that_promise_use_the_one_wording(page):
    """Where a page says what is promised, it says it as the function does."""
    text = flat((ROOT / page).read_text(encoding="utf-8"))
    assert promise() in text


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Return what a person reads of a release: dossier, README.txt, manifest and page; its loss."""
    folder = tmp_path_factory.mktemp("promise") / "map"
    release = release_of(folder, "means")
    release.write(folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["dossier", str(folder)]) == 0
    said = {name: (folder / name).read_text(encoding="utf-8") for name in WRITTEN}
    said |= {"dossier": printed.getvalue()}
    loss = Fraction(release.manifest["guarantee"]["epsilon_spent"])
    return SimpleNamespace(said={name: flat(text) for name, text in said.items()}, loss=loss)


WRITTEN = ("README.txt", "manifest.json", "report.html")


@pytest.mark.parametrize("where", ["dossier", *WRITTEN])
def test_texts_of_a_release_use_the_one_wording(texts, where):
    """Promise, what users have in common, and what is exact: word for word in each."""
    for sentence in (promise("user", texts.loss), *limits_of_promise().values()):
        assert sentence in texts.said[where]
