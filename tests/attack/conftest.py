"""Runs of `publish` that can be killed or stopped, and calls of all commands that are heard."""

import pytest

from attack.crash_runner import Runner, setting
from attack.crash_states import PLACES
from attack.leak_runs import Caller
from hexveil.ledger.unit_losses import make_key
from hexveil.publishing import signing
from ledger.books import place_of


@pytest.fixture(scope="session")
def runner():
    """Return what starts runs that can be killed or stopped, in processes of their own."""
    made = Runner()
    yield made
    made.close()


@pytest.fixture(params=PLACES)
def site(request, tmp_path):
    """Return a function that makes a folder of records and its ledger, in each database."""

    def made(dates):
        address = request.getfixturevalue("postgres") if request.param == "server" else None
        return setting(tmp_path, place_of(request.param, tmp_path, address), dates)

    return made


@pytest.fixture
def call(capfd, caplog, monkeypatch):
    """Call the command and hear all that it says."""
    return Caller(capfd, caplog, monkeypatch)


@pytest.fixture
def key(tmp_path):
    """Return the text of one key, so that all ledgers know a unit under the same hash.

    The key pair that signs is made, too: all sign with the same.
    """
    signing.generate_key_pair(tmp_path / "signing.pem")
    make_key(tmp_path / "one.key")
    return (tmp_path / "one.key").read_bytes()
