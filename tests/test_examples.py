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


def test_examples_scale_by_the_profile(profile):
    """The full profile has the number that a test names, the quick one a fifth, or a few."""
    quick = profile == "quick"
    assert examples(200).max_examples == (40 if quick else 200)
    assert examples(42).max_examples == (9 if quick else 42)
    assert examples(8).max_examples == (FEWEST if quick else 8)
    assert examples(3).max_examples == 3
    assert settings().max_examples == (20 if quick else 100)
    assert settings().deadline is examples(9).deadline is None
    assert examples(9, stateful_step_count=7).stateful_step_count == 7


def test_no_test_has_a_number_that_does_not_scale():
    """Tests say `examples(n)`; a number of their own would be the same in every profile."""
    own = "max_" + "examples="
    named = [path.name for path in TESTS.rglob("*.py") if own in path.read_text(encoding="utf-8")]
    assert named == ["examples.py"]
