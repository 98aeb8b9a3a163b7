"""Books for tests: how one is opened, what is booked in it, what stands in its tables."""

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from fractions import Fraction
from urllib.parse import quote

import numpy as np
import sqlalchemy as sa

import hexveil as hv
from hexveil.ledger import databases
from hexveil.ledger import ledger as module
from hexveil.ledger.databases import MEMORY, transaction
from hexveil.ledger.tables import metadata
from hexveil.ledger.unit_losses import PICO_EPSILON, Losses, hash_losses, make_key

DERIVED = ("hexveil_balances",)


@dataclass
class Place:
    """Where the ledgers of one test are: an address, and the file of the key."""

    url: str
    key: str | None = None
    options: dict = field(default_factory=dict)

    def open(self, dataset="buses", budget=1, **options):
        """Open the ledger of a data set."""
        return hv.Ledger(self.url, dataset=dataset, budget=budget, key=self.key, **options)


class Memory(Place):
    """Books in memory that share one engine, as two processes share a database."""

    def __init__(self, monkeypatch):
        super().__init__(MEMORY)
        engine = databases.connect(MEMORY)
        monkeypatch.setattr(module, "connect", lambda _: engine)


def losses(book, parts, periods=None):
    """Return losses of units by name: {"a": "0.5"} in epsilon, rounded up as losses are."""
    exact = {name: Fraction(loss) for name, loss in parts.items()}
    made = hash_losses(
        [name.encode() for name in exact],
        np.array([float(loss) for loss in exact.values()]),
        book.key,
        max_loss=max(exact.values(), default=Fraction(1)),
        periods=periods,
    )
    order = {one: int(-(-loss * PICO_EPSILON // 1)) for one, loss in zip(
        (_hash(book, name, periods, k) for k, name in enumerate(exact)), exact.values(), strict=True
    )}  # fmt: skip
    whole = np.array([order[one] for one in made.hashes], dtype=np.int64)
    return Losses(made.hashes, whole, made.period, made.periods)


def _hash(book, name, periods, number):
    label = None if periods is None else [periods[number]]
    one = hash_losses([name.encode()], np.ones(1), book.key, max_loss=Fraction(1), periods=label)
    return one.hashes[0]


def spend(book, request, parts, *, privacy_unit="user", periods=None):
    """Reserve a request whose units lose so much."""
    return book.reserve(
        request,
        losses(book, parts, periods),
        privacy_unit=privacy_unit,
        facts={"name": request},
        plan=f"plan of {request}".encode(),
    )


def draw(book, request, numbers=(1,), stage="cells"):
    """Begin a stage of a booked request, and store its result."""
    entry = book.begin_draw(request, stage, len(numbers))
    book.store(request, entry, np.array(numbers, dtype=np.int64))


def publish(book, request, parts, numbers=(1,), **options):
    """Take a request through all steps and return the numbers that are shown."""
    with book.drawing():
        booking = spend(book, request, parts, **options)
        if not booking.complete:
            if not booking.stages:
                draw(book, request, numbers)
            book.complete(request)
    book.commit(request)
    return book.find(request).published


def tables(book, names=DERIVED):
    """Return all rows of tables, in an order of their own."""
    with transaction(book._engine) as connection:
        return {
            name: sorted(map(tuple, connection.execute(sa.select(metadata.tables[name]))))
            for name in names
        }


def damage(book, sql, **values):
    """Change the ledger behind its back."""
    with book._engine.begin() as connection:
        connection.execute(sa.text(sql), values)


class Server:
    """A PostgreSQL server of one's own, in a folder that is removed at the end."""

    def __init__(self, programs):
        self._programs, self._folder = programs, tempfile.mkdtemp(prefix="hexveil-pg-")
        # PostgreSQL refuses to run as root.
        self._other = {"user": "nobody"} if os.geteuid() == 0 else {}
        if self._other:
            os.chown(self._folder, pwd.getpwnam("nobody").pw_uid, -1)
        self.address = f"postgresql://me@/postgres?host={quote(self._folder, safe='')}"

    def __enter__(self):
        self._run("initdb", "-U", "me", "-A", "trust", "--no-sync", "-E", "UTF8")
        self.start()
        return self

    def __exit__(self, *_):
        # A test may have ended it.
        self._run("pg_ctl", "-w", "-m", "immediate", "stop", check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self):
        """Start it, and wait until it answers."""
        options = f"-c listen_addresses= -c fsync=off -k {self._folder}"
        self._run("pg_ctl", "-w", "-l", f"{self._folder}/log", "-o", options, "start")

    def stop(self):
        """Stop it at once, as if the machine had gone."""
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def _run(self, name, *arguments, check=True):
        subprocess.run(
            [self._programs / name, "-D", f"{self._folder}/data", *arguments],
            capture_output=True, check=check, cwd=self._folder,
            env={"LC_ALL": "C.UTF-8", "PATH": os.defpath}, **self._other,
        )  # fmt: skip


def schema(address):
    """Make a place of its own in a server and return its address."""
    name = f"t{secrets.token_hex(6)}"
    engine = sa.create_engine(address.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema(name))
    engine.dispose()
    return f"{address}&options={quote(f'-csearch_path={name}', safe='')}"


def place_of(kind, folder, monkeypatch, address=None):
    """Return a place of a kind: memory, file or server."""
    if kind == "memory":
        return Memory(monkeypatch)
    if kind == "file":
        return Place(f"{folder}/ledger.sqlite")
    make_key(folder / "holder.key")
    return Place(schema(address), key=f"{folder}/holder.key")
