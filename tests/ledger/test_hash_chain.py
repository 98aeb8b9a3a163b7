"""The chain: whatever is done to events that were written, it is found."""

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from hexveil.ledger.integrity.soundness import (
    GENESIS_HASH,
    HASHED_FIELDS,
    canonical_json,
    chain_hash,
)

texts = st.text(max_size=6)
one_event = st.fixed_dictionaries(
    {name: texts for name in HASHED_FIELDS if name != "entry"}
    | {"units": st.none() | st.binary(max_size=5)}
)
books = st.lists(one_event, min_size=2, max_size=6)


def numbered(found):
    """Return events with entries from 1."""
    return [one | {"entry": number} for number, one in enumerate(found, 1)]


def chained(found):
    """Return the hash after each event."""
    hashes, last = [], GENESIS_HASH
    for one in found:
        last = chain_hash(last, one)
        hashes.append(last)
    return hashes


def test_a_link_is_sha256_of_the_hash_before_and_the_event():
    """Anyone can recompute the chain from its description."""
    event = {name: name for name in HASHED_FIELDS} | {"entry": 1, "units": b"\0"}
    said = event | {"units": hashlib.sha256(b"\0").hexdigest()}
    text = GENESIS_HASH + "\n" + json.dumps(said, sort_keys=True, separators=(",", ":"))
    assert chain_hash(GENESIS_HASH, event) == hashlib.sha256(text.encode()).hexdigest()


@given(books, st.data())
def test_a_change_of_any_field_is_found(found, data):
    """Another value anywhere gives another hash there and at the end."""
    events = numbered(found)
    place = data.draw(st.integers(0, len(events) - 1))
    field = data.draw(st.sampled_from([*HASHED_FIELDS, "units"]))
    old = events[place][field]
    kinds = {"entry": st.integers(1, 99), "units": st.none() | st.binary(max_size=5)}
    other = kinds.get(field, texts)
    new = data.draw(other.filter(lambda value: value != old))
    changed = [*events[:place], events[place] | {field: new}, *events[place + 1 :]]
    before, after = chained(events), chained(changed)
    assert before[:place] == after[:place]
    assert not set(before[place:]) & set(after[place:])


@given(books, st.data())
def test_a_removal_is_found(found, data):
    """Without an event, also when those after it are numbered anew, the end is another."""
    events = numbered(found)
    place = data.draw(st.integers(0, len(events) - 1))
    rest = [*events[:place], *events[place + 1 :]]
    for changed in (rest, numbered(rest)):
        assert chained(events)[-1] not in chained(changed)


@given(books, st.data())
def test_another_order_is_found(found, data):
    """Two events that change places give another end, also when they are numbered anew."""
    events = numbered(found)
    place = data.draw(st.integers(0, len(events) - 2))
    changed = [*events[:place], events[place + 1], events[place], *events[place + 2 :]]
    assert chained(changed)[-1] != chained(events)[-1]
    if found[place] != found[place + 1]:
        assert chained(numbered(changed))[-1] != chained(events)[-1]


def test_nothing_is_not_emptiness():
    """An event without losses is told from one whose losses are empty."""
    event = dict.fromkeys(HASHED_FIELDS, "") | {"units": None}
    assert chain_hash(GENESIS_HASH, event) != chain_hash(GENESIS_HASH, event | {"units": b""})


@given(st.dictionaries(texts, st.integers() | texts, max_size=5))
def test_equal_bodies_are_one_text(body):
    """The order of a body's parts does not change its text, which is ASCII."""
    turned = dict(reversed(body.items()))
    assert canonical_json(body) == canonical_json(turned)
    assert canonical_json(body).isascii()
    assert json.loads(canonical_json(body)) == body
