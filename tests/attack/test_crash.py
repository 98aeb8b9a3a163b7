"""Publishing is killed at every step and at random: paid before it is seen, whole, one answer."""

import itertools
import os
import random
import time

import pytest

from attack.crash_runner import Runner, days, setting
from attack.crash_states import MAY_BE_SEEN, PAID, PATH, STEPS
from hexveil.ledger import events
from ledger.books import Place, place_of

LONG = bool(os.environ.get("HEXVEIL_ATTACK"))
KILLS = 200 if LONG else 20


@pytest.fixture(scope="module")
def runner():
    """Return what starts runs that can be killed."""
    made = Runner()
    yield made
    made.close()


@pytest.fixture(params=["file", "server"])
def site(request, tmp_path, monkeypatch):
    """Return a function that makes a folder of records and its ledger, in each database."""

    def made(dates):
        address = request.getfixturevalue("postgres") if request.param == "server" else None
        return setting(tmp_path, place_of(request.param, tmp_path, monkeypatch, address), dates)

    return made


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
    """States follow one another as the book allows, and nothing is seen before it is paid for."""
    order = [PATH.index(step.state) for step in STEPS]
    assert order == sorted(order)
    assert set(order) == set(range(len(PATH)))
    for before, after in itertools.pairwise(PATH):
        assert after in events.FOLLOWS[before]
    for step in STEPS:
        assert set(step.seen) <= set(MAY_BE_SEEN[step.state])
        assert step.state in PAID or not step.seen


@pytest.mark.parametrize("step", STEPS, ids=[step.name for step in STEPS])
def test_killed_at_a_step(runner, site, step):
    """The book and the folder are as the table says; the same command finishes at one price."""
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
    for one in after:
        assert here.kinds(one.request) == list(PATH[1:])


@pytest.mark.parametrize(
    "hook",
    [
        ("before", "pathlib:Path.replace", r"\.key"),
        ("after", "hexveil.ledger.ledger:make_key"),
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


@pytest.mark.parametrize("_round", range(LONG * 30 or 1))
def test_killed_again_and_again(runner, site, _round):
    """Each run dies at a step of its own: it comes no less far, and finishes at one price."""
    dates = days(2)
    here, state = site(dates), 0
    for step in random.sample(STEPS, 5):
        ended = runner.run(here, dates, hook=step.hook)
        # A run that has nothing to do at its step any more finishes.
        assert ended.code in (0, -9), ended.said
        here.check()
        reached = sum(PATH.index(one.state) for one in here.entries())
        assert reached >= state
        state = reached
    finish(runner, here, dates)
    assert len(here.entries()) == 2
    for one in here.entries():
        assert here.kinds(one.request) == list(PATH[1:])


def test_killed_at_random(runner, site):
    """Whenever it dies, in whatever it does, nothing is seen unpaid or twice, and it finishes."""
    dates = days(10 * KILLS + 2)
    here = site(dates)
    began = time.monotonic()
    assert runner.run(here, dates[:2]).code == 0
    # Half of the kills are timed from the first booking on: most of the time goes before it.
    lasts = dict.fromkeys((False, True), time.monotonic() - began)
    killed, at = 0, 2
    while killed < KILLS and at < len(dates):
        two, at, late = dates[at : at + 2], at + 2, random.random() < 0.5  # noqa: S311
        after = random.uniform(0, lasts[late])  # noqa: S311  when to kill
        ended = runner.run(here, two, kill_after=after, from_booking=late)
        assert ended.code in (0, -9), ended.said
        here.check()
        if ended.code == 0:  # it was faster: the machine is less busy than it was
            lasts[late] *= 0.7
            continue
        killed += 1
        lasts[late] *= 1.05
        again = runner.run(here, two)
        assert again.code == 0, again.said
        here.check()
    assert killed == KILLS
    finish(runner, here, dates[at - 2 : at])
    for one in here.entries():
        assert here.kinds(one.request) == list(PATH[1:])
