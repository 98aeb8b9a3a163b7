"""Whatever is hashed or compared for "the same" is another text for another thing.

Names are drawn to break what joins them: with its own marks, quotes, line breaks, none, and letters
that only look alike. Hashes of units and events: tests/attack/test_colliding_names.py.
"""

import string
from datetime import date

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples

ODD = [
    ",", ", ", "=", ";", "; ", '"', '""', "\\", "\\/", "/", "\n", "\r", "\t", " ", "", "a", "b",
    "é", "e\u0301", "\x1f", "\0", "not declared", "none", "a, b", "a=b", 'a", "b', "lat=a", "[",
    "{}", "7",
]  # fmt: skip
names = st.one_of(
    st.lists(st.sampled_from(ODD), max_size=4).map("".join),
    st.text(st.sampled_from(string.printable), max_size=4),
    st.text(st.characters(codec="utf-8"), max_size=3),
)
filled = names.filter(bool)
lists = st.lists(names, max_size=4)


columns = st.fixed_dictionaries(
    {"user": filled, "value": filled}, optional={"time": filled, "version": filled}
)


def declared(cells=None, **given):
    """Return the declared facts of a reading, or nothing where it is refused; nothing is read."""
    cells = cells or hv.Labels("ward", values=["x"])
    try:
        return hv.declare(bounds=(0, 65), cells=cells, protect="presence", **given)
    except hv.InputError:  # a column has two roles
        return None


@given(columns, columns)
@example({"user": "a", "value": "b, time=c"}, {"user": "a", "value": "b", "time": "c"})
@example({"user": "a", "value": "b", "version": "none"}, {"user": "a", "value": "b"})
@example({"user": "a", "value": "b", "version": "not declared"}, {"user": "a", "value": "b"})
def test_two_readings_have_two_identities(one, other):
    """What is called like a role, or as none, or holds the marks between roles, is told apart."""
    first, second = declared(**one), declared(**other)
    if first is not None and second is not None:
        assert (first.identity == second.identity) == (one == other)
        mappings = [{**given, "version": ""} for given in (one, other)]
        texts = [facts.identity["columns"] for facts in (first, second)]
        assert (texts[0] == texts[1]) == (mappings[0] == mappings[1])


labels = st.lists(names, min_size=1, max_size=3, unique=True)


@given(labels, labels)
@example(["a\nb", "a"], ["c", "b\nc"])
@example(["a/b", "a"], ["c", "b/c"])
@example(["a\\", "a\\/"], ["/b", "b"])
def test_two_cells_have_two_names(wards, lines):
    """Labels that hold the mark between labels, or what escapes it, are told apart."""
    cells = hv.Labels("ward", "line", values={"ward": wards, "line": lines})
    facts = declared(cells, user="bus", value="speed")
    assert len(set(facts.grid.table.names())) == len(wards) * len(lines)
    facts = declared(hv.Labels("ward", values=wards), user="bus", value="speed")
    assert set(facts.grid.table.names()) == set(wards)


@examples(40)
@given(st.lists(st.tuples(names, st.dates()), min_size=1, max_size=4, unique=True))
@example([("a", date(2026, 11, 20)), ("a 2026-11-20", date(2026, 11, 20))])
def test_two_user_days_have_two_ids(units):
    """The id that a query of sums makes of a user and a day is read as just these again."""
    table = {
        "cell": ["x"] * len(units),
        "user": [f"{user} {day.isoformat()}" for user, day in units],
        "n": [2] * len(units),
        "sum": [2.0] * len(units),
    }
    options = {"bounds": (0, 60), "privacy_unit": "user-day", "min_users": 1}
    found = hv.from_sums(pa.table(table), **options).units
    pairs = zip(found.users.to_pylist(), found.periods(), strict=True)
    assert sorted(pairs) == sorted((user, day.isoformat()) for user, day in units)


counts = st.lists(
    st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=1, max_size=3
).filter(lambda rows: all(map(any, rows)) and all(map(any, zip(*rows, strict=True))))


@given(counts, counts)
def test_two_occupancies_have_two_fingerprints(one, other):
    """Who reported how often where is told apart by the fingerprint."""
    prints = [hv.Occupancy.from_dense(np.array(rows)).fingerprint for rows in (one, other)]
    assert (prints[0] == prints[1]) == (one == other)
