"""A request asked on several processors: one plan, one price, one set of numbers."""

import json

import pytest

import core_types as processors

SOURCE = "few cells"
GOALS = ("mean", "both", "cell ranges")


def released(core, ledger, *goals):
    """Return what releases on another processor say, in the order of their goals."""
    module = ("-m", "publishing.core_type_release", ledger, SOURCE, *goals)
    return json.loads(processors.run(core, *module))


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
