"""Damage to a book, done by SQL: each kind is found and named, and no unit is shown."""

import sqlite3

import pytest

import hexveil as hv
from ledger.books import GENESIS, change_body, draw, execute, link, losses, publish, rewrite, spend


def filled(place):
    """Return a ledger with some of everything: 14 entries of one account, 4 of another."""
    book = place.open(window="month")  # 1 opened, 2 joined
    spend(book, "r", {"a": "0.5", "b": "0.25"})  # 3 unit, 4
    draw(book, "r", (4, 5))  # 5 marked, 6 measured
    book.complete("r")  # 7
    spend(book, "s", {"a": "0.5"})  # 8
    book.cancel("s")  # 9
    book.set_budget(2)  # 10
    spend(book, "t", {"b": "1.5"})  # 11
    book.begin_draw("t", "cells", 2)  # 12
    book.abandon("t")  # 13
    spend(book, "u", {"c": 1})  # 14
    days = place.open("trams", 3, account="trams")  # 15 opened, 16 joined
    spend(days, "r", {"a": 1}, privacy_unit="user-day", periods=["2026-11-16"])  # 17 unit, 18
    return book


def test_a_book_that_hangs_together_has_no_problem(place):
    """Entries are counted, the head is the last hash, and nothing is found.

    Anyone can recompute the chain from its description: a link is the SHA-256 of the hash before
    and the event.
    """
    book = filled(place)
    verdict, last = book.verify(), GENESIS
    for row in execute(book, "SELECT * FROM hexveil_events ORDER BY entry"):
        last = link(last, row)
        assert row["chain"] == last
    assert (verdict.entries, verdict.head, verdict.problems) == (18, last, ())


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE hexveil_journal SET row = zeroblob(16) WHERE entry = 5",
        "UPDATE hexveil_journal SET row = 'sixteen letters.' WHERE entry = 5",
        "DELETE FROM hexveil_journal WHERE entry = 5",
    ],
)
def test_a_changed_result_is_never_returned(plain, sql):
    """Neither to a release that resumes nor to one that was published."""
    book = filled(plain)
    execute(book, sql)
    with pytest.raises(hv.StorageError, match="the result of entry 6 of the ledger was changed"):
        book.find("r")


def test_a_changed_account_is_never_used(plain):
    """Neither a budget that was raised behind the ledger's back, nor what is left of it."""
    book = filled(plain)
    execute(book, 'UPDATE hexveil_events SET body = \'{"budget":"99"}\' WHERE entry = 10')
    with pytest.raises(hv.StorageError, match="entry 10 is not what was written"):
        spend(book, "v", {"a": 9})


CHANGES = [
    ("UPDATE hexveil_events SET body = '{ }' WHERE entry = 9", "Entry 9 is not what was written"),
    ("UPDATE hexveil_journal SET row = zeroblob(16) WHERE entry = 5", "The result of entry 6 is"),
    ("UPDATE hexveil_journal SET row = zeroblob(8) WHERE entry = 12", "The result of entry 12 is"),
    ("DELETE FROM hexveil_journal WHERE entry = 5", "The result of entry 6 is not what was stored"),
    ("UPDATE hexveil_journal SET entry = 4 WHERE entry = 5", "The result 4 belongs to no entry"),
    ("UPDATE hexveil_plans SET content = zeroblob(3) WHERE part = 0", "is not what was booked"),
    ("UPDATE hexveil_events SET chain = 'ff' WHERE entry = 18", "Entry 18 is not what was written"),
    ("UPDATE hexveil_events SET units = NULL WHERE entry = 8", "Entry 8 is not what was written"),
    ("UPDATE hexveil_events SET at = '2020-01-01T00:00:00Z' WHERE entry = 5", "Entry 5 is dated"),
    ("UPDATE hexveil_events SET body = '{' WHERE entry = 4", "Entry 4 is damaged"),
    ("DELETE FROM hexveil_events WHERE entry = 9", "Entry 10 does not follow entry 8."),
    ("UPDATE hexveil_events SET kind = 'gift' WHERE entry = 9", "of an unknown kind, 'gift'"),
    ("DELETE FROM hexveil_events WHERE entry >= 17", "Balances of 'trams' for ever are not"),
    ("UPDATE hexveil_balances SET spent = 1 WHERE \"window\" = ''", "Balances of 'buses' for ever"),
    ("DELETE FROM hexveil_balances WHERE \"window\" <> ''", "Balances of 'buses' in 20"),
    ("UPDATE hexveil_balances SET period = '*' WHERE account = 'trams'", "Balances of 'trams' for"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "said"), CHANGES)
def test_a_change_behind_the_ledgers_back_is_named(plain, sql, said):
    """Each change, removal or addition is found; one of a single entry is said by its number."""
    book = filled(plain)
    execute(book, sql)
    problems = book.verify().problems
    assert any(part in one for part in said.split("|") for one in problems), problems


def test_a_new_order_is_found(plain):
    """Two entries that change places are both named."""
    book = filled(plain)
    for old, new in ((11, 99), (12, 11), (99, 12)):
        execute(book, "UPDATE hexveil_events SET entry = :new WHERE entry = :old", old=old, new=new)
    problems = book.verify().problems
    assert [one[:9] for one in problems[:2]] == ["Entry 11 ", "Entry 12 "]
    assert any("says marked, of a request that was not in the ledger" in one for one in problems)


