"""Every call of the noise door is written down before it returns, with the stage it is for.

What is written survives the process: a line is appended to a file at once. A booking whose stage
has more lines than its draw has calls was drawn twice.
"""

import contextlib
import json
import os
from collections import Counter

from hexveil.ledger import Ledger
from hexveil.mechanisms import noise

FILE = "draws.log"
STAGES = {"histogram", "first look", "cells"}
"""Stages of which each is drawn by one call of the door."""


def write_down(folder, change=setattr):
    """Note each call of the door from now on in a file of a folder.

    Parameters
    ----------
    folder : Path or str
    change : callable
        Sets an attribute: `setattr`, or one that is undone later.
    """
    file = os.open(f"{folder}/{FILE}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    begun = {"request": None, "entry": 0}
    begin, store = Ledger.begin_draw, Ledger.store

    def begin_draw(self, request, stage, entries):
        begun.update(request=None, entry=0)
        entry = begin(self, request, stage, entries)
        begun.update(request=request, entry=entry)
        return entry

    def stored(self, request, entry, result):
        begun.update(request=None, entry=0)
        return store(self, request, entry, result)

    def noted(door):
        def called(*arguments):
            drawn = door(*arguments)
            os.write(file, (json.dumps(begun) + "\n").encode())
            return drawn

        return called

    change(Ledger, "begin_draw", begin_draw)
    change(Ledger, "store", stored)
    for name in ("add_laplace", "noisy_max"):
        change(noise, name, noted(getattr(noise, name)))


def noted(folder):
    """Return how often the door was called for each stage that began: (request, entry)."""
    file = folder / FILE
    lines = file.read_text().splitlines() if file.exists() else []
    return Counter((one["request"], one["entry"]) for one in map(json.loads, lines))


@contextlib.contextmanager
def apart(folder):
    """Strike out what is drawn in a block, under bookings of a copy that goes its own way.

    Yields a list that holds, after the block, how many stages were drawn there.
    """
    before, size, made = noted(folder), (folder / FILE).stat().st_size, []
    yield made
    made.append(len(noted(folder) - before))
    os.truncate(folder / FILE, size)


def check(folder, history):
    """Check that under each booking each stage began once, and was drawn by one draw at most.

    Parameters
    ----------
    folder : Path
        Where draws were written down.
    history : sequence of Event
        All events of the ledger.

    Returns
    -------
    counter
        How often each booking drew each stage, by (dataset, request), reservation and stage.
    """
    calls, of, begun, drawn = noted(folder), {}, Counter(), Counter()
    for event in history:
        request = event.dataset, event.request
        if event.kind == "reserved":
            of[request] = event.entry
        if event.kind == "marked":
            stage = (*request, of[request], event.body["stage"])
            begun[stage] += 1
            many = calls.pop((event.request, event.entry), 0)
            assert event.body["stage"] in STAGES
            assert many <= 1, "drawn twice"
            drawn[stage] += many > 0
    assert not calls, "drawn without a booking"
    assert max(begun.values(), default=0) <= 1, "begun twice under one booking"
    return drawn
