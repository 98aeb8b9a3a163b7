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
from examples import examples
from golden_releases import fixed_noise
from hexveil.cli import main
from planning.sums import sums_of
from publishing.releases import release_of
from report.pages import page_of

ROOT = Path(__file__).resolve().parents[2]
BUSES = 100
SLOW, FAST = 27, 60
"""km/h within bounds of 0 to 66: half of them apart, and 50 km/h between them."""


def released(speeds, epsilon=1, unit="user"):
    """Return a release of buses of one record each, in one cell; its noise is always the same."""
    data = sums_of([[1]] * len(speeds), speeds, bounds=(0, 66), privacy_unit=unit)
    plan = hv.plan(data, epsilon=epsilon, clipping_range="bounds", advise=False)
    book = hv.Ledger("memory://", dataset="buses", budget=epsilon)
    with fixed_noise():
        return hv.release(data, plan, ledger=book, accept_noise=True)


def law_of(release):
    """Return what decides the law of a release of one cell: its number without noise, its scale.

    With noise of scale R an outcome y has the probability (1 - q) / (1 + q) q^|y - number|, where
    ln q = -1 / R. The noise of these releases is the same, so their numbers are as far apart as
    those without noise.
    """
    return release["mean_noisy"][0], release["mean_scale"][0]


def log_ratio(outcome, law, other):
    """Return the logarithm of the ratio of an outcome's probabilities under two laws."""
    (number, scale), (apart, same) = law, other
    assert scale == same
    return (abs(outcome - apart) - abs(outcome - number)) / scale


def largest_ratio(law, other):
    """Return the largest logarithm over all outcomes: it is reached at one of the two numbers."""
    return max(abs(log_ratio(outcome, law, other)) for outcome in (law[0], other[0]))


def test_belief_about_one_bus_changes_by_far_more_where_buses_are_alike():
    """An attacker believes that buses of a line drive alike: one release settles the fact.

    Before, "bus 7 is above 50 km/h" is as likely as not. The attacker's odds on it change by the
    ratio of an outcome's probabilities under the two cases.
    """
    release = released([FAST] * BUSES)
    fast, slow = law_of(release), law_of(released([SLOW] * BUSES))
    assert release.epsilon <= 1
    change = log_ratio(fast[0], fast, slow)
    assert change > 49
    assert change > 49 * release.epsilon


@pytest.mark.parametrize("others", [SLOW, FAST])
@pytest.mark.parametrize("unit", [0, 7])
def test_the_promise_is_true_of_buses_that_are_alike(others, unit):
    """Had bus 7's value been anything else, any outcome is as probable, to a factor of e^ε."""
    laws = []
    for speed in (0, 50, 66):
        speeds = [others] * BUSES
        speeds[unit] = speed
        release = released(speeds)
        laws.append(law_of(release))
    ratios = [largest_ratio(*pair) for pair in combinations(laws, 2)]
    assert release.epsilon <= 1
    # Numbers of the table are rounded to doubles.
    assert 0.9 < max(ratios) <= release.epsilon * (1 + 1e-12)


def promise(epsilon):
    """Return the promise of a release."""
    return released([SLOW, FAST] * 4, epsilon).manifest["guarantee"]["promise"]


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("user", "one vehicle been"),
        ("user-day", "one vehicle on one day been"),
        ("user-week", "one vehicle in one week been"),
    ],
)
def test_the_promise_names_the_unit_and_the_factor(unit, words):
    """It compares two releases, says nothing of beliefs, and is the page's second sentence."""
    release = released([SLOW, FAST] * 4, 1, unit)
    said = release.manifest["guarantee"]["promise"]
    assert re.findall(r'<span class="sentence">(.*?)</span>', page_of(release))[1] == said
    assert said.startswith("Compared with the release that would have been published had")
    assert words in said
    assert said.endswith("differs by a factor of at most 2.72.")
    if unit == "user":
        assert "the release would be the same" in promise("0.001")
        assert "differs without a limit" in promise(1000)


@given(st.integers(300, 700_000))
@examples(40)
def test_factors_are_rounded_up(thousandths):
    """The factor is at least e to the loss, as a double and in words of three digits."""
    stated = released([SLOW, FAST] * 4, Fraction(thousandths, 1000)).manifest["guarantee"]
    epsilon = Fraction(stated["epsilon_spent"])
    true = (Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp()
    assert true <= Decimal(stated["probability_factor"]) <= true * (1 + Decimal("1e-12"))
    said = Decimal(re.search(r"at most (\S+)\.$", stated["promise"])[1].replace(",", ""))
    assert true <= said <= true * Decimal("1.0101")


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
    """Where a page says what is promised, it says it as a release does."""
    said = promise(1).replace("one vehicle", "one privacy unit").replace("2.72", "e^ε")
    assert said in flat((ROOT / page).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Return what a person reads of a release: dossier, README.txt, manifest and page."""
    folder = tmp_path_factory.mktemp("promise") / "map"
    release = release_of(folder, "means")
    release.write(folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["dossier", str(folder)]) == 0
    said = {name: (folder / name).read_text(encoding="utf-8") for name in WRITTEN}
    said |= {"dossier": printed.getvalue()}
    guarantee = release.manifest["guarantee"]
    sentences = [guarantee["promise"], *re.split(r"(?<=\.) ", guarantee["not_protected"])]
    assert len(sentences) == 4
    return SimpleNamespace(said={k: flat(text) for k, text in said.items()}, sentences=sentences)


WRITTEN = ("README.txt", "manifest.json", "report.html")


@pytest.mark.parametrize("where", ["dossier", *WRITTEN])
def test_texts_of_a_release_use_the_one_wording(texts, where):
    """Promise, what users have in common, and what is exact: word for word in each."""
    for sentence in texts.sentences:
        assert sentence in texts.said[where]