REWRITES = [
    ("UPDATE hexveil_events SET kind = 'returned' WHERE entry = 13", "request that was marked"),
    ("UPDATE hexveil_events SET kind = 'stored' WHERE entry = 14", "was not in the ledger"),
    ("UPDATE hexveil_events SET account = 'trams' WHERE entry = 5", "from another account than"),
    ("UPDATE hexveil_events SET account = 'none' WHERE entry = 4", "does not hold what an entry"),
    ("UPDATE hexveil_events SET units = NULL WHERE entry = 14", "names another cost than"),
    ("UPDATE hexveil_events SET kind = 'unit' WHERE entry = 10", "does not hold what an entry"),
    ("UPDATE hexveil_events SET account = 'buses' WHERE entry = 15", "a second time"),
    ("UPDATE hexveil_events SET account = 'none' WHERE entry = 2", "join where it cannot"),
    ("UPDATE hexveil_events SET account = 'buses' WHERE entry = 17", "changes the terms of"),
    ("UPDATE hexveil_events SET body = '{\"budget\":\"0.1\"}' WHERE entry = 10",
     "took 1 units above the budget of its time"),
    ("UPDATE hexveil_events SET body = '{\"budget\":\"much\"}' WHERE entry = 10",
     "does not hold what an entry 'budget' needs"),
    ("UPDATE hexveil_events SET at = '2099-01-01T00:00:00Z' WHERE entry >= 14",
     "was booked in another window than its time's"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "said"), REWRITES)
def test_what_cannot_have_happened_is_found_behind_a_new_chain(plain, sql, said):
    """Who writes the chain anew cannot bring in what the ledger would have refused."""
    book = filled(plain)
    execute(book, sql)
    rewrite(book, 0)
    problems = book.verify().problems
    assert not any("is not what was written" in one for one in problems)
    assert any(said in one for one in problems), problems


def test_a_refund_is_found(plain):
    """A reservation whose losses were lowered behind a new chain does not fit the balances."""
    book = filled(plain)
    less = losses(book, {"c": "0.5"}).to_bytes()
    change_body(book, 14, {"cost": 5 * 10**11}, units=less)
    found = book.verify().problems
    assert all(one.startswith("Balances of 'buses'") for one in found[:2])
    assert all(one.endswith("(1 of them).") for one in found[:2])


def test_the_last_entry_removed_with_its_sums_needs_a_receipt(plain):
    """A book put back whole is sound by itself; its head is older than a receipt's."""
    book = filled(plain)
    before = book.verify()
    spend(book, "v", {"d": 1})
    after = book.verify()
    book.cancel("v")
    execute(book, "DELETE FROM hexveil_events WHERE entry > 18")
    again = book.verify()
    assert (again.head, again.problems) == (before.head, ())
    assert after.head != again.head


@pytest.mark.parametrize(
    ("column", "value"),
    [("at", None), ("chain", b"\xff"), ("kind", 7), ("body", b"\xff\xfe"), ("units", 2**60)],
)
def test_a_column_of_another_kind_is_a_problem(tmp_path, column, value):
    """Whatever stands in a column, verify ends in problems and not in an error of the program."""
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=1)
    publish(book, "r", {"a": "0.5"})
    with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = replace(sql, ' NOT NULL', '')")
    connection.close()
    with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
        connection.execute(f"UPDATE hexveil_events SET {column} = ? WHERE entry = 4", [value])
    connection.close()
    assert book.verify().problems


# ---- stages: once each, each result its own ----


@pytest.mark.parametrize(
    ("entry", "changes", "said"),
    [
        (7, {"stage": "interval"}, "Entry 7 draws a stage a second time under one booking."),
        *((8, changes, "Entry 8 ") for changes in ({"row": 5}, {"row": None}, {"stage": "centre"})),
        *((7, {"entries": size}, "The result of entry ") for size in (-1, "many", None, [2])),
    ],
)
def test_a_stage_of_another_draw_is_found(plain, entry, changes, said):
    """Two draws of one stage show more than was paid for; a result belongs to the draw before."""
    book = plain.open()
    spend(book, "r", {"a": "0.5"})
    for stage in ("interval", "cells"):  # entries 5 to 8
        draw(book, "r", (1, 2), stage)
    assert book.verify().problems == ()
    change_body(book, entry, changes)
    assert [one for one in book.verify().problems if one.startswith(said)]


@pytest.mark.parametrize(
    "broken",
    [
        lambda _: b"x",
        lambda units: units[:-1],
        lambda units: units[:16] * 2 + units[16:24] * 2 + units[24:] * 2,
        lambda _: b"\0" * 28,
        lambda _: b"\xff" * 28,
    ],
)
def test_bytes_that_are_no_losses_are_found_and_refused(plain, broken):
    """A wrong length, hashes out of order, losses of nothing and below: no booking goes on."""
    book = plain.open()
    spend(book, "r", {"a": "0.5"})
    rewrite(book, 4, units=broken(losses(book, {"a": "0.5"}).to_bytes()))
    assert "Entry 4 does not hold what an entry 'reserved' needs." in book.verify().problems
    with pytest.raises(hv.StorageError, match="entry 4 of the ledger is damaged"):
        spend(book, "r", {"a": "0.5"})
