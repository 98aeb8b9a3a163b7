"""Runs of `publish` that can be killed or stopped, and the folders and ledgers they work in."""

import pytest

from attack.crash_runner import Runner, setting
from attack.crash_states import PLACES
from ledger.books import place_of


@pytest.fixture(scope="session")
def runner():
    """Return what starts runs that can be killed or stopped, in processes of their own."""
    made = Runner()
    yield made
    made.close()


@pytest.fixture(params=PLACES)
def site(request, tmp_path, monkeypatch):
    """Return a function that makes a folder of records and its ledger, in each database."""

    def made(dates):
        address = request.getfixturevalue("postgres") if request.param == "server" else None
        return setting(tmp_path, place_of(request.param, tmp_path, monkeypatch, address), dates)

    return made
