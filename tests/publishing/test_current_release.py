"""The small files of an archive say what they mean, and nothing else passes for them."""

import json

import pytest

from hexveil.publishing.archive.current_release import Pointer, Stand, words


@pytest.mark.parametrize("said", [Pointer.to("2026-11-20", "ab" * 32), Stand(6, "ff")])
def test_what_is_written_is_read(said):
    """Each comes back from its own text."""
    assert type(said).read(json.loads(words(said))) == said


def test_a_release_is_named_by_its_request():
    """Its folder stands under its day."""
    assert Pointer.to("2026-11-20", "ab" * 32).path == "2026-11-20/" + "ab" * 8


@pytest.mark.parametrize("kind", [Pointer, Stand])
@pytest.mark.parametrize("said", [None, [], 3, {}, {"entry": "six", "chain": ""}, {"day": "x"}])
def test_other_json_is_none(kind, said):
    """It raises what its reader turns into a sentence."""
    with pytest.raises((ValueError, KeyError, TypeError)):
        kind.read(said)
