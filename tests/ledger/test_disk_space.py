"""Room for a result is there before its draw, or nothing is drawn: whatever the numbers are."""

import os
import resource
import shutil
import tempfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import hexveil as hv
from ledger.books import draw, spend

MANY, MARGIN = 9_000, 2**18
"""Whole numbers of a stage; bytes that a ledger reserves beside its rows."""
RESULTS = {
    "zero": np.zeros(MANY, dtype=np.int64),
    "any": np.random.default_rng(3).integers(-(2**63), 2**63 - 1, MANY, dtype=np.int64),
}
NO_SPACE = OSError(28, "No space left on device")
STATES = ("refused", "lost", "stored")


def book_of(folder):
    """Open the ledger of a folder."""
    return hv.Ledger(folder / "ledger.sqlite", dataset="buses", budget=5)


def ending(folder, most, result):
    """Return how a stage ends in a process whose files may have so many bytes."""
    book = book_of(folder)
    child = os.fork()
    if not child:
        state = 3
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            state = _stage(book, result)
        finally:
            os._exit(state)
    return STATES[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]


def _stage(book, result):
    try:
        entry = book.begin_draw("r", "cells", result.size)
    except hv.StorageError:
        return 0
    try:
        book.store("r", entry, result)
    except hv.StorageError:
        return 1
    return 2


@pytest.fixture(params=[0, 12], ids=["a small ledger", "one that others fill"])
def booked(request, tmp_path):
    """Return the folder of a ledger with a booking, and perhaps with others."""
    folder = tmp_path / "booked"
    folder.mkdir()
    book = book_of(folder)
    for k in range(request.param):
        spend(book, f"other {k}", {f"v{n}": "0.01" for n in range(300)})
    spend(book, "r", {"a": "0.5"})
    return folder


def tried(booked, most, result):
    """Return how a stage ends, and the ledger then, in a copy of a folder."""
    with tempfile.TemporaryDirectory(dir=booked.parent) as name:
        for file in booked.iterdir():
            shutil.copy(file, name)
        ended, book = ending(Path(name), most, result), book_of(Path(name))
        return ended, book.find("r"), book.verify().problems


@pytest.mark.slow
def test_a_stage_stops_before_its_draw_or_is_stored(booked):
    """At every limit on files, with any numbers: refused while reserved, or measured."""
    page, row, seen = 4096, 8 * MANY, set()
    top = 2 * row + MARGIN + 16 * page
    for most in {*range(8 * page, top, row // 2), *range(top - 24 * page, top, 3 * page)}:
        found = {name: tried(booked, most, result) for name, result in RESULTS.items()}
        states = {ended for ended, _, _ in found.values()}
        assert len(states) == 1, most  # whatever is stored
        (state,) = states
        for name, (_, booking, problems) in found.items():
            assert problems == ()
            assert booking.state == {"refused": "reserved", "stored": "measured"}[state]
            stored = RESULTS[name].tolist() if state == "stored" else None
            assert list(booking.stages.get("cells", ())) == (stored or [])
        seen |= states
    assert seen == {"refused", "stored"}


def test_what_has_no_room_is_said_and_costs_nothing_more(booked, monkeypatch):
    """The booking stands, nothing was drawn; with room the stage begins."""
    book = book_of(booked)
    with monkeypatch.context() as full:
        full.setattr(tempfile, "TemporaryFile", Mock(side_effect=NO_SPACE))
        with pytest.raises(
            hv.StorageError, match=r"no space for the result of a draw \(No space left"
        ):
            book.begin_draw("r", "cells", 5)
    assert book.find("r").state == "reserved"
    draw(book, "r", (1, 2))
    assert book.find("r").state == "measured"
