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
    book = place.open()
    if moment == "inside":

        def written(_connection, _cursor, statement, parameters, _context, _many):
            values = parameters.values() if isinstance(parameters, dict) else parameters
            if statement.startswith("INSERT INTO hexveil_events") and kind in values:
                die()

        sa.event.listen(sa.Engine, "after_cursor_execute", written)
        publish_and_show(book, "r", 1, shown)
    method = {
        "reserved": "reserve", "marked": "begin_draw", "measured": "store", "stored": "complete",
        "committed": "commit",
    }  # fmt: skip
    done = getattr(hv.Ledger, method[kind])

    def step(self, *arguments, **options):
        done(self, *arguments, **options)
        die()

    setattr(hv.Ledger, method[kind], step)
    publish_and_show(book, "r", 1, shown)


def publish_and_show(book, request, number, shown):
    """Publish a request and append what was shown to a file, as its reader would see it."""
    numbers = publish(book, request, {"a": STEP}, (number,))
    with Path(shown).open("a") as file:
        file.write(f"{request} {numbers['cells'][0]}\n")
