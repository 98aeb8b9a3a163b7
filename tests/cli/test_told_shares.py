"""Every activity of a command that can take long tells its share, for the time that is left."""

import sys

import pytest

from hexveil.base.work_share import ShownWork
from hexveil.records import progress


@pytest.fixture
def told(monkeypatch):
    """Note the shares of each activity, as a terminal would show them."""
    shares = {}

    def noted(work, name, value):
        object.__setattr__(work, name, value)
        if name == "share":
            shares.setdefault(work.activity, []).append(value)

    monkeypatch.setattr(ShownWork, "__setattr__", noted)
    # Nothing is drawn: the work is over before the patience is.
    monkeypatch.setattr(progress, "PATIENCE", 3600.0)
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _: True, raising=False)
    return shares


def between(shares):
    """Return the told shares between beginning and end."""
    return sorted({share for share in shares if 0.0 < share < 1.0})


COMMANDS = {
    "plan run.toml": ["Planning"],
    "plan run.toml --compare": ["Comparing methods"],
    "plan run.toml --epsilon 0.01": ["Looking for a usable grid"],
    "inspect run.toml": ["Planning on other grids"],
    "release run.toml": ["Releasing", "Writing the map"],
    "release run.toml --set plan.edition=other --out other": ["Releasing"],
    "verify map": ["Checking the folder"],
    "compare map other --out changes": ["Comparing releases", "Writing the map"],
    "ledger verify ledger.sqlite": ["Checking the ledger"],
}


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_shares_are_told(call, told):
    """Of each activity at least two shares in between."""
    for command, activities in COMMANDS.items():
        told.clear()
        assert call(command).code == 0
        for activity in activities:
            assert len(between(told[activity])) >= 2, activity
