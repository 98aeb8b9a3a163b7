"""Single bits of a ledger's file flipped, and what the ledger may do with each."""

import random
import shutil
import sqlite3
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import hexveil as hv
from hexveil.base.errors import HexveilError
from hexveil.ledger import inspection
from hexveil.ledger.databases import connect_existing
from hexveil.ledger.unit_losses import Losses
from ledger.books import Place, draw, publish

RELEASES = 12
UNITS = 40
ENTRIES = 30
"""Whole numbers of a release."""


def losses():
    """Return what 40 units lose, whose hashes need no key."""
    hashes = sorted(bytes([k]) * 16 for k in range(UNITS))
    return Losses(hashes, np.full(UNITS, 10**9), np.zeros(UNITS, dtype=np.int64))


def ask(book, request, number):
    """Ask for a release as `hv.release` does; return the numbers that are shown."""
    known, plan = book.find(request), book.plan_of(request) or b"plan of " + request.encode()
    if known is None or not known.complete:
        with book.drawing():
            known = reserve(book, request, plan)
            if not known.complete:
                if not known.stages:
                    draw(book, request, [number] * ENTRIES)
                book.complete(request)
        book.commit(request)
        known = book.find(request)
    return known.published


def reserve(book, request, plan):
    """Book a request for the 40 units."""
    return book.reserve(request, losses(), privacy_unit="user", facts={"name": request}, plan=plan)


def make(folder):
    """Return a ledger's file with a dozen releases, free pages among the used ones."""
    place = Place(str(folder / "ledger.sqlite"))
    book = place.open(budget=1000)
    for k in range(RELEASES):
        ask(book, f"request {k:02d}", k)
    publish(book, "one more", {"a": "0.5", "b": "0.25"})
    file = Path(place.url)
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE gone AS SELECT * FROM hexveil_events")
        connection.execute("DROP TABLE gone")
    connection.close()
    return file


@dataclass
class Outcome:
    """What became of one flip.

    Attributes
    ----------
    place : int
        The bit.
    refused : int
        How many of the releases ended in a sentence.
    redrawn : list of str
        Requests that were answered with other numbers than those that were paid for.
    errors : list of str
        Tracebacks of what is no sentence.
    noticed : bool
        Whether `verify` named a problem or refused in a sentence.
    """

    place: int
    refused: int = 0
    redrawn: list = field(default_factory=list)
    errors: list = field(default_factory=list)
    noticed: bool = False


def pages(file):
    """Return the size of a page, and how many there are."""
    content = file.read_bytes()
    size = int.from_bytes(content[16:18], "big")
    return size, len(content) // size


def places(file, number, seed):
    """Return bits to flip: half of them in the parts of pages that say what is where."""
    size, many = pages(file)
    draw = random.Random(seed)  # noqa: S311  which bits to flip
    found = []
    for k in range(number):
        page = k % many
        within = draw.randrange(size)
        if k % 2:  # the page's head and the places of its cells; on page 1 the file's head too
            within = draw.randrange(160 if page == 0 else 60)
        found.append(8 * (page * size + within) + draw.randrange(8))
    return found


def flip(file, folder, bits):
    """Return a copy of a ledger and its key, with some bits of it flipped."""
    copy = folder / file.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(f"{file}.key", f"{copy}.key")
    content = bytearray(file.read_bytes())
    for bit in bits:
        content[bit // 8] ^= 1 << bit % 8
    copy.write_bytes(bytes(content))
    return copy


def attack(copy, bit, answers):
    """Verify, look, and ask for every request again, and for a new one."""
    outcome = Outcome(bit)

    def tried(work):
        try:
            return work()
        except HexveilError as error:
            return error
        except Exception:  # noqa: BLE001  that is what is looked for
            outcome.errors.append(traceback.format_exc())
            return None

    def verdict():
        return hv.Ledger(copy, dataset="buses").verify().problems

    found = tried(verdict)
    outcome.noticed = isinstance(found, HexveilError) or bool(found)
    tried(lambda: inspection.overview(connect_existing(copy), "buses"))
    for request, numbers in (*answers.items(), ("never asked", None)):
        told = tried(lambda name=request: ask(hv.Ledger(copy, dataset="buses"), name, 77))
        outcome.refused += isinstance(told, HexveilError)
        if numbers is not None and isinstance(told, dict) and told != numbers:
            outcome.redrawn.append(request)
    return outcome
