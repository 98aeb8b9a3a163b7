"""A server that is stopped, slow or busy ends a run in a sentence, and loses nothing."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

import hexveil as hv
from ledger.books import Place, Server, at_commit, listening, place_of, publish, spend

pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def own(postgres_programs):
    """Return a server that tests may stop."""
    with Server(postgres_programs) as server:
        yield server


@pytest.fixture
def place(own, tmp_path):
    """Return where a ledger is whose server must let in within two seconds."""
    place = place_of("server", tmp_path, own.address)
    return Place(f"{place.url}&connect_timeout=2", place.key)


class Stopped:
    """A server whose processes all stand still."""

    def __init__(self, server):
        main = int(Path(server.folder, "data", "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        self.processes = [main, *map(int, children)]

    def __enter__(self):
        self._send(signal.SIGSTOP)

    def __exit__(self, *_):
        self._send(signal.SIGCONT)

    def _send(self, number):
        # A worker of the server may have ended since it was listed.
        for one in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, number)


def test_a_stopped_server_cannot_be_reached(own, place):
    """A new connection is given up in a sentence, and all is there afterwards."""
    book = place.open()
    publish(book, "a", {"x": "0.25"})
    with Stopped(own), pytest.raises(hv.StorageError, match="nothing was published"):
        spend(book, "b", {"x": "0.25"})
    assert publish(book, "a", {"x": "0.25"}, numbers=(7,)) == {"cells": (1,)}
    publish(book, "b", {"x": "0.25"})
    assert float(book.spent) == 0.5
    assert book.verify().problems == ()


def test_every_transaction_has_limits(own, tmp_path):
    """A statement, a wait for a lock and an idle transaction all have an end at the server."""

    def look(connection):
        names = "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"
        shown = [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]
        parameters = connection.connection.driver_connection.info.get_parameters()
        names = "connect_timeout", "tcp_user_timeout", "keepalives_idle"
        return [*shown, *(parameters[name] for name in names)]

    book = place_of("server", tmp_path, own.address).open()
    with at_commit(look) as seen:
        spend(book, "a", {"x": "0.25"})
    assert seen == [["1min", "30s", "10min", "30", "60000", "30"]]


def test_an_index_that_hides_a_request_is_noticed(place):
    """A server's index can be damaged, as by a new sort order of texts: nothing is booked again."""
    book = place.open()
    spend(book, "a", {"x": "0.25"})

    def hide(_connection, _cursor, statement, parameters, _context, _many):
        # The scan that asks without the index reads the numbers of events alone.
        if "request = " in statement and "hexveil_events.kind" in statement:
            statement = statement.replace("WHERE ", "WHERE false AND ")
        return statement, parameters

    with (
        listening("before_cursor_execute", hide, retval=True),
        pytest.raises(hv.StorageError, match="index hexveil_events_of_request does not agree"),
    ):
        spend(book, "a", {"x": "0.25"})
    assert float(book.spent) == 0.25
