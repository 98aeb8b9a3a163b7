"""Numbers of examples follow the profile."""

from pathlib import Path

import pytest
from hypothesis import settings

from examples import FEWEST, PROFILES, examples

TESTS = Path(__file__).resolve().parent


@pytest.fixture(params=PROFILES)
def profile(request):
    """Load a profile, and afterwards that of the run."""
    before = settings.get_current_profile_name()
    settings.load_profile(request.param)
    yield request.param
    settings.load_profile(before)


SCALED = {
    "quick": (40, 9, FEWEST, 3, 20),
    "full": (200, 42, 8, 3, 100),
}
"""By profile: examples of tests that name 200, 42, 8 and 3, and of one that names no number."""


def test_examples_scale_by_the_profile(profile):
    """The full profile has the number that a test names, others a share of it, or a few."""
    named = [examples(number).max_examples for number in (200, 42, 8, 3)]
    assert (*named, settings().max_examples) == SCALED[profile]
    assert settings().deadline is examples(9).deadline is None
    assert examples(9, stateful_step_count=7).stateful_step_count == 7
    assert settings().derandomize is examples(9).derandomize is (profile == "quick")


def test_no_test_has_a_number_that_does_not_scale():
    """Tests say `examples(n)`; a number of their own would be the same in every profile."""
    own = "max_" + "examples="
    named = [path.name for path in TESTS.rglob("*.py") if own in path.read_text(encoding="utf-8")]
    assert named == ["examples.py"]
