"""Full disks, places that refuse, ledgers that go, come back old or are cut off.

Each is an error of one sentence with its exit code; nothing is lost; when the cause is gone, the
same command finishes at the price that was booked.
"""

import contextlib
import errno
import shutil
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from attack import crash_draws
from attack.crash_runner import days, setting
from attack.crash_states import PATH
from hexveil.base import atomic_files
from hexveil.cli import main
from hexveil.ledger import Ledger, accounts, events
from ledger.books import Server, execute, place_of

pytestmark = pytest.mark.slow

DAYS = days(5)
EVENTS = PATH[1:]
"""Of a request, in order."""
WRITES = ("begin_draw", "store", "complete", "commit")
"""Steps of the ledger after the booking."""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Stand in a folder of records whose ledger is a file."""
    monkeypatch.chdir(tmp_path)
    return setting(tmp_path, place_of("file", tmp_path), DAYS)


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.server)])
def either(request, tmp_path, monkeypatch):
    """Stand in a folder of records, with each database."""
    monkeypatch.chdir(tmp_path)
    address = request.getfixturevalue("postgres") if request.param == "server" else None
    return setting(tmp_path, place_of(request.param, tmp_path, address), DAYS)


@pytest.fixture
def call(capfd):
    """Run the command in this process: its exit code, and all that it said as one line."""

    def called(*arguments):
        capfd.readouterr()
        code = main([str(one) for one in arguments])
        said = capfd.readouterr()
        words = " ".join((said.out + said.err).split())
        assert "unexpected" not in words
        assert "Traceback" not in words
        return code, words

    return called


@pytest.fixture
def ask(call, monkeypatch, tmp_path):
    """Publish a day in this process; its draws are written down."""
    crash_draws.write_down(tmp_path, monkeypatch.setattr)
    return lambda day, *more: call("publish", "run.toml", "--date", day, *more)


def finishes(site, ask, *dates):
    """All is published when the cause is gone: whole, paid once, with nothing left behind."""
    for day in dates:
        code, said = ask(day)
        assert code == 0, said
        assert {"folder", "day"} <= set(site.of_day(day))
    site.check()
    assert site.left() == []
    assert {site.kinds(one.request)[-1] for one in site.entries()} == {"committed"}


@contextlib.contextmanager
def on_opening(pragma):
    """Set something on every SQLite file that is opened in the block, once `begin` is called."""
    begun = []

    def opened(connection, _record):
        if begun:
            connection.execute(f"PRAGMA {pragma}")

    sa.event.listen(sa.pool.Pool, "connect", opened)
    try:
        yield lambda: begun.append(True)
    finally:
        sa.event.remove(sa.pool.Pool, "connect", opened)


def before(monkeypatch, step, act):
    """Do something once, just before a step of the ledger."""
    real = getattr(Ledger, step)
    todo = [act]

    def stepped(self, *given, **named):
        if todo:
            todo.pop()()
        return real(self, *given, **named)

    monkeypatch.setattr(Ledger, step, stepped)


# A full disk.


def test_files_that_may_not_grow(runner, tmp_path):
    """Wherever room ends it is said; a day is refused before its draw, or drawn once."""
    limits = [3_000, 33_000, 200_000, *range(240_000, 360_000, 20_000)]
    dates = days(len(limits))
    site = setting(tmp_path, place_of("file", tmp_path), dates)
    for number, (day, most) in enumerate(zip(dates, limits, strict=True)):
        full = runner.run(site, [day], most_bytes=most)
        assert full.code == 1 or most > 200_000, full.said
        assert "Traceback" not in full.said
        assert "unexpected" not in full.said
        site.check()
        assert len(site.folders()) in ((number,) if full.code else (number + 1,))
        drawn = len(crash_draws.noted(site.folder))
        assert runner.run(site, [day]).code == 0
        site.check()
        assert drawn in (number, number + 1)
        assert site.draws() == number + 1
    assert site.left() == []
    for one in site.entries():
        assert site.kinds(one.request) == list(PATH[1:])


@pytest.mark.parametrize(
    ("pragma", "sentence"),
    [("max_page_count = 1", "database or disk is full"), ("query_only = 1", "readonly database")],
)
def test_a_ledger_that_may_not_grow(site, ask, monkeypatch, pragma, sentence):
    """Nothing is booked, so nothing is drawn or shown; the release goes on when it may."""
    finishes(site, ask, DAYS[0])
    with monkeypatch.context() as broken, on_opening(pragma) as begin:
        before(broken, "reserve", begin)
        code, said = ask(DAYS[1])
    assert code == 1
    assert sentence in said
    site.check()
    assert len(site.entries()) == 1
    finishes(site, ask, DAYS[1])
    assert len(site.entries()) == 2


@pytest.mark.parametrize(
    ("number", "owner", "name", "part"),
    [
        (errno.ENOSPC, Path, "rename", ""),
        (errno.EDQUOT, Path, "replace", "ledger.json"),
        (errno.ENOSPC, Path, "replace", "2022-01-01/latest.json"),
        (errno.EROFS, Path, "replace", "buses/latest.json"),
        (errno.EIO, atomic_files, "fsync", "latest.json"),
        (errno.ENOSPC, Path, "write_text", ""),
    ],
)
def test_a_system_that_refuses_a_write(site, ask, monkeypatch, number, owner, name, part):
    """No file that fails to be written leaves anything that counts; the next try finishes."""
    real = getattr(owner, name)

    def refuses(*arguments, **named):
        if part in f"{arguments[0]} {arguments[-1]}":
            raise OSError(number, "refused by the test")
        return real(*arguments, **named)

    with monkeypatch.context() as broken:
        broken.setattr(owner, name, refuses)
        code, said = ask(DAYS[0])
    assert code == 1
    assert "refused by the test" in said
    site.check()
    assert site.left() == []
    finishes(site, ask, DAYS[0])


# Places that refuse.


@pytest.mark.parametrize("out", ["/proc/maps-of-buses", "taken", "taken/below"])
def test_a_folder_that_cannot_be_made_costs_nothing(site, ask, out):
    """It is noticed before anything is booked: wrong use, and nothing is spent."""
    (site.folder / "taken").write_text("a file")
    code, said = ask(DAYS[0], "--out", out)
    assert code == 2
    assert "cannot be" in said
    assert site.entries() == ()
    finishes(site, ask, DAYS[0])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("latest.json", b"\xff\xfe"), ("2022-01-01/latest.json", b""), ("ledger.json", b"[]"),
        ("2022-01-01/*/receipt.json", b"{}"), ("2022-01-01/*/manifest.json", b"{}"),
    ],
)  # fmt: skip
def test_a_published_file_that_cannot_be_read(site, ask, name, content):
    """It is named, and never taken for none: else the day would be paid for twice."""
    finishes(site, ask, DAYS[0])
    (file,) = site.maps.glob(name)
    whole = file.read_bytes()
    file.write_bytes(content)
    code, said = ask(DAYS[0])
    assert code == 1
    assert f"{file.name} is no" in said
    assert file.read_bytes() == content
    file.write_bytes(whole)
    finishes(site, ask, DAYS[0])
    assert len(site.entries()) == site.draws() == 1


# A ledger that goes in the middle.


@pytest.mark.parametrize("step", ["reserve", *WRITES])
def test_a_file_that_goes(site, ask, monkeypatch, step):
    """No new ledger is begun in its place; when it is back, the release is finished."""
    ledger = site.folder / "ledger.sqlite"
    with monkeypatch.context() as broken:
        before(broken, step, lambda: ledger.rename(site.folder / "gone"))
        code, said = ask(DAYS[0])
    assert code == 1
    assert "is gone" in said
    assert not ledger.exists()
    (site.folder / "gone").rename(ledger)
    site.check()
    finishes(site, ask, DAYS[0])
    assert len(site.entries()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("step", WRITES)
def test_a_file_that_is_exchanged(site, ask, monkeypatch, step):
    """An older copy in its place does not have the release: it stops, and stays refused."""
    ledger, kept = site.folder / "ledger.sqlite", site.folder / "kept"
    finishes(site, ask, DAYS[0])
    old = ledger.read_bytes()

    def exchange():
        kept.write_bytes(ledger.read_bytes())
        ledger.write_bytes(old)

    with monkeypatch.context() as broken:
        before(broken, step, exchange)
        code, said = ask(DAYS[1])
    assert code == 2
    assert "the release is not in the ledger" in said
    assert site.pointed(DAYS[1]) is None
    if step == "commit":  # the folder is there, though nothing points to it
        code, said = ask(DAYS[1])
        assert code == 1
        assert "Nothing was booked" in said
        assert len(site.entries()) == 1
    ledger.write_bytes(kept.read_bytes())
    finishes(site, ask, DAYS[1])
    assert len(site.entries()) == 2


@pytest.fixture(scope="module")
def own_server(postgres_programs):
    """Return a server that may be stopped."""
    with Server(postgres_programs) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("step", ["reserve", "store", "commit"])
def test_a_server_that_stops(tmp_path, monkeypatch, own_server, ask, step):
    """Between two steps the server is gone; when it is back, the release is finished."""
    monkeypatch.chdir(tmp_path)
    place = place_of("server", tmp_path, own_server.address)
    site = setting(tmp_path, place, DAYS)
    try:
        with monkeypatch.context() as broken:
            before(broken, step, own_server.stop)
            code, said = ask(DAYS[0])
    finally:
        own_server.start()
    assert code == 1
    assert "cannot be used" in said
    assert "nothing was published" in said
    site.check()
    finishes(site, ask, DAYS[0])
    assert len(site.entries()) == 1


WAYS = {
    "full": "database or disk is full",
    "cut": "the server closed the connection",
    "lost": "the server closed the connection",
}
"""There is no room for an event; the connection is gone before it is committed, or after."""


def ways():
    """Return how each event fails, with each database in which that is another matter."""
    return [
        pytest.param(place, way, kind, marks=[pytest.mark.server] * (place == "server"))
        for way in WAYS
        for place in ("file", "server")
        for kind in (("opened", *EVENTS) if way == "lost" else EVENTS)
        if way == "lost" or (way == "full") == (place == "file")
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("either", "way", "kind"), ways(), indirect=["either"])
def test_a_step_of_the_ledger_that_fails(either, monkeypatch, ask, way, kind):
    """It did not happen, or happened and was never heard of: nothing is done twice.

    Numbers that were stored are the answer from then on, though this process never heard.
    """
    add, commit, added = events.append, sa.engine.default.DefaultDialect.do_commit, []

    def adding(connection, step, **options):
        if (way, step) == ("full", kind):
            raise sa.exc.OperationalError("", {}, sqlite3.OperationalError(WAYS[way]))
        added.append(step)
        return add(connection, step, **options)

    def committing(dialect, connection):
        if kind in added and way == "cut":
            dialect.do_rollback(connection)
        else:
            commit(dialect, connection)
        if kind in added:
            raise dialect.loaded_dbapi.OperationalError(WAYS[way])

    with monkeypatch.context() as broken:
        broken.setattr(events, "append", adding)
        broken.setattr(accounts, "append", adding)
        broken.setattr(sa.engine.default.DefaultDialect, "do_commit", committing)
        code, said = ask(DAYS[0])
    assert code == 1
    assert WAYS[way] in said
    either.check()
    there = [*PATH[1:]][: PATH.index(kind) - (way != "lost")][-1:] if kind in PATH else []
    assert [one.state for one in either.entries()] == there
    finishes(either, ask, DAYS[0])
    assert len(either.entries()) == 1


# A ledger that is put back.


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_ledger_put_back_to_an_older_copy(either, ask, order):
    """What was published since is known by its receipts, also where a day was filled in."""
    first, second = (DAYS[k] for k in order)
    finishes(either, ask, first)
    book = either.book()
    rows = book.verify().entries
    finishes(either, ask, second)
    execute(book, "DELETE FROM hexveil_events WHERE entry > :rows", rows=rows)
    for day in (first, second, DAYS[2]):
        code, said = ask(day)
        assert code == 1
        assert "older copy, or a different ledger. Nothing was booked. Restore the newest" in said
    assert len(either.entries()) == 1
    assert [folder.parent.name for folder in either.folders()] == sorted([first, second])


@pytest.mark.parametrize("forgotten", ["ledger.json", "latest.json"])
def test_a_file_copied_back_from_yesterday(site, ask, call, forgotten):
    """It is refused, also where it went on elsewhere; with the newest copy back all goes on."""
    ledger = site.folder / "ledger.sqlite"
    finishes(site, ask, DAYS[0])
    shutil.copy(ledger, site.folder / "yesterday")
    finishes(site, ask, DAYS[1])
    shutil.copy(ledger, site.folder / "today")
    shutil.copy(site.folder / "yesterday", ledger)
    kept = (site.maps / forgotten).read_bytes()
    (site.maps / forgotten).unlink()
    code, said = ask(DAYS[2])
    assert code == 1
    assert "which the ledger does not have" in said
    # The old copy goes on, past this place: now it has the entry, with another hash.
    with crash_draws.apart(site.folder) as apart:
        assert ask(DAYS[2], "--out", "elsewhere")[0] == 0
    assert apart == [1]
    code, said = ask(DAYS[3])
    assert code == 1
    assert "with another hash" in said
    shutil.copy(site.folder / "today", ledger)
    (site.maps / forgotten).write_bytes(kept)
    finishes(site, ask, DAYS[2])
    receipts = [part for folder in site.folders() for part in ("--receipt", folder)]
    assert call("ledger", "verify", "run.toml", *receipts)[0] == 0


def test_a_ledger_that_was_removed_is_not_begun_anew(site, ask):
    """An empty ledger in the place of one that booked releases would forget what was spent."""
    finishes(site, ask, DAYS[0])
    ledger = site.folder / "ledger.sqlite"
    ledger.rename(site.folder / "kept")
    for day in DAYS[:2]:
        code, said = ask(day)
        assert code == 1
        assert "is missing or invalid; nothing was booked" in said
        assert not ledger.exists()
    (site.folder / "kept").rename(ledger)
    finishes(site, ask, DAYS[1])


# Others at the same time.


def test_schedulers_that_ask_at_once(runner, either):
    """The same days four times, and others: all succeed, each day is paid for once."""
    ended = runner.run_at_once(either, DAYS[:2], DAYS[:2], DAYS[2:4], DAYS[2:4])
    for one in ended:
        assert one.code == 0, one.said
    either.check()
    assert len(either.entries()) == 4
    assert either.left() == []
    assert "newest" in either.of_day(DAYS[3])
    for one in either.entries():
        assert either.kinds(one.request) == list(PATH[1:])
    assert either.draws() == 4
