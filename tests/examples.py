"""How many examples a test has: a share of those that Hypothesis draws, and some of others."""

import math
import os

import pytest
from hypothesis import settings

LONG = bool(os.environ.get("HEXVEIL_ATTACK"))
"""Whether attacks run in their long form."""
PROFILES = {"quick": 20, "full": 100}
"""Examples of a test that names no number of its own; other numbers scale alike.

`make test` and `make test-all` have the quick profile, `make attack` the full one. The quick
profile draws the same examples in every run: what it finds is due to the change that it tries. The
full one draws anew, to find what nobody has seen.
"""
FEWEST = 5


def register():
    """Make the profiles known, and load that of all tests; `--hypothesis-profile` loads another."""
    for name, number in PROFILES.items():
        # Laws are not timed: a busy machine must not fail a test.
        again = name == "quick"
        settings.register_profile(name, max_examples=number, deadline=None, derandomize=again)
    settings.load_profile("quick")


def examples(number, **options):
    """Return the settings of a test that has this number of examples in the full profile."""
    scaled = math.ceil(number * settings.default.max_examples / PROFILES["full"])
    return settings(max_examples=max(scaled, min(number, FEWEST)), **options)


def some(values, quick):
    """Return parameters of which so many, spread evenly, are quick; the others are marked slow."""
    values = list(values)
    kept = {round(k * len(values) / quick) for k in range(quick)}
    marked = (
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.slow)
        for one in values
    )
    return [
        one if k in kept else slow for k, (one, slow) in enumerate(zip(values, marked, strict=True))
    ]
