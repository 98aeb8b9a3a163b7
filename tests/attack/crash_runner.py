"""Runs of `hexveil publish` that tests can kill, and what must be true of whatever they leave."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from attack import crash_draws
from hexveil.base.errors import InputError
from hexveil.ledger import inspection
from hexveil.ledger.databases import connect_existing
from hexveil.publishing.verification import verify
from ledger.books import Place

USERS = 12
RUN = """\
source = "buses.parquet"

[columns]
user = "bus"
value = "speed"
time = "time"

[values]
bounds = [0, 65]

[cells]
labels = ["route"]
timezone = "Asia/Kolkata"

[plan]
epsilon = 40
method = "per-cell"

[release]
out = "maps"

[ledger]
url = "{url}"
dataset = "buses"
budget = 1000000
"""


def days(number, start="2022-01-01"):
    """Return days that follow one another."""
    first = int(time.mktime(time.strptime(start, "%Y-%m-%d"))) + 43_200
    return [time.strftime("%Y-%m-%d", time.localtime(first + 86_400 * k)) for k in range(number)]


def setting(folder, place, dates):
    """Make a folder with a small fleet's records of some days and the run file of a ledger."""
    rows = [
        {
            "bus": f"b{user}", "route": "ring", "lat": 21.1, "lon": 72.75,
            "time": f"{day}T10:{user:02d}:00+05:30", "speed": 10.0 + user,
        }
        for day in dates
        for user in range(USERS)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), folder / "buses.parquet")
    key = "" if place.key is None else f'key = "{place.key}"\n'
    (folder / "run.toml").write_text(RUN.format(url=place.url) + key)
    return Site(folder, place)


@dataclass
class Ended:
    """How a run ended: its exit code (-9 if it was killed, 130 if stopped), and what it said."""

    code: int
    said: str


class Runner:
    """Starts runs, each forked from one process that has the libraries."""

    def __init__(self):
        paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "attack.crash_child"], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def close(self):
        """End the process that forks."""
        self._parent.stdin.close()
        self._parent.wait(60)
        self._parent.stdout.close()

    def run(
        self, site, dates, *, kill_after=None, from_booking=False, sign=signal.SIGKILL, **options
    ):
        """Publish days, and send a signal at a hook, or after so many seconds."""
        options["sign"] = sign
        told = self._ask(site, [dates], **options)
        if kill_after is not None:
            if from_booking:
                self._until(told, "booking", "codes")
            time.sleep(kill_after)
            with contextlib.suppress(ProcessLookupError):  # it was faster
                os.kill(told["pids"][0], sign)
        return self._ended(site, told)[0]

    def run_at_once(self, site, *spans):
        """Publish several spans of days at the same moment."""
        return self._ended(site, self._ask(site, spans))

    def _ask(self, site, spans, **asked):
        """Start a process for each span of days."""
        default = {"hook": (), "number": 1, "sign": int(signal.SIGKILL), "most_bytes": None}
        assert asked.keys() <= default.keys()
        asked = default | asked | {
            "folder": str(site.folder),
            "runs": [["--from", dates[0], "--to", dates[-1]] for dates in spans],
        }  # fmt: skip
        self._parent.stdin.write(json.dumps(asked) + "\n")
        self._parent.stdin.flush()
        return self._until({}, "pids")

    def _ended(self, site, told):
        codes = self._until(told, "codes")["codes"]
        said = [(site.folder / f"said-{number}").read_text() for number in range(len(codes))]
        return [Ended(*one) for one in zip(codes, said, strict=True)]

    def _until(self, told, *names):
        """Read what is told of a run until one of these names is in it, and return all of it."""
        while not any(name in told for name in names):
            told |= json.loads(self._parent.stdout.readline())
        return told


