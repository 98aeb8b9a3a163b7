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
    "plan": ("plan", "run.toml"),
    "comparison": ("plan run.toml --compare",),
    "fine grid": ("plan run.toml --epsilon 0.01",),
    "release": ("release", "run.toml"),
    "verify": ("verify", "map"),
    "compare": ("compare map other --out changes",),
    "other": ("release run.toml --set plan.edition=other --out other",),
    "ledger": ("ledger", "verify", "ledger.sqlite"),
}
ACTIVITIES = {
    "plan": {"Planning"},
    "comparison": {"Comparing methods and mechanisms"},
    "fine grid": {"Looking for a usable grid"},
    "release": {"Releasing", "Writing the map"},
    "other": {"Releasing"},
    "verify": {"Checking the folder"},
    "compare": {"Comparing releases", "Writing the map"},
    "ledger": {"Checking the ledger"},
}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plan", "comparison", "fine grid"])
@pytest.mark.usefixtures("here")
def test_shares_of_a_plan_are_told(call, told, command):
    """Of each activity at least two shares in between."""
    assert call(COMMANDS[command]).code == 0
    for activity in ACTIVITIES[command]:
        assert len(between(told[activity])) >= 2, activity


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_shares_of_a_release_and_its_checks_are_told(call, told):
    """From the draws to the comparison of the folder and the events of the ledger."""
    for command in ("release", "other", "verify", "compare", "ledger"):
        told.clear()
        assert call(COMMANDS[command]).code == 0
        for activity in ACTIVITIES[command]:
            assert len(between(told[activity])) >= 2, activity
