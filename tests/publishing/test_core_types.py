"""A request asked on several processors: one plan, one price, one set of numbers."""

import json
import subprocess
from fractions import Fraction

import pytest

import core_types as processors
import hexveil as hv

SOURCE = "few cells"
GOALS = ("mean", "both", "cell ranges")


def released(core, ledger, *goals, stop_after=None):
    """Return what releases on another processor say, in the order of their goals."""
    module = ("-m", "publishing.core_type_release", ledger, SOURCE, *goals)
    options = () if stop_after is None else ("--stop-after", str(stop_after))
    return json.loads(processors.run(core, *module, *options))


@pytest.fixture(scope="module")
def everywhere(core_types, tmp_path_factory):
    """Return what each processor says in turn of every goal, in one ledger."""
    ledger = tmp_path_factory.mktemp("everywhere") / "ledger.sqlite"
    said = [released(core, ledger, *GOALS) for core in core_types]
    return dict(zip(GOALS, zip(*said, strict=True), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("goal", GOALS)
def test_another_processor_gets_the_booked_plan_and_its_numbers(everywhere, goal):
    """Each plans the goal for itself, and all show what the first one paid for."""
    first, *others = everywhere[goal]
    assert not first["replayed"]
    for one in others:
        assert one["replayed"]
        assert one["noisy"] == first["noisy"]
        assert (one["epsilon"], one["spent"]) == (first["epsilon"], first["spent"])


@pytest.mark.slow
def test_another_processor_finishes_what_one_began(core_types, tmp_path):
    """A crash between two stages on one, the retry on another: the booked plan, paid once."""
    ledger, goal, stages = tmp_path / "ledger.sqlite", "cell ranges", 2
    with pytest.raises((subprocess.CalledProcessError, AssertionError)):
        released(core_types[0], ledger, goal, stop_after=stages)
    book = hv.Ledger(ledger, dataset=goal, budget=1000)
    (before,) = book.entries()
    assert (before.state, len(before.stages)) == ("measured", stages)
    (retried,) = released(core_types[-1], ledger, goal)
    (after,) = book.entries()
    assert list(after.stages.items())[:stages] == list(before.stages.items())
    assert after.plan == before.plan
    assert Fraction(retried["spent"]) == before.cost == book.spent
    (again,) = released(core_types[0], ledger, goal)
    assert again["noisy"] == retried["noisy"]