@dataclass
class Site:
    """A folder with records, run file and maps, its ledger, and all that was ever visible."""

    folder: Path
    place: Place
    seen: dict = field(default_factory=dict)

    @property
    def maps(self):
        """Return the data set's folder of releases."""
        return self.folder / "maps" / "buses"

    def book(self):
        """Open the ledger."""
        return self.place.open(budget=None)

    def entries(self):
        """Return the requests that are booked; none where no ledger was opened yet."""
        opened = self._open()
        return opened[1].entries() if opened else ()

    def _open(self):
        """Return a connection to the ledger and its book; nothing where none was opened yet."""
        try:
            engine = connect_existing(self.place.url)
            inspection.overview(engine, "buses")
        except InputError:
            return None
        return engine, self.book()

    def folders(self):
        """Return the releases that are visible: every folder that is not hidden."""
        return [path for path in sorted(self.maps.glob("*/[!.]*")) if path.is_dir()]

    def left(self):
        """Return everything of a temporary name."""
        return sorted(self.folder.rglob(".*.partial-*"))

    def pointer(self, *above):
        """Return the file that points to what counts: of a day, or of the data set."""
        return self.maps.joinpath(*above, "latest.json")

    def pointed(self, *above):
        """Return the folder that a pointer names, or None: of a day, or of the data set."""
        file = self.pointer(*above)
        return self.maps / json.loads(file.read_text())["path"] if file.exists() else None

    def of_day(self, day):
        """Return the state of a day's one request in the ledger, and what of it is visible."""
        folders = [path for path in self.folders() if path.parent.name == day]
        assert len(folders) <= 1
        seen = ["folder"] * len(folders)
        seen += ["day"] if self.pointed(day) in folders else []
        seen += ["newest"] if self.pointed() in folders else []
        return tuple(seen)

    def check(self):
        """Whatever happened: what is visible is whole and paid for; the ledger holds."""
        # Each connection to a server is a process there: one serves the whole check.
        engine, book = self._open() or (None, None)
        booked = {one.request: one for one in book.entries()} if book else {}
        short = {request[:16]: one for request, one in booked.items()}
        assert len(short) == len(booked)
        for folder in self.folders():
            self._check_folder(folder, short.get(folder.name), engine)
        pointers = [self.pointed(), *(self.pointed(path.parent.name) for path in self.folders())]
        for folder in pointers:
            assert folder is None or short[folder.name].state == "committed"
        if booked:
            self._check_book(booked, book, self.history(engine))

    def _check_folder(self, folder, booking, engine):
        """Check that a visible folder is whole, has the ledger's numbers, and never changes."""
        contents = {path.name: path.read_bytes() for path in folder.iterdir()}
        if folder in self.seen:
            assert contents == self.seen[folder]
            return
        problems = verify.find_problems(folder)
        assert not problems, problems
        receipt = json.loads(contents["receipt.json"])
        assert booking is not None, "published, and not paid for"
        assert receipt["request"] == booking.request
        assert booking.state in ("stored", "committed")
        assert receipt["ledger"] == {"entry": booking.entry, "chain": booking.chain}
        assert inspection.hash_at(engine, booking.entry) == booking.chain
        told = json.loads(contents["manifest.json"])["guarantee"]
        assert 0 < Fraction(told["epsilon_spent"]) <= booking.cost
        self.seen[folder] = contents

    def _check_book(self, booked, book, history):
        """Check that the chain holds, results stay, and each booking is charged, and drawn once."""
        assert book.verify().problems == ()
        crash_draws.check(self.folder, history)
        # All vehicles are in all releases, so each has lost the sum of them.
        lost = sum(
            booked[e.request].cost for e in history if e.kind == "lost" and e.request in booked
        )
        paid = sum(one.cost for one in booked.values())
        assert book.spend().lifetime == paid + lost
        for request, one in booked.items():
            if one.published is not None:
                assert self.seen.setdefault(request, one.published) == one.published
            own = [e for e in history if e.request == request and e.kind == "reserved"]
            for stage, result in one.stages.items():
                key = request, own[-1].entry, stage
                assert self.seen.setdefault(key, result) == result

    def history(self, engine=None):
        """Return all events of the ledger's data set, without those of its account."""
        engine = engine or connect_existing(self.place.url)
        return [event for event in inspection.history(engine, "buses") if event.request]

    def kinds(self, request):
        """Return what happened to a request, in order."""
        return [e.kind for e in self.history() if e.request == request]

    def draws(self):
        """Return how many draws were made under all bookings; each made at most one of a stage."""
        return sum(crash_draws.check(self.folder, self.history()).values())
