"""What the processes of the race and crash tests do."""

import os
import signal
from fractions import Fraction
from pathlib import Path

import hexveil as hv
from hexveil.ledger import events
from hexveil.ledger import ledger as module
from ledger.books import Place, publish, spend

STEP = Fraction(1, 50)


def race(url, key, name, gate, outcome, tries):
    """Spend in small steps from one budget, and say how many were booked."""
    gate.wait()
    book = Place(url, key).open()
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


def crash(url, key, kind, moment, shown):
    """Publish, and be killed at a step: inside its transaction, or when it is committed."""
    book = Place(url, key).open()
    if moment == "inside":
        real = events.append

        def add(connection, step, **options):
            made = real(connection, step, **options)
            return die() if step == kind else made

        events.append = add
        publish_and_show(book, "r", 1, shown)
    method = {
        "reserved": "reserve", "marked": "begin_draw", "measured": "store", "stored": "complete",
        "committed": "commit",
    }  # fmt: skip
    done = getattr(module.Ledger, method[kind])

    def step(self, *arguments, **options):
        done(self, *arguments, **options)
        die()

    setattr(module.Ledger, method[kind], step)
    publish_and_show(book, "r", 1, shown)


def publish_and_show(book, request, number, shown):
    """Publish a request and append what was shown to a file, as its reader would see it."""
    numbers = publish(book, request, {"a": STEP}, (number,))
    with Path(shown).open("a") as file:
        file.write(f"{request} {numbers['cells'][0]}\n")
