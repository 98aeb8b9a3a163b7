"""The ledger's file: what is refused, and what stays closed."""

import os
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest
import sqlalchemy as sa

import hexveil as hv
from hexveil.errors import BudgetError, InputError, StorageError
from hexveil.ledger import store


def open_ledger(url):
    """Open a ledger by path or URL."""
    return hv.Ledger(url, dataset="buses", budget=1)


def spend(book, name="a"):
    """Book a third."""
    return book.book(name, Fraction(1, 3), unit="user", facts={})


@pytest.mark.parametrize("name", ["ledger.sqlite", "a b?c=d%20#é.db", "ledger"])
def test_any_file_name_is_one(tmp_path, name):
    """A path is taken byte for byte, whatever it holds."""
    spend(open_ledger(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert open_ledger(str(tmp_path / name)).spent == Fraction(1, 3)


def test_a_url_and_a_path_are_the_same_ledger(tmp_path):
    """sqlite:/// and the file's path reach the same rows."""
    spend(open_ledger(f"sqlite:///{tmp_path}/l.sqlite"))
    assert open_ledger(tmp_path / "l.sqlite").spent == Fraction(1, 3)


@pytest.mark.parametrize("url", ["l.sqlite", "sqlite:///l.sqlite"])
def test_a_relative_ledger_stays_where_it_was(tmp_path, monkeypatch, url):
    """Moving to another folder between two bookings does not split the ledger."""
    monkeypatch.chdir(tmp_path)
    book = open_ledger(url)
    spend(book, "a")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    spend(book, "b")
    assert book.spent == Fraction(2, 3)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?uri=true"])
def test_memory_is_no_ledger(url):
    """A ledger that forgets is refused."""
    with pytest.raises(InputError, match="must be a file"):
        open_ledger(url)


@pytest.mark.parametrize("url", ["://", "sqlite+nothing:///ledger.sqlite"])
def test_an_address_that_is_none_is_refused(url):
    """An address that SQLAlchemy does not know is one clear sentence."""
    with pytest.raises(InputError, match="address is not usable"):
        open_ledger(url)


@pytest.mark.parametrize("url", ["postgresql://host/db", "nonsense://x"])
def test_other_databases_are_refused(url):
    """Only SQLite's write lock is relied on in this version."""
    with pytest.raises(InputError, match="is an SQLite file in this version"):
        open_ledger(url)


def test_a_file_that_is_no_ledger_is_refused_untouched(tmp_path):
    """A text file is not a ledger, and stays as it was."""
    path = tmp_path / "notes.txt"
    path.write_text("not a database")
    with pytest.raises(InputError, match="is not a ledger"):
        open_ledger(path)
    assert path.read_text() == "not a database"


def test_another_programs_database_is_refused_untouched(tmp_path):
    """An SQLite file with other tables gets no table of ours."""
    path = tmp_path / "photos.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (name TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match="database of another program"):
        open_ledger(path)
    assert path.read_bytes() == before


def test_folders_are_refused(tmp_path):
    """A folder, or a file in a folder that does not exist, is refused; no folder is made."""
    with pytest.raises(InputError, match="is a folder"):
        open_ledger(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        open_ledger(tmp_path / "none" / "ledger.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_a_storage_error():
    """Where no file can be made, the reason and the place are one sentence."""
    with pytest.raises(
        StorageError, match=r"the ledger /proc/ledger\.sqlite cannot be used .unable"
    ):
        open_ledger("/proc/ledger.sqlite")


def test_a_pipe_is_refused(tmp_path):
    """A pipe would wait for ever for its other end; it is refused instead."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="device or a pipe"):
        open_ledger(tmp_path / "pipe")


def test_a_name_too_long_is_a_storage_error(tmp_path):
    """A name that no file can have is one sentence."""
    with pytest.raises(StorageError, match=r"cannot be read .File name too long"):
        open_ledger(tmp_path / ("x" * 300))


def test_no_connection_stays_open(tmp_path):
    """After any call the file is closed: nothing is left for the end of the program to close."""
    path = tmp_path / "ledger.sqlite"
    book = open_ledger(path)
    spend(book)
    book.complete("a", {"mean": [1]})
    with pytest.raises(BudgetError):
        book.book("b", Fraction(1), unit="user", facts={})
    held = [str(handle.resolve()) for handle in Path("/proc/self/fd").iterdir()]
    assert held
    assert not [name for name in held if name.startswith(str(path))]


def test_a_corrupt_file_is_a_storage_error(tmp_path):
    """A ledger whose pages are damaged is one sentence, not a traceback of the database."""
    path = tmp_path / "ledger.sqlite"
    spend(open_ledger(path))
    data = bytearray(path.read_bytes())
    data[100:4096] = os.urandom(3996)
    path.write_bytes(data)
    with pytest.raises(StorageError, match="nothing was published") as error:
        open_ledger(path).entries()
    assert error.value.exit_code == 1
    assert error.value.__suppress_context__


def spoil(path):
    """Write something else into the file."""
    path.write_text("not a database" * 100)


@pytest.mark.parametrize(
    ("change", "reason"),
    [(spoil, "file is not a database"), (Path.unlink, "no such table: hexveil_bookings")],
)
def test_a_file_changed_behind_an_open_ledger_is_a_storage_error(tmp_path, change, reason):
    """A ledger whose file is overwritten or removed spends nothing and says so."""
    path = tmp_path / "ledger.sqlite"
    book = open_ledger(path)
    spend(book)
    change(path)
    with pytest.raises(StorageError, match=f"ledger.sqlite cannot be used .{reason}.; nothing was"):
        spend(book, "b")


def test_a_locked_file_is_a_storage_error(tmp_path, monkeypatch):
    """Where another program keeps the file locked, the wait ends in one sentence."""
    monkeypatch.setattr(store, "WAIT", 0)
    path = tmp_path / "ledger.sqlite"
    book = open_ledger(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StorageError, match="locked"):
        spend(book)
    other.execute("ROLLBACK")
    other.close()
    assert spend(book).cost == Fraction(1, 3)


def test_an_unreadable_file_is_a_storage_error(tmp_path, monkeypatch):
    """A file that may not be read is one sentence."""
    path = tmp_path / "ledger.sqlite"
    open_ledger(path)

    def refused(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(store, "_first_bytes", refused)
    with pytest.raises(StorageError, match="Permission denied"):
        open_ledger(path)


def test_a_failed_booking_leaves_no_row(tmp_path):
    """An error inside a transaction rolls it back and frees the lock."""
    engine = store.connect(tmp_path / "ledger.sqlite")
    row = {"dataset": "d", "request": "r", "unit": "user", "cost": "1/1", "facts": "{}"}

    def crash_midway():
        with store.transaction(engine) as connection:
            connection.execute(sa.insert(store.bookings).values(**row))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        crash_midway()
    with store.transaction(engine) as connection:
        assert connection.execute(sa.select(store.bookings)).all() == []


def test_a_request_has_one_row_even_without_our_checks(tmp_path):
    """The database itself refuses a second row of the same request."""
    engine = store.connect(tmp_path / "ledger.sqlite")
    row = {"dataset": "d", "request": "r", "unit": "user", "cost": "1/1", "facts": "{}"}
    with store.transaction(engine) as connection:
        connection.execute(sa.insert(store.bookings).values(**row))
    with pytest.raises(StorageError, match="UNIQUE"), store.transaction(engine) as connection:
        connection.execute(sa.insert(store.bookings).values(**row))


def test_every_commit_reaches_the_disk(tmp_path):
    """Transactions take the write lock at their start and are synced before they return."""
    engine = store.connect(tmp_path / "ledger.sqlite")
    with store.transaction(engine) as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3
        other = sqlite3.connect(tmp_path / "ledger.sqlite", timeout=0, isolation_level=None)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()
