"""The lock on drawing: one process draws, the others wait."""

import threading

import hexveil as hv
from ledger.books import place_of


def waits(book, other):
    """Whether another ledger's draw waits until this one's has ended."""
    order, thread = [], threading.Thread(target=lambda: draw(other, order))
    with book.drawing():
        thread.start()
        thread.join(0.5)
        order.append("first")
    thread.join()
    return order == ["first", "other"]


def draw(book, order):
    """Draw, and note when."""
    with book.drawing():
        order.append("other")


def test_one_at_a_time_by_every_name_of_the_file(tmp_path):
    """A second opening of the file waits, also through a link."""
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="d", budget=1)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.sqlite"
    link.symlink_to(tmp_path / "ledger.sqlite")
    for path in (tmp_path / "ledger.sqlite", link):
        assert waits(book, hv.Ledger(path, dataset="d", key=tmp_path / "ledger.sqlite.key"))


def test_one_at_a_time_on_a_server(postgres, tmp_path):
    """A second session waits for the first."""
    book = place_of("server", tmp_path, postgres).open()
    assert waits(book, book)
