"""Places for books: memory, an SQLite file, the PostgreSQL server of tests/conftest.py."""

import pytest

from ledger.books import place_of


def _place(request, folder, monkeypatch):
    address = request.getfixturevalue("postgres") if request.param == "server" else None
    return place_of(request.param, folder, monkeypatch, address)


@pytest.fixture(params=["memory", "file", pytest.param("server", marks=pytest.mark.server)])
def place(request, tmp_path, monkeypatch):
    """Return where the ledgers of a test are, of each kind in turn."""
    return _place(request, tmp_path, monkeypatch)


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.server)])
def database(request, tmp_path, monkeypatch):
    """Return where the ledgers of a test are, in a database that several processes can use."""
    return _place(request, tmp_path, monkeypatch)


@pytest.fixture
def plain(tmp_path, monkeypatch):
    """Return where the ledgers of a test are, in memory."""
    return place_of("memory", tmp_path, monkeypatch)
