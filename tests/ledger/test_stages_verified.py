"""What a walk through a book says of stages: once each, each result its own."""

import json

import pytest

from ledger.books import damage, draw, spend
from ledger.test_verification import rechain


@pytest.fixture
def book(plain):
    """Return a ledger with a request of two stages: entries 4 to 8."""
    made = plain.open()
    spend(made, "r", {"a": "0.5"})
    for stage in ("interval", "cells"):
        draw(made, "r", (1, 2), stage)
    assert made.verify().problems == ()
    return made


def rewritten(book, entry, **changes):
    """Change the body of an entry, and chain the ledger anew."""
    body = json.loads(_body(book, entry)) | changes
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    damage(book, "UPDATE hexveil_events SET body = :body WHERE entry = :at", body=text, at=entry)
    rechain(book)
    return book.verify().problems


def _body(book, entry):
    with book._engine.begin() as connection:
        sql = f"SELECT body FROM hexveil_events WHERE entry = {entry}"
        return connection.exec_driver_sql(sql).scalar()


MARKED, MEASURED = 7, 8
"""Entries of the second stage."""


def test_a_stage_that_is_drawn_twice_under_one_booking_is_found(book):
    """Two draws of one stage show more than was paid for."""
    problems = rewritten(book, MARKED, stage="interval")
    assert "Entry 7 draws a stage a second time under one booking." in problems


@pytest.mark.parametrize("changes", [{"row": 5}, {"row": 99}, {"row": None}, {"stage": "centre"}])
def test_a_result_of_another_draw_is_found(book, changes):
    """A result belongs to the draw before it."""
    problems = rewritten(book, MEASURED, **changes)
    assert [one for one in problems if one.startswith("Entry 8 ")]


@pytest.mark.parametrize("entries", [-1, "many", None, [2]])
def test_a_size_that_is_none_is_found(book, entries):
    """The walk ends with a sentence, whatever stands there."""
    assert rewritten(book, MARKED, entries=entries) != ()
