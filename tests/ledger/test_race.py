"""Many processes spend from one budget; processes are killed at every step."""

import multiprocessing
import os
import queue

import pytest

import hexveil as hv
from ledger import workers
from ledger.books import publish, spend
from ledger.workers import STEP

LONG = bool(os.environ.get("HEXVEIL_ATTACK"))
WRITERS, TRIES = (16, 1000) if LONG else (4, 20)


@pytest.fixture(scope="module")
def processes():
    """Return how processes are started: each from one that has the imports and no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ledger.workers"])
    return context


def run(processes, target, *arguments):
    """Run a function in a process of its own until it ends, and return its exit code."""
    process = processes.Process(target=target, args=arguments)
    process.start()
    process.join(120)
    code = process.exitcode
    process.close()
    return code


def collect(writers, outcome):
    """Return the answer of each process; one that died without an answer is an error at once."""
    answers = []
    while len(answers) < len(writers):
        try:
            answers.append(outcome.get(timeout=1))
        except queue.Empty:
            codes = [writer.exitcode for writer in writers]
            assert not any(codes), f"a writer died without an answer; exit codes {codes}"
    return answers


@pytest.mark.slow
def test_the_total_of_a_race_is_exactly_the_budget(place, processes):
    """Processes that open a new book and spend from it at the same moment never go over."""
    gate, outcome = processes.Barrier(WRITERS), processes.Queue()
    writers = [  # daemons: where one dies, the test ends without waiting for the others
        processes.Process(
            target=workers.race, args=(place, name, gate, outcome, TRIES), daemon=True
        )
        for name in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    booked = collect(writers, outcome)
    for writer in writers:
        writer.join()
        writer.close()
    book = place.open()
    assert sum(booked) == 1 / STEP
    assert (book.spent, book.remaining) == (1, 0)
    assert len(book.entries()) == 50
    assert book.spend().units == 1 + sum(done > 0 for done in booked)
    assert book.verify().problems == ()
    with pytest.raises(hv.BudgetError):
        spend(book, "more", {"a": STEP})


@pytest.mark.parametrize("moment", ["inside", "after"])
@pytest.mark.parametrize("kind", ["reserved", "marked", "measured", "stored", "committed"])
def test_a_process_killed_at_a_step_leaves_a_book_that_can_be_finished(
    place, processes, tmp_path, kind, moment
):
    """The chain holds, the spend is right, and one answer is ever shown, whenever it dies."""
    order = ("reserved", "marked", "measured", "stored", "committed")
    reached = order.index(kind) + (moment == "after")
    book, shown = place.open(), tmp_path / "shown"
    assert run(processes, workers.crash, place, kind, moment, shown) == -9
    booking = book.find("r")
    assert (booking.state if booking else "") == ("", *order)[reached]
    assert book.spent == (STEP if reached else 0)
    assert book.verify().problems == ()
    lost = booking is not None and booking.state == "marked"
    answer = publish(book, "r", {"a": STEP}, (2,))
    assert answer == {"cells": (1 if reached > order.index("measured") else 2,)}
    assert publish(book, "r", {"a": STEP}, (3,)) == answer
    assert not shown.exists()
    assert book.spent == (2 if lost else 1) * STEP
    assert book.verify().problems == ()
