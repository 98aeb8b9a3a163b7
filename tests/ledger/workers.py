"""What the processes of the race and crash tests do."""

import os
import signal
from fractions import Fraction
from pathlib import Path

import sqlalchemy as sa

import hexveil as hv
from ledger.books import publish, spend

STEP = Fraction(1, 50)


def race(place, name, gate, outcome, tries):
    """Spend in small steps from one budget, and say how many were booked."""
    gate.wait()
    book = place.open()
    done = 0
    for number in range(tries):
        try:
            spend(book, f"{name}-{number}", {"a": STEP, f"own {name}": STEP})
            done += 1
        except hv.BudgetError:
            pass
    outcome.put(done)


def die(*_):
    """Go at once, as at a power cut of this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def crash(place, kind, moment, shown):
    """Publish, and be killed at a step: inside its transaction, or when it is committed."""
    book, begun = place.open(), []

    def written(_connection, _cursor, statement, parameters, _context, _many):
        values = parameters.values() if isinstance(parameters, dict) else parameters
        if statement.startswith("INSERT INTO hexveil_events") and kind in values:
            begun.append(kind)
            if moment == "inside":
                die()

    def given_back(*_):
        if begun:  # and committed
            die()

    sa.event.listen(sa.Engine, "after_cursor_execute", written)
    sa.event.listen(sa.pool.Pool, "checkin", given_back)
    publish_and_show(book, "r", 1, shown)


def publish_and_show(book, request, number, shown):
    """Publish a request and append what was shown to a file, as its reader would see it."""
    numbers = publish(book, request, {"a": STEP}, (number,))
    with Path(shown).open("a") as file:
        file.write(f"{request} {numbers['cells'][0]}\n")
