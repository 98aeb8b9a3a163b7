"""Numbers as the page writes them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.report.manifest_view import ManifestView
from hexveil.report.templates import format_rounded_up


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (math.e, "2.72"),
        (math.exp(5), "149"),
        (1.0, "1.00"),
        (22026.4657, "22,100"),
        (0.00123, "0.00123"),
        (9.999, "10.00"),
        (math.inf, "unlimited"),
    ],
)
def test_digits_are_rounded_up(number, text):
    """Three digits, never below the number."""
    assert format_rounded_up(number) == text


@given(st.floats(1e-6, 1e12))
def test_rounding_up_never_understates(number):
    """What is written is at least the number and at most a hundredth more."""
    written = float(format_rounded_up(number).replace(",", ""))
    assert number * (1 - 1e-9) <= written <= number * 1.0101


@pytest.mark.parametrize(("upper", "decimals"), [("65", 1), ("600", 0), ("1", 3), ("90", 1)])
def test_digits_follow_the_span(city, upper, decimals):
    """A step shown is fine against the span of the values."""
    facts = ManifestView.from_manifest({**city.manifest, "bounds": {"lower": "0", "upper": upper}})
    assert facts.decimals == decimals


def test_intervals_are_rounded_outwards(city):
    """An interval as text is never narrower than the interval."""
    facts = ManifestView.from_manifest(city.manifest)
    assert facts.interval(1.29, 3.01) == ("1.2", "3.1\u00a0km/h")
    assert facts.amount_up(0.3) == "0.3\u00a0km/h"


def test_planned_error_may_be_one_per_statistic(city):
    """A mapping by statistic and a single number are read alike; absence is absence."""
    plans = ({"mean_error": 2.5}, {"mean_error": {"mean": 2.5}}, {})
    assert [
        ManifestView.from_manifest({**city.manifest, "plan": p}).planned_error for p in plans
    ] == [
        2.5,
        2.5,
        None,
    ]


def facts_of(city, *statistics, **plan):
    """Return the facts of the same release of other statistics."""
    return ManifestView.from_manifest(
        {**city.manifest, "plan": {"statistics": list(statistics), **plan}}
    )


def test_the_first_statistic_is_shown_in_its_unit(city):
    """A variance is in squared units, a deviation in those of the value; digits follow the range.

    The range is 65 km/h for an average, half of that for a deviation, 1056 for a variance.
    """
    shown = [facts_of(city, *names) for names in (("mean", "sd"), ("variance", "sd"), ("sd",))]
    assert [facts.unit_text for facts in shown] == ["km/h", "(km/h)\u00b2", "km/h"]
    assert [facts.range for facts in shown] == [65, 65**2 / 4, 32.5]
    assert [facts.decimals for facts in shown] == [1, 0, 1]
    assert [facts.heading for facts in shown] == [
        "Average speed",
        "Variance of speed",
        "Standard deviation of speed",
    ]


def test_planned_errors_are_of_what_is_shown(city):
    """Of several errors the shown statistic's is taken; a root or a sum of units has none."""
    both = {"mean_error": {"mean": 2.5, "variance": 40.0}}
    assert facts_of(city, "mean", "variance", **both).planned_error == 2.5
    assert facts_of(city, "variance", mean_error=40.0).planned_error == 40.0
    assert facts_of(city, "sd", mean_error=40.0).planned_error is None
    summed = {"mean_error": 42.5, "request": {"error": "sum"}}
    assert facts_of(city, "mean", "variance", **summed).planned_error is None
