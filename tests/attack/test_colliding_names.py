"""Names that somebody chooses to make two things one: neither units nor events of a ledger collide.

Names of columns, cells and user-days: tests/test_identities.py, which draws the names.
"""

from hypothesis import example, given
from hypothesis import strategies as st

from hexveil.ledger.events import GENESIS_HASH, HASHED_FIELDS, chain_hash
from hexveil.ledger.unit_losses import Key, _hash_units
from test_identities import names

PERIODS = ["", "2024-01-01", "2024-01-08"]
units = st.tuples(names.map(lambda name: name.encode("utf-8", "replace")), st.sampled_from(PERIODS))


@given(units, units)
@example((b"a\x1f2024-01-01", ""), (b"a", "2024-01-01"))
@example((b"a2024-01-01", ""), (b"a", "2024-01-01"))
@example((b"a\x1f", ""), (b"a", ""))
def test_two_units_have_two_hashes(one, other):
    """An id that holds the mark before a period is not another's day."""
    hashes = list(_hash_units([one, other], {p: p.encode() for p in PERIODS}, Key(b"k" * 32)))
    assert (hashes[0] == hashes[1]) == (one == other)


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
