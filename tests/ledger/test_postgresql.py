"""A server that is stopped, slow or busy ends a run in a sentence, and loses nothing."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

import hexveil as hv
from hexveil.ledger import databases, ledger
from hexveil.ledger.databases import transaction
from hexveil.ledger.unit_losses import make_key
from ledger.books import Place, Server, publish, schema, spend

pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def own(postgres_programs):
    """Return a server that tests may stop."""
    with Server(postgres_programs) as server:
        yield server


@pytest.fixture
def place(own, tmp_path, monkeypatch):
    """Return where a ledger is whose server must answer in two seconds."""
    monkeypatch.setattr(databases, "ANSWER", 2.0)
    make_key(tmp_path / "holder.key")
    return Place(schema(own.address), key=f"{tmp_path}/holder.key")


class Stopped:
    """A server whose processes all stand still."""

    def __init__(self, server):
        main = int(Path(server._folder, "data", "postmaster.pid").read_text().split()[0])
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


def test_every_transaction_has_limits(place):
    """A statement, a wait for a lock and an idle transaction all have an end at the server."""
    engine = place.open()._engine
    with transaction(engine) as connection:
        shown = {
            name: connection.exec_driver_sql(f"SHOW {name}").scalar()
            for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
        }
        parameters = connection.connection.driver_connection.info.get_parameters()
    assert shown == {
        "statement_timeout": "2s",
        "lock_timeout": "1s",
        "idle_in_transaction_session_timeout": "20s",
    }
    assert parameters["connect_timeout"] == "1"
    assert parameters["tcp_user_timeout"] == "2000"
    assert parameters["keepalives_idle"] == "1"


def test_an_index_that_hides_a_request_is_noticed(place, monkeypatch):
    """A server's index can be damaged, as by a new sort order of texts: nothing is booked again."""
    book = place.open()
    spend(book, "a", {"x": "0.25"})
    monkeypatch.setattr(ledger.events, "request_events", lambda *_: ())
    with pytest.raises(hv.StorageError, match="index hexveil_events_of_request does not agree"):
        spend(book, "a", {"x": "0.25"})
    monkeypatch.undo()
    assert float(book.spent) == 0.25
