"""The lock on drawing: one process draws, and whoever waits is told why."""

import threading
from pathlib import Path

import pytest

import hexveil as hv
from hexveil.ledger import drawing


@pytest.fixture
def impatient(monkeypatch):
    """Wait a moment only."""
    monkeypatch.setattr(drawing, "MAX_WAIT", 1.0)


def refused(book):
    """Return what a thread is told that cannot draw."""
    said = []

    def wait():
        try:
            with book.drawing():
                said.append("drew")
        except hv.StorageError as error:
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
