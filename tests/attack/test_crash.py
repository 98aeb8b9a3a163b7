"""Publishing is killed at every step, and again: paid before it is seen, whole, one answer.

And it is stopped, in every way that a machine stops a job: in the short form at every second step,
and at random. A signal that can be handled ends the command with 130 and leaves no file behind;
after any of them the same command finishes at one price.
"""

import collections
import itertools
import random
import signal
import time

import pytest

from attack import crash_draws
from attack.crash_runner import days, setting
from attack.crash_states import AGAIN, MAY_BE_SEEN, PAID, PATH, STEPS, steps, stops
from examples import LONG
from hexveil.ledger import events
from ledger.books import Place

pytestmark = pytest.mark.slow


def finish(runner, site, dates, *, once_more=True):
    """Run the same command again: all is published; and once more, which changes nothing."""
    for some in (dates, dates[-1:])[: 1 + once_more]:
        done = runner.run(site, some)
        site.check()
        assert done.code == 0, done.said
    assert "published before: " in done.said or not once_more
    assert site.left() == []
    for day in dates:
        assert {"folder", "day"} <= set(site.of_day(day))
    assert "newest" in site.of_day(dates[-1])


def test_the_table_goes_one_way():
    """States follow one another as the ledger allows, and nothing is seen before it is paid for."""
    order = [PATH.index(step.state) for step in STEPS]
    assert order == sorted(order)
    assert set(order) == set(range(len(PATH)))
    for before, after in itertools.pairwise((*AGAIN, *PATH[1:])):
        assert after in events.TRANSITIONS[before]
    for step in STEPS:
        assert set(step.seen) <= set(MAY_BE_SEEN[step.state])
        assert step.state in PAID or not step.seen
    assert "marked" in events.TRANSITIONS["measured"]


def test_the_check_of_draws_can_fail(tmp_path):
    """A second call for one stage, and a call that no stage began for, are found."""
    one = _event(1, "reserved", {}), _event(2, "marked", {"stage": "cells"})
    line = '{{"request": "r", "entry": {}}}\n'
    (tmp_path / crash_draws.FILE).write_text(line.format(2))
    assert list(crash_draws.check(tmp_path, one).values()) == [1]
    with pytest.raises(AssertionError, match="begun twice"):
        crash_draws.check(tmp_path, (*one, _event(3, "marked", {"stage": "cells"})))
    for entries, said in (((2, 2), "drawn twice"), ((2, 0), "without a booking")):
        (tmp_path / crash_draws.FILE).write_text("".join(line.format(k) for k in entries))
        with pytest.raises(AssertionError, match=said):
            crash_draws.check(tmp_path, one)


def _event(entry, kind, body):
    return events.Event(entry, "buses", "buses", "r", kind, "", body, None, "")


@pytest.mark.parametrize(("site", "step"), steps(), indirect=["site"])
def test_killed_at_a_step(runner, site, step):
    """The ledger and the folder are as the table says; the same command finishes at one price."""
    dates = days(2)
    here = site(dates)
    # On the first or the second day; on the last one where what it leaves is to be made good.
    day = 1 if step.seen else STEPS.index(step) % 2
    killed = runner.run(here, dates, hook=step.hook, number=1 + day * step.calls)
    assert killed.code == -9, killed.said
    here.check()
    booked = here.entries()
    states = ["committed"] * day + [step.state] * bool(step.state)
    assert [one.state for one in booked] == states
    assert here.of_day(dates[day]) == step.seen
    assert bool(here.left()) == step.left
    finish(runner, here, dates, once_more=False)
    after = here.entries()
    assert [one.request for one in after][: len(booked)] == [one.request for one in booked]
    for number, one in enumerate(after):
        lost = step.lost and number == day
        assert here.kinds(one.request) == [*AGAIN * lost, *PATH[1:]]
    # Noise that was drawn and lost is drawn anew, under a booking of its own.
    assert here.draws() == len(after) + (step.lost and step.name not in ("marked", "drawing"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "hook",
    [
        ("before", "pathlib:Path.replace", r"\.key"),
        ("after", "hexveil.ledger.unit_losses:make_key"),
        ("inside", "opened"),
        ("inside", "joined"),
        ("inside", "unit"),
        ("after", "hexveil.ledger:Ledger.__init__"),
    ],
    ids=lambda hook: " ".join(hook[:2]),
)
def test_killed_while_a_ledger_is_begun(runner, tmp_path, hook):
    """A ledger is begun with its key or not at all, and the same command goes on with it."""
    here, dates = setting(tmp_path, Place(f"{tmp_path}/ledger.sqlite"), days(1)), days(1)
    assert runner.run(here, dates, hook=hook).code == -9
    here.check()
    assert here.entries() == ()
    finish(runner, here, dates)


@pytest.mark.parametrize(
    ("site", "again"),
    # Where a draw is lost again; the draw itself is that of both databases.
    stops([("marked",), ("drawn",), ("filling",)], "marked".__eq__),
    indirect=["site"],
)
def test_a_draw_that_is_lost_a_second_time(runner, site, again):
    """It is refused from then on, drawn no more and charged no more; another edition is paid."""
    hooks = {step.name: step.hook for step in STEPS}
    dates = days(1)
    here = site(dates)
    for name in ("drawn", again):
        assert runner.run(here, dates, hook=hooks[name]).code == -9
        here.check()
    (once,) = here.entries()
    made = here.draws()
    assert made == 1 + (again != "marked")
    for _ in range(2):
        refused = runner.run(here, dates)
        assert refused.code == 2, refused.said
        assert "drawn for this release 2 times and lost" in " ".join(refused.said.split())
        here.check()
        assert here.kinds(once.request) == [*AGAIN, "reserved", "marked"]
        assert (here.book().spent, here.draws()) == (2 * once.cost, made)
        assert here.of_day(dates[0]) == ()
    run = here.folder / "run.toml"
    run.write_text(run.read_text().replace("[plan]", '[plan]\nedition = "b"'))
    finish(runner, here, dates)
    assert here.book().spent == 3 * once.cost


STAGES = {"private": ("histogram", "cells"), "per-cell": ("histogram", "first look")}
"""First two private stages of plans with private ranges."""


@pytest.mark.parametrize(
    ("site", "clipping_range", "stage", "name"),
    # The ledger's part is the same for both databases.
    stops(
        [*itertools.product(STAGES, (0, 1), ("marked", "measured"))],
        lambda *stop: stop == ("private", 1, "marked"),
    ),
    indirect=["site"],
)
def test_killed_between_private_stages(runner, site, name, stage, clipping_range):
    """Results that are stored stay; a stage that began is lost, with the booking it was under."""
    dates = days(1)
    here, step = site(dates), next(step for step in STEPS if step.name == name)
    run = here.folder / "run.toml"
    asked = f'clipping_range = "{clipping_range}"'
    run.write_text(run.read_text().replace('method = "per-cell"', asked))
    killed = runner.run(here, dates, hook=step.hook, number=1 + stage)
    assert killed.code == -9, killed.said
    here.check()
    (one,) = here.entries()
    begun = [e.body["stage"] for e in here.history() if e.kind == "marked"]
    assert begun == list(STAGES[clipping_range][: 1 + stage])
    kept = len(begun) - (name == "marked")
    assert list(one.stages) == begun[:kept]
    finish(runner, here, dates)
    (after,) = here.entries()
    lost = step.lost
    assert here.kinds(one.request).count("lost") == lost
    assert here.book().spent == (1 + lost) * one.cost
    if not lost:
        assert {name: after.stages[name] for name in one.stages} == dict(one.stages)


# ---- told to stop, in every way that a machine stops a job ----

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
