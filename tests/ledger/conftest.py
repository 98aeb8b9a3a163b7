"""Places for books: an SQLite file, the PostgreSQL server of tests/conftest.py."""

import json

import pytest

from hexveil.cli import main
from ledger.books import place_of


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.server)])
def place(request, tmp_path):
    """Return where the ledgers of a test are, in each database in turn."""
    address = request.getfixturevalue("postgres") if request.param == "server" else None
    return place_of(request.param, tmp_path, address)


@pytest.fixture
def plain(tmp_path):
    """Return where the ledgers of a test are, in a file."""
    return place_of("file", tmp_path)


@pytest.fixture
def tell(capsys):
    """Call `hexveil ledger` and return its exit code and what it tells a program."""

    def called(*words):
        capsys.readouterr()
        code = main(["ledger", *map(str, words), "--json"])
        out, err = capsys.readouterr()
        return code, json.loads(out or err)

    return called
