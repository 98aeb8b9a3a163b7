"""How many examples Hypothesis draws for a test: a share of its full number, by the profile."""

import math

from hypothesis import settings

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
