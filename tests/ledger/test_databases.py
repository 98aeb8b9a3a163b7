"""The ledger's databases: what is refused, what is durable, and what stays closed."""

import itertools
import os
import sqlite3
import stat
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

import hexveil as hv
from ledger.books import Place, at_commit, execute, listening, place_of, schema, spend

THIRD = Fraction(1, 4)


def open_ledger(url, **options):
    """Open a ledger by path or URL."""
    return hv.Ledger(url, dataset="buses", budget=1, **options)


def book(ledger, name="a"):
    """Book a quarter."""
    return spend(ledger, name, {"x": THIRD})


@pytest.mark.parametrize("name", ["ledger.sqlite", "a b?c=d%20#é.db", "ledger"])
def test_any_file_name_is_one(tmp_path, name):
    """A path is taken byte for byte, whatever it holds; its key is beside it."""
    book(open_ledger(tmp_path / name))
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, f"{name}.key"]
    assert open_ledger(str(tmp_path / name)).spent == THIRD


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_a_new_ledger_is_its_owners_alone(tmp_path, mask):
    """The file, SQLite's own beside it and the key have mode 0600, whatever the umask."""
    before = os.umask(mask)
    try:
        ledger = open_ledger(tmp_path / "ledger.sqlite")
        with at_commit(
            lambda _: {path.name: path.stat().st_mode for path in tmp_path.iterdir()}
        ) as seen:
            book(ledger)
    finally:
        os.umask(before)
    names = {f"ledger.sqlite{end}" for end in ("", "-wal", "-shm", ".key")}
    assert seen == [dict.fromkeys(names, stat.S_IFREG | 0o600)]


def test_a_relative_ledger_stays_where_it_was(tmp_path, monkeypatch):
    """Moving to another folder between two bookings does not split the ledger."""
    monkeypatch.chdir(tmp_path)
    ledger = open_ledger("l.sqlite")
    book(ledger, "a")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    book(ledger, "b")
    assert ledger.spent == 2 * THIRD
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("url", "error", "said"),
    [
        *(
            (url, hv.InputError, "address is not usable")
            for url in (
                "sqlite:///l.sqlite",
                "://",
                "postgresql://host:port/name",
                "mysql://host/db",
            )
        ),
        (".", hv.InputError, "is a folder"),
        ("none/ledger.sqlite", hv.InputError, "does not exist"),
        ("notes.txt", hv.InputError, "is not a ledger"),
        ("pipe", hv.InputError, "device or a pipe"),
        ("/proc/ledger.sqlite", hv.StorageError, r"ledger /proc/ledger\.sqlite cannot be made ."),
        ("x" * 300, hv.StorageError, r"cannot be (read|made) .File name too long"),
    ],
)
def test_what_can_be_no_ledger_is_refused_untouched(tmp_path, monkeypatch, url, error, said):
    """Each is one sentence; a database that forgets, a pipe that waits, and files of others."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("not a database")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(error, match=said):
        open_ledger(url)
    assert (tmp_path / "notes.txt").read_text() == "not a database"
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", "pipe"}


@pytest.mark.parametrize(
    ("table", "said"),
    [("photos", "database of another program"), ("hexveil_bookings", "of an earlier version")],
)
def test_another_programs_database_gets_no_table_of_ours(tmp_path, table, said):
    """An SQLite file with other tables, or those of an old ledger, is refused."""
    path = tmp_path / "other.sqlite"
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE {table} (name TEXT)")
    with pytest.raises(hv.InputError, match=said):
        open_ledger(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [(table,)]
    connection.close()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda path: path.write_text("no database" * 99),
            "cannot be used .file is not a database.",
        ),
        (Path.unlink, "is gone"),
    ],
)
def test_a_file_changed_behind_an_open_ledger_is_a_storage_error(tmp_path, change, reason):
    """A ledger whose file is overwritten or removed spends nothing and says so."""
    path = tmp_path / "ledger.sqlite"
    ledger = open_ledger(path)
    book(ledger)
    change(path)
    with pytest.raises(hv.StorageError, match=f"ledger.sqlite {reason}; nothing was"):
        book(ledger, "b")
    assert path.exists() == (change is not Path.unlink)


def test_a_locked_file_is_a_storage_error(tmp_path, monkeypatch):
    """Where another program keeps the file locked, the wait ends in one sentence."""
    path = tmp_path / "ledger.sqlite"
    ledger = open_ledger(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with monkeypatch.context() as hurried:
        hurried.setattr(time, "monotonic", itertools.count(step=20).__next__)
        with pytest.raises(hv.StorageError, match="locked"):
            book(ledger)
    other.execute("ROLLBACK")
    other.close()
    assert book(ledger).cost == THIRD


def test_every_commit_reaches_the_disk(tmp_path):
    """Transactions take the write lock at their start and are synced before they return."""
    ledger = open_ledger(tmp_path / "ledger.sqlite")

    def look(connection):
        other = sqlite3.connect(tmp_path / "ledger.sqlite", timeout=0, isolation_level=None)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()
        names = "synchronous", "journal_mode"
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

    with at_commit(look) as seen:
        book(ledger)
        assert ledger.find("a").cost == THIRD
    assert seen == [[2, "wal"]] * 2


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_server_with_a_stricter_level_is_asked_for_ours(postgres, tmp_path, level):
    """What a transaction reads dates from after the wait for the lock, whatever the default."""
    place = place_of("server", tmp_path, postgres)
    strict = f"%20-cdefault_transaction_isolation%3D{level.replace(' ', '%5C%20')}"
    ledger = Place(place.url + strict, place.key).open()

    def look(connection):
        names = "default_transaction_isolation", "transaction_isolation", "synchronous_commit"
        return [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]

    with at_commit(look) as seen:
        book(ledger)
    assert seen == [[level, "read committed", "on"]]


def test_a_transaction_on_a_server_holds_the_lock(postgres, tmp_path):
    """A second writer waits, and its wait ends in one sentence; other tables may be there."""
    place = place_of("server", tmp_path, postgres)
    ledger = place.open()
    execute(ledger, "CREATE TABLE photos (name text)")
    waiting = []

    def look(connection):
        if not waiting:  # the first writer, before its commit
            waiting.append(connection)
            with pytest.raises(hv.StorageError, match="lock timeout"):
                book(ledger, "b")

    def hurry(_connection, _cursor, statement, parameters, *_):
        return statement.replace("lock_timeout = 30000", "lock_timeout = 1000"), parameters

    with at_commit(look), listening("before_cursor_execute", hurry, retval=True):
        book(ledger)
    assert [one.request for one in place.open().entries()] == ["a"]


def test_a_server_needs_the_file_of_a_key(postgres):
    """Where no file is beside the ledger, the key has to be named."""
    with pytest.raises(hv.InputError, match="needs the file of the holder's key"):
        open_ledger(schema(postgres))


def test_a_server_that_is_not_there_is_a_storage_error(postgres, tmp_path):
    """The address is said without its password."""
    url = f"postgresql://me:hunter2@/postgres?host={tmp_path}"
    with pytest.raises(hv.StorageError, match="nothing was published") as error:
        open_ledger(url, key=tmp_path / "none.key")
    assert "hunter2" not in str(error.value)
    assert "\n" not in str(error.value)


def test_without_a_driver_its_extra_is_named(monkeypatch):
    """A ledger on PostgreSQL needs psycopg, and the sentence says how to have it."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(hv.InputError, match=r'needs psycopg: pip install "hexveil\[postgres\]"'):
        open_ledger("postgresql://host/name")
