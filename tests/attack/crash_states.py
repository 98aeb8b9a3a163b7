"""Publishing a day as a table: each step at which it may stop, and what is true there.

The states of a request in the ledger and what may follow are those of `hexveil.ledger.events`; here
stands the whole path around them, from the plan to the pointers.
"""

from dataclasses import dataclass

import pytest

from examples import LONG

PLACES = ("file", pytest.param("server", marks=pytest.mark.server))
"""Databases that a ledger is kept in."""

PATH = ("", "reserved", "marked", "measured", "stored", "committed")
"""States of a request in the ledger, in the only order in which publishing goes through them.

A plan of several private stages is marked and measured once for each.
"""

AGAIN = ("reserved", "marked", "lost")
"""What stands before the rest of the path where a draw was lost, and is paid for once more."""

PAID = frozenset(PATH[1:])
"""States in which every unit has been charged."""

MAY_BE_SEEN = {
    "": (), "reserved": (), "marked": (), "measured": (), "stored": ("folder",),
    "committed": ("folder", "day", "newest"),
}  # fmt: skip
"""What of a release may be visible in each state: its folder, the day's pointer, the newest."""


@dataclass(frozen=True)
class Step:
    """A place where the process may be killed.

    Attributes
    ----------
    name : str
    hook : tuple of str
        How a process dies there: "after" a function, or "before" it, or "inside" the transaction
        that adds an event of a kind; then the function or the kind; then what its last argument
        ends with, if it is not any call.
    state : str
        Of the request in the ledger then.
    seen : tuple of str
        What of the release is visible then.
    left : bool
        Whether something of a temporary name is left.
    calls : int
        How often a day comes by it.
    """

    name: str
    hook: tuple[str, ...]
    state: str
    seen: tuple[str, ...] = ()
    left: bool = False
    calls: int = 1

    def __str__(self):
        return self.name

    @property
    def lost(self):
        """Whether noise may have been drawn that is not stored."""
        return self.state == "marked"

    @property
    def in_ledger(self):
        """Whether the database matters here: a transaction is open, just ended, or a draw is."""
        own = ("hexveil.ledger", "hexveil.mechanisms.noise")
        return self.hook[0] == "inside" or self.hook[1].startswith(own)


_WHOLE = ("folder",)
_DAY = ("folder", "day")
_TEMPORARY = r"\.partial-[0-9a-f]{8}"
_DAYS_POINTER = r"\d/latest\.json"
_NEWEST_POINTER = r"buses/latest\.json"
STEPS = (
    Step("planned", ("after", "hexveil.cli.commands.publish_command:plan_release"), ""),
    Step("probing", ("after", "os:mkdir", _TEMPORARY), "", left=True, calls=3),
    Step("reserving", ("inside", "reserved"), ""),
    Step("reserved", ("after", "hexveil.ledger:Ledger.reserve"), "reserved"),
    Step("making room", ("after", "hexveil.ledger.drawing:reserve_space"), "reserved"),
    Step("marking", ("inside", "marked"), "reserved"),
    Step("making a row", ("after", "hexveil.ledger.drawing:create_row"), "reserved"),
    Step("marked", ("after", "hexveil.ledger:Ledger.begin_draw"), "marked"),
    Step("drawing", ("before", "hexveil.mechanisms.noise:add_laplace"), "marked"),
    Step("drawn", ("after", "hexveil.mechanisms.noise:add_laplace"), "marked"),
    Step("filling", ("after", "hexveil.ledger.drawing:store_result"), "marked"),
    Step("storing", ("inside", "measured"), "marked"),
    Step("measured", ("after", "hexveil.ledger:Ledger.store"), "measured"),
    Step("completing", ("inside", "stored"), "measured"),
    Step("stored", ("after", "hexveil.ledger:Ledger.complete"), "stored"),
    Step("first file", ("after", "pyarrow.parquet:write_table"), "stored", left=True),
    Step("all files", ("after", "hexveil.publishing.receipt:write"), "stored", left=True),
    Step("naming", ("before", "pathlib:Path.rename"), "stored", left=True),
    Step("named", ("after", "pathlib:Path.rename"), "stored", _WHOLE),
    Step("committing", ("inside", "committed"), "stored", _WHOLE),
    Step("committed", ("after", "hexveil.ledger:Ledger.commit"), "committed", _WHOLE),
    Step(
        "noting",
        ("before", "pathlib:Path.replace", r"ledger\.json"),
        "committed",
        _WHOLE,
        left=True,
    ),
    Step("noted", ("after", "pathlib:Path.replace", r"ledger\.json"), "committed", _WHOLE),
    Step(
        "pointing",
        ("before", "pathlib:Path.replace", _DAYS_POINTER),
        "committed",
        _WHOLE,
        left=True,
    ),
    Step("pointed", ("after", "pathlib:Path.replace", _DAYS_POINTER), "committed", _DAY),
    Step(
        "advancing",
        ("before", "pathlib:Path.replace", _NEWEST_POINTER),
        "committed",
        _DAY,
        left=True,
    ),
    Step(
        "advanced",
        ("after", "pathlib:Path.replace", _NEWEST_POINTER),
        "committed",
        (*_DAY, "newest"),
    ),
)
"""In the order in which they happen."""


def stops(each, in_server):
    """Return each stop with each database in which it can leave something of its own.

    At a step outside the ledger's transactions and draws the ledger is as the step before left it,
    so there a file stands for a server too; the long form has all of both.
    """
    return [
        pytest.param(
            place, *stop, id="-".join(map(str, (place, *stop))),
            marks=[pytest.mark.server] * (place == "server"),
        )
        for place in ("file", "server")
        for stop in each
        if place == "file" or in_server(*stop) or LONG
    ]  # fmt: skip


def steps(in_server=lambda step: step.in_ledger):
    """Return each step as a stop."""
    return stops([(step,) for step in STEPS], in_server)
