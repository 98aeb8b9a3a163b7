"""The usual names of columns, in which no id can be."""

import pytest

from hexveil.records.sources.vocabulary import PHRASES, is_known_name

PHRASED = sorted({phrase for phrases in PHRASES.values() for phrase in phrases})


@pytest.mark.parametrize("join", [" ", "_", "-", ".", "/"])
def test_every_phrase_is_usual(join):
    """A name that is a role's own phrase is usual, whatever stands between its words."""
    for phrase in PHRASED:
        assert is_known_name(phrase.replace(" ", join))
        assert is_known_name(phrase.title().replace(" ", ""))


@pytest.mark.parametrize("more", ["7", " 25", " 2", "_1", "-MH12", " kr7731", " é", "№", "\n", "'"])
def test_what_is_added_is_not_usual(more):
    """A number or an unknown word beside a known one may be of a vehicle."""
    halves = {f"{place}_1" for place in PHRASES["location"]}
    for phrase in PHRASED:
        name = phrase + more
        assert not is_known_name(name) or name in halves, name


@pytest.mark.parametrize(
    "name", ["", " ", "-", ".", "7", "1.5", "pm 7", "no 25", "vehicle no 2", "автобус"]
)
def test_what_has_no_word_is_not_usual(name):
    """Marks, numbers and words in other letters are not known."""
    assert not is_known_name(name)


@pytest.mark.parametrize("name", ["location.coordinates.0", "point/1", "PM2.5", "no2", "wgs84 lat"])
def test_numbers_that_belong_to_a_name_are_usual(name):
    """Halves of a place, pollutants and a datum have a number in their name."""
    assert is_known_name(name)
