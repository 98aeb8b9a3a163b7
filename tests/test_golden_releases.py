"""A change that recipients would see is noticed, in a release of each kind."""

import json

import pytest

import golden_releases

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", golden_releases.kinds())
def test_a_release_looks_as_before(kind, monkeypatch):
    """Table, page, README.txt and the words of `verify`, under fixed noise."""
    monkeypatch.setenv("COLUMNS", "100")
    expected = json.loads((golden_releases.FOLDER / f"{kind}.json").read_text(encoding="utf-8"))
    assert list(golden_releases.differences(expected, golden_releases.make(kind))) == []


def test_a_changed_word_or_number_is_noticed():
    """Late digits are not."""
    old = {"verify": ["ok 1.25 km/h"]}
    assert not list(golden_releases.differences(old, {"verify": ["ok 1.25000001 km/h"]}))
    for other in ("ok 1.26 km/h", "no 1.25 km/h"):
        assert list(golden_releases.differences(old, {"verify": [other]}))


def test_every_kind_has_its_file():
    """No file is left over either."""
    files = {path.stem for path in golden_releases.FOLDER.iterdir()}
    assert files == set(golden_releases.kinds())
