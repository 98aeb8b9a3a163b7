"""The small files of an archive say what they mean, and nothing else passes for them."""

import json

import pytest

from hexveil.publishing.archive.archive_listing import CurrentRelease, LedgerPosition, to_json


@pytest.mark.parametrize(
    "said", [CurrentRelease.of_day("2026-11-20", "ab" * 32), LedgerPosition(6, "ff")]
)
def test_what_is_written_is_read(said):
    """Each comes back from its own text."""
    assert type(said).parse(json.loads(to_json(said))) == said


def test_a_release_is_named_by_its_request():
    """Its folder stands under its day."""
    assert CurrentRelease.of_day("2026-11-20", "ab" * 32).path == "2026-11-20/" + "ab" * 8


@pytest.mark.parametrize("kind", [CurrentRelease, LedgerPosition])
@pytest.mark.parametrize("said", [None, [], 3, {}, {"entry": "six", "chain": ""}, {"day": "x"}])
def test_other_json_is_none(kind, said):
    """It raises what its reader turns into a sentence."""
    with pytest.raises((ValueError, KeyError, TypeError)):
        kind.parse(said)
