"""Damage to a ledger's file: a paid request is never drawn again, and nothing ends in a traceback.

The file is SQLite's, its pages are flipped one bit at a time: in indexes, tables, the heads of
pages and of the file, free pages.
"""

import os
import sqlite3

import pytest

from attack import flips
from hexveil.base.errors import StorageError
from hexveil.ledger import inspection
from hexveil.ledger.databases import connect_existing

pytestmark = pytest.mark.slow

LONG = bool(os.environ.get("HEXVEIL_ATTACK"))
FLIPS = 400 if LONG else 40


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """Return a ledger's file, and the numbers that it holds of each request."""
    file = flips.make(tmp_path_factory.mktemp("whole"))
    return file, {
        f"request {k:02d}": {"cells": (k,) * flips.ENTRIES} for k in range(flips.RELEASES)
    }


def test_a_whole_ledger_answers_all(ledger, tmp_path):
    """Without a flip nothing is noticed, nothing refused, and every answer is the one paid for."""
    file, answers = ledger
    outcome = flips.attack(flips.flip(file, tmp_path / "copy", []), 0, answers)
    assert (outcome.refused, outcome.redrawn, outcome.errors) == (0, [], [])
    assert not outcome.noticed


def test_a_flipped_bit_draws_nothing_again(ledger, tmp_path):
    """Each flip leaves the ledger as good as whole, or ends in a sentence."""
    file, answers = ledger
    harmless = 0
    for bit in flips.places(file, FLIPS, seed=None if LONG else 17):
        outcome = flips.attack(flips.flip(file, tmp_path / "copy", [bit]), bit, answers)
        assert outcome.redrawn == [], bit
        assert outcome.errors == [], (bit, outcome.errors[:1])
        harmless += not outcome.refused and not outcome.noticed
    print(f"{FLIPS} flips, {harmless} without any effect")  # noqa: T201  figures of the attack
    assert harmless < FLIPS


def offsets(file, text):
    """Return where a text stands in a file."""
    content, found, at = file.read_bytes(), [], -1
    while (at := content.find(text, at + 1)) >= 0:
        found.append(at)
    return found


def test_a_damaged_index_hides_no_request(ledger, tmp_path):
    """A request whose index entries are damaged is not taken for one that was never asked."""
    file, answers = ledger
    name = b"request 07"
    with sqlite3.connect(file) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'hexveil_events_of_request'"
        ).fetchone()
    connection.close()
    size, _ = flips.pages(file)
    bits = [8 * (at + 9) + 6 for at in offsets(file, name) if at // size == root - 1]
    assert len(bits) == 5  # of reserved, marked, measured, stored and committed
    for some in (bits, bits[-4:], bits[-3:], bits[-2:]):
        copy = flips.flip(file, tmp_path / "copy", some)
        outcome = flips.attack(copy, 0, {"request 07": answers["request 07"]})
        assert outcome.noticed
        assert outcome.redrawn == outcome.errors == []


def test_a_flipped_kind_hides_nothing(ledger, tmp_path):
    """An event of a request that is not what was written is refused, whatever it says."""
    file, _ = ledger
    copy = flips.flip(file, tmp_path / "copy", [])
    with sqlite3.connect(copy) as connection:
        connection.execute(
            "UPDATE hexveil_events SET kind = 'Stored' WHERE request = 'request 07' "
            "AND kind = 'stored'"
        )
    connection.close()
    import hexveil as hv  # noqa: PLC0415  for this test alone

    book = hv.Ledger(copy, dataset="buses")
    for look in (
        lambda: book.find("request 07"),
        lambda: flips.reserve(book, "request 07", b"plan of request 07"),
    ):
        with pytest.raises(StorageError, match=r"damaged \(entry \d+ is not what was written\)"):
            look()


@pytest.mark.parametrize("lost", ["all", "one"])
def test_tables_that_are_gone_are_not_made_anew(ledger, tmp_path, lost):
    """A file that lost its tables is damaged, and not a new ledger in which nothing is spent."""
    file, _ = ledger
    copy = flips.flip(file, tmp_path / "copy", [])
    with sqlite3.connect(copy) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        only = "" if lost == "all" else " WHERE tbl_name = 'hexveil_events'"
        connection.execute(f"DELETE FROM sqlite_schema{only}")
    connection.close()
    import hexveil as hv  # noqa: PLC0415  for this test alone

    for _ in range(2):
        with pytest.raises(StorageError, match="is damaged: it lacks"):
            hv.Ledger(copy, dataset="buses", budget=1000)


@pytest.mark.parametrize("column", ["hexveil_datasets.account", "hexveil_accounts.budget"])
def test_a_row_that_cannot_be_meant_is_a_sentence(ledger, tmp_path, column):
    """Where a damaged row would be an error of the program, the file is checked and refused."""
    file, _ = ledger
    copy = flips.flip(file, tmp_path / "copy", [])
    table, name = column.split(".")
    for change in (
        f"UPDATE sqlite_schema SET sql = replace(sql, '{name} TEXT NOT NULL', '{name} TEXT')",
        f"UPDATE {table} SET {name} = NULL",
        f"UPDATE sqlite_schema SET sql = replace(sql, '{name} TEXT', '{name} TEXT NOT NULL')",
    ):
        with sqlite3.connect(copy) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(change)
        connection.close()
    with pytest.raises(StorageError, match="damaged"):
        inspection.overview(connect_existing(copy))
