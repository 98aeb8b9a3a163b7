"""Whatever is hashed or compared for "the same" is another text for another thing.

Names are drawn to break what joins them: with its own marks, quotes, line breaks, none, and letters
that only look alike.
"""

import string

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import hexveil as hv
from hexveil.ledger.events import GENESIS_HASH, HASHED_FIELDS, chain_hash
from hexveil.ledger.unit_losses import Key, _hash_units
from hexveil.model.cells import CellTable
from hexveil.model.public_metadata import ValueLattice
from hexveil.records.read_request import ReadRequest, RecordColumns, Rules
from hexveil.records.sources.record_format import NOT_DECLARED, quoted
from hexveil.records.units import split_unit_ids

ODD = [
    ",", ", ", "=", ";", "; ", '"', '""', "\\", "\\/", "/", "\n", "\r", "\t", " ", "", "a", "b",
    "é", "e\u0301", "\x1f", "\0", NOT_DECLARED, "none", "a, b", "a=b", 'a", "b', "lat=a", "[",
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
    {"user": filled, "value": filled},
    optional={"time": filled, "location": filled},
).map(lambda given: RecordColumns(**given))


@given(columns, columns)
@example(RecordColumns("a", "b, time=c"), RecordColumns("a", "b", time="c"))
@example(
    RecordColumns("a", "b", location="c, time=d"), RecordColumns("a", "b", location="c", time="d")
)
def test_two_mappings_of_columns_are_two_texts(one, other):
    """What is called like a role, or holds the marks between roles, is told apart."""
    assert (one.describe() == other.describe()) == (one == other)


def request(named, version):
    """Return a request of labels by these columns."""
    rules = Rules(ValueLattice.of((0, 65), "0.001"), hv.Labels("ward"), hv.Select())
    return ReadRequest(named, rules, version=None if version is None else quoted(version))


@pytest.mark.slow
@given(
    st.tuples(columns, st.one_of(st.none(), filled)),
    st.tuples(columns, st.one_of(st.none(), filled)),
)
def test_two_readings_have_two_identities(one, other):
    """Columns and version together; a version that is called as none is not none."""
    try:
        pair = [request(*given) for given in (one, other)]
    except ValueError:  # the value has a second role
        return
    first, second = (asked.identity("records.csv") for asked in pair)
    assert (first == second) == (one == other)


label_rows = st.lists(st.tuples(names, names), min_size=1, max_size=5, unique=True)


@given(label_rows)
@example([("a\nb", "c"), ("a", "b\nc")])
@example([("a/b", "c"), ("a", "b/c")])
@example([("a\\", "/b"), ("a\\/", "b")])
def test_two_cells_have_two_names(rows):
    """Labels that hold the mark between labels, or what escapes it, are told apart."""
    one, other = zip(*rows, strict=True)
    table = CellTable(hv.Labels("ward", "line"), labels={"ward": one, "line": other})
    assert len(set(table.names())) == len(rows)
    single = tuple(dict.fromkeys(one))
    assert CellTable(hv.Labels("ward"), labels={"ward": single}).names() == single


PERIODS = ["", "2024-01-01", "2024-01-08"]
units = st.tuples(names.map(lambda name: name.encode("utf-8", "replace")), st.sampled_from(PERIODS))


@given(units, units)
@example((b"a\x1f2024-01-01", ""), (b"a", "2024-01-01"))
@example((b"a\x1f", ""), (b"a", ""))
def test_two_units_have_two_hashes(one, other):
    """An id that holds the mark before a period is not another's day."""
    hashes = list(_hash_units([one, other], {p: p.encode() for p in PERIODS}, Key(b"k" * 32)))
    assert (hashes[0] == hashes[1]) == (one == other)


@given(names, st.dates(), names, st.dates())
def test_two_user_days_have_two_ids(one, day, other, another):
    """The id that a query of sums makes of a user and a day is read as just these again."""
    ids = [f"{user} {at.isoformat()}" for user, at in ((one, day), (other, another))]
    assert (ids[0] == ids[1]) == ((one, day) == (other, another))
    found = split_unit_ids(pa.array(ids), "user-day")
    assert found.users.to_pylist() == [one, other]
    assert found.periods() == [day.isoformat(), another.isoformat()]


EVENT = dict.fromkeys((*HASHED_FIELDS, "units"))


events = st.fixed_dictionaries(
    {
        "dataset": names,
        "request": names,
        "body": names,
        "units": st.one_of(st.none(), st.binary(max_size=3)),
    }
)


@given(events, events)
@example({**EVENT, "units": b""}, {**EVENT})
@example({**EVENT, "dataset": "a\nb"}, {**EVENT, "dataset": "a", "request": "b"})
def test_two_events_have_two_links(one, other):
    """The chain tells events apart in every field, and none from empty."""
    links = [chain_hash(GENESIS_HASH, {**EVENT, **given}) for given in (one, other)]
    assert (links[0] == links[1]) == ({**EVENT, **one} == {**EVENT, **other})
    assert chain_hash(links[0], {**EVENT, **one}) != links[0]


counts = st.lists(
    st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=1, max_size=3
).filter(lambda rows: all(map(any, rows)) and all(map(any, zip(*rows, strict=True))))


@given(counts, counts)
def test_two_occupancies_have_two_fingerprints(one, other):
    """Who reported how often where is told apart by the fingerprint."""
    prints = [hv.Occupancy.from_dense(np.array(rows)).fingerprint for rows in (one, other)]
    assert (prints[0] == prints[1]) == (one == other)
