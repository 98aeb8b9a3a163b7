"""The lock on drawing and the interrupts that wait: one draws, and whoever waits is told why."""

import signal
import threading
from pathlib import Path

import pytest

import hexveil as hv
from hexveil.base.errors import StorageError
from hexveil.ledger.storage import draw_lock
from hexveil.ledger.storage.draw_lock import defer_interrupts

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def heard(monkeypatch):
    """Note signals that arrive; SIGINT's handler raises, as Python's does."""
    seen = []

    def noted(number, _):
        seen.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, noted) for number in SIGNALS}
    yield seen
    for number, handler in before.items():
        signal.signal(number, handler)


def test_every_interrupt_is_delivered_once_when_the_draw_is_stored(heard):
    """Each kind that came arrives afterwards, also behind one whose handler raises."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    during = []

    def draw():
        with defer_interrupts():
            for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
                signal.raise_signal(number)
            during.extend(heard)

    with pytest.raises(KeyboardInterrupt):
        draw()
    assert during == []
    assert sorted(heard) == [signal.SIGINT, signal.SIGTERM]
    assert {number: signal.getsignal(number) for number in SIGNALS} == handlers


def test_an_error_of_the_draw_leaves_handlers_as_they_were(heard):
    """The error comes out, and the interrupt that waited is delivered."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}

    def draw():
        with defer_interrupts():
            signal.raise_signal(signal.SIGTERM)
            raise StorageError("full")

    with pytest.raises(StorageError, match="full"):
        draw()
    assert heard == [signal.SIGTERM]
    assert {number: signal.getsignal(number) for number in SIGNALS} == handlers


def test_an_interrupt_while_handlers_are_put_back_leaves_none_deferred(heard, monkeypatch):
    """A second one at that moment is raised, and no signal is swallowed from then on."""
    real, put_back = signal.signal, []

    def put(number, handler):
        made = real(number, handler)
        if put_back:
            put_back.append(number)
            signal.raise_signal(number)
        return made

    monkeypatch.setattr(draw_lock.signal, "signal", put)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    with pytest.raises(KeyboardInterrupt), defer_interrupts():
        put_back.append("now")
    monkeypatch.undo()
    assert {number: signal.getsignal(number) for number in SIGNALS} == handlers
    assert set(heard) == set(SIGNALS)


def test_a_handler_from_outside_of_python_is_left_alone(monkeypatch):
    """It cannot be put back, so that it is not replaced."""
    real = signal.getsignal
    monkeypatch.setattr(
        draw_lock.signal, "getsignal", lambda n: None if n == signal.SIGHUP else real(n)
    )
    before = real(signal.SIGHUP)
    with defer_interrupts():
        assert real(signal.SIGHUP) is before
        assert real(signal.SIGTERM) is not signal.SIG_DFL
    assert real(signal.SIGTERM) is signal.SIG_DFL


def test_other_threads_draw_without_signals():
    """Only the main thread may set handlers; others draw as they are."""
    seen = []

    def draw():
        with defer_interrupts():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=draw)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]


@pytest.fixture
def impatient(monkeypatch):
    """Wait a moment only."""
    monkeypatch.setattr(draw_lock, "MAX_WAIT", 1.0)


def refused(book):
    """Return what a thread is told that cannot draw."""
    said = []

    def wait():
        try:
            with book.drawing():
                said.append("drew")
        except StorageError as error:
            said.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    return said


def test_one_at_a_time_by_every_name_of_the_file(tmp_path, impatient):
    """A second opening of the file waits, also through a link, and is told why it got nothing."""
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="d", budget=1)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.sqlite"
    link.symlink_to(tmp_path / "ledger.sqlite")
    others = [
        hv.Ledger(path, dataset="d", key=tmp_path / "ledger.sqlite.key")
        for path in (tmp_path / "ledger.sqlite", Path(link))
    ]
    with book.drawing():
        for other in others:
            (said,) = refused(other)
            assert "another process has been drawing" in said
    assert [refused(other) for other in others] == [["drew"], ["drew"]]


def test_one_at_a_time_on_a_server(postgres, tmp_path, monkeypatch, impatient):
    """A second session waits for the first, and is told why it got nothing."""
    from ledger.books import place_of  # noqa: PLC0415

    book = place_of("server", tmp_path, monkeypatch, postgres).open()
    with book.drawing():
        (said,) = refused(book)
        assert "another process has been drawing" in said
    assert refused(book) == ["drew"]


def test_a_connection_that_is_cut_while_it_waits_is_said(
    postgres, tmp_path, monkeypatch, impatient
):
    """It is not taken for a wait that was too long."""
    import sqlalchemy as sa  # noqa: PLC0415

    from ledger.books import place_of  # noqa: PLC0415

    book = place_of("server", tmp_path, monkeypatch, postgres).open()
    monkeypatch.setattr(draw_lock, "MAX_WAIT", 60.0)
    other = sa.create_engine(postgres.replace("postgresql:", "postgresql+psycopg:"))
    said = []
    with book.drawing():
        thread = threading.Thread(target=lambda: said.extend(refused(book)))
        thread.start()
        waiting = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        cut = 0
        while not cut:
            with other.begin() as session:
                sql = f"SELECT count(pg_terminate_backend(pid)) FROM ({waiting}) AS w"
                cut = session.exec_driver_sql(sql).scalar()
        thread.join()
    other.dispose()
    assert "cannot be used" in said[0]
    assert "drawing" not in said[0]
