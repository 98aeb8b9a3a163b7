"""Publishing is stopped at every step and at random, in every way that a machine stops a job.

In the short form it is stopped at every second step, and killed at each: `test_crash.py`.
A signal that can be handled ends the command with 130 and leaves no file behind; after any of
them, a kill too, the same command finishes at one price.
"""

import collections
import random
import signal
import time

import pytest

from attack.crash_runner import days
from attack.crash_states import LONG, STEPS, steps
from attack.test_crash import finish

pytestmark = pytest.mark.slow
STOPS = 300 if LONG else 4
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def inside(step):
    """Return whether a transaction is open at a step: after it, stopping finds what a kill does."""
    return step.hook[0] == "inside"


@pytest.mark.parametrize(("site", "step"), steps(inside)[:: 1 if LONG else 2], indirect=["site"])
def test_stopped_at_a_step(runner, site, step):
    """The command unwinds: exit 130, no further day, no temporary file; it then goes on."""
    dates, sign = days(2), HANDLED[STEPS.index(step) % len(HANDLED)]
    here = site(dates)
    stopped = runner.run(here, dates, hook=step.hook, sign=sign)
    assert stopped.code == 130, stopped.said
    assert stopped.said.endswith("hexveil: interrupted.\n")
    assert "failed" not in stopped.said
    assert len(here.entries()) <= 1
    assert here.left() == []
    here.check()
    finish(runner, here, dates, once_more=False)
    assert len(here.entries()) == len(dates)


def test_stopped_at_random(runner, site):
    """Told to stop or killed at any moment: nothing is seen unpaid or twice, nothing is left."""
    # Some runs end before they are told to stop: those on a machine that is busy now and then.
    dates = days(8 * STOPS + 2)
    here = site(dates)
    assert runner.run(here, dates[:1]).code == 0  # the first also loads the libraries
    began = time.monotonic()
    assert runner.run(here, dates[1:2]).code == 0
    lasts = dict.fromkeys((False, True), time.monotonic() - began)
    ended, at, seed = collections.Counter(), 2, random.Random(None if LONG else 1)  # noqa: S311
    while sum(ended.values()) < STOPS and at < len(dates):
        day, at, late = dates[at : at + 1], at + 1, seed.random() < 0.5
        sign = seed.choice((*HANDLED[:2], signal.SIGKILL))
        stopped = runner.run(
            here, day, kill_after=seed.uniform(0, lasts[late]), from_booking=late, sign=sign
        )
        here.check()
        if stopped.code == 0:  # it was faster: the machine is less busy than it was
            lasts[late] *= 0.7
            continue
        lasts[late] *= 1.05
        ended[sign.name, stopped.code] += 1
        # A process that is told to stop before it listens dies of the signal, having done nothing.
        expected = (-9,) if sign == signal.SIGKILL else (130, -sign)
        assert stopped.code in expected, stopped.said
        if stopped.code == 130:
            assert here.left() == []
        assert runner.run(here, day).code == 0
        here.check()
        assert here.left() == []
    lost = sum(here.kinds(one.request).count("lost") for one in here.entries())
    print(dict(ended), {"lost": lost})  # noqa: T201  figures of the attack
    assert sum(ended.values()) == STOPS
    for one in here.entries():
        kinds = here.kinds(one.request)
        assert kinds[0] == "reserved"
        assert kinds[-1] == "committed"
        assert kinds.count("reserved") == 1 + kinds.count("lost")
        assert all(kinds.count(kind) == 1 for kind in ("stored", "committed"))
