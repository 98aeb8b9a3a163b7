"""Damage to a ledger's file: a paid request is never drawn again, and nothing ends in a traceback.

The file is SQLite's, its pages are flipped one bit at a time: in indexes, tables, the heads of
pages and of the file, free pages.
"""

import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import hexveil as hv
from examples import LONG
from hexveil.base.errors import HexveilError, StorageError
from hexveil.ledger import inspection
from hexveil.ledger.databases import connect_existing
from ledger.books import Place, publish, spend

pytestmark = pytest.mark.slow

FLIPS = 400 if LONG else 40
ENTRIES = 30
"""Whole numbers of a release."""
LOSSES = {str(unit): "0.001" for unit in range(40)}
ANSWERS = {f"request {k:02d}": {"cells": (k,) * ENTRIES} for k in range(12)}
"""What was drawn for each request."""


def execute(file, *statements):
    """Change a file behind the ledger's back."""
    for statement in statements:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(statement)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Return a ledger's file with a dozen releases, free pages among the used ones."""
    place = Place(str(tmp_path_factory.mktemp("whole") / "ledger.sqlite"))
    book = place.open(budget=1000)
    for number, request in enumerate(ANSWERS):
        publish(book, request, LOSSES, [number] * ENTRIES)
    publish(book, "one more", {"a": "0.5", "b": "0.25"})
    execute(place.url, "CREATE TABLE gone AS SELECT * FROM hexveil_events", "DROP TABLE gone")
    return Path(place.url)


def page_size(file):
    """Return the size of a page."""
    return int.from_bytes(file.read_bytes()[16:18], "big")


def bits_to_flip(file, number, seed):
    """Return bits: half of them in the parts of pages that say what is where."""
    size = page_size(file)
    chance, many = random.Random(seed), file.stat().st_size // size  # noqa: S311  which bits
    for k in range(number):
        # The page's head and the places of its cells; on page 1 the file's head too.
        head = 160 if k % many == 0 else 60
        within = chance.randrange(head if k % 2 else size)
        yield 8 * (k % many * size + within) + chance.randrange(8)


def copied(file, folder, *bits):
    """Return a copy of a ledger and its key, with some bits of it flipped."""
    copy = folder / "copy" / file.name
    shutil.rmtree(copy.parent, ignore_errors=True)
    copy.parent.mkdir()
    shutil.copy(f"{file}.key", f"{copy}.key")
    content = bytearray(file.read_bytes())
    for bit in bits:
        content[bit // 8] ^= 1 << bit % 8
    copy.write_bytes(bytes(content))
    return copy


def attack(copy, answers=ANSWERS):
    """Verify, look, and ask for every request again, and for a new one.

    Return how often it was noticed by `verify` and refused in a sentence. A request that is
    answered with other numbers than those that were paid for, or another error, fails.
    """
    seen = Counter()

    def tried(work):
        try:
            return work()
        except HexveilError as error:
            return error

    found = tried(lambda: hv.Ledger(copy, dataset="buses").verify().problems)
    seen["noticed"] += isinstance(found, HexveilError) or bool(found)
    tried(lambda: inspection.overview(connect_existing(copy), "buses"))
    for request, numbers in (*answers.items(), ("never asked", None)):
        ask = partial(publish, request=request, parts=LOSSES, numbers=[77] * ENTRIES)
        told = tried(lambda ask=ask: ask(hv.Ledger(copy, dataset="buses")))
        seen["refused"] += isinstance(told, HexveilError)
        assert numbers is None or isinstance(told, HexveilError) or told == numbers, request
    return seen


def test_a_flipped_bit_draws_nothing_again(file, tmp_path):
    """Each flip leaves the ledger as good as whole, or ends in a sentence."""
    assert attack(copied(file, tmp_path)).total() == 0, "a whole ledger answers all"
    seen = [
        attack(copied(file, tmp_path, bit)).total()
        for bit in bits_to_flip(file, FLIPS, None if LONG else 17)
    ]
    print(f"{FLIPS} flips, {seen.count(0)} without any effect")  # noqa: T201  figures of the attack
    assert any(seen)


def test_a_damaged_index_hides_no_request(file, tmp_path):
    """A request whose index entries are damaged is not taken for one that was never asked."""
    with closing(sqlite3.connect(file)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'hexveil_events_of_request'"
        ).fetchone()
    content, size, places, name = file.read_bytes(), page_size(file), [-1], b"request 07"
    while (at := content.find(name, places[-1] + 1)) >= 0:
        places.append(at)
    bits = [8 * (at + 9) + 6 for at in places[1:] if at // size == root - 1]
    assert len(bits) == 5  # of reserved, marked, measured, stored and committed
    for some in (bits, bits[-4:], bits[-3:], bits[-2:]):
        seen = attack(copied(file, tmp_path, *some), {name.decode(): ANSWERS[name.decode()]})
        assert seen["noticed"]


def test_a_flipped_kind_hides_nothing(file, tmp_path):
    """An event of a request that is not what was written is refused, whatever it says."""
    copy, name = copied(file, tmp_path), "request 07"
    execute(
        copy,
        f"UPDATE hexveil_events SET kind = 'Stored' WHERE request = '{name}' AND kind = 'stored'",
    )
    book = hv.Ledger(copy, dataset="buses")
    for look in (book.find, lambda request: spend(book, request, LOSSES)):
        with pytest.raises(StorageError, match=r"damaged \(entry \d+ is not what was written\)"):
            look(name)


@pytest.mark.parametrize("only", ["", " WHERE tbl_name = 'hexveil_events'"], ids=["all", "one"])
def test_tables_that_are_gone_are_not_made_anew(file, tmp_path, only):
    """A file that lost its tables is damaged, and not a new ledger in which nothing is spent."""
    copy = copied(file, tmp_path)
    execute(copy, f"DELETE FROM sqlite_schema{only}")
    for _ in range(2):
        with pytest.raises(StorageError, match="is damaged: it lacks"):
            hv.Ledger(copy, dataset="buses", budget=1000)
