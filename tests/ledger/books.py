"""Books for tests: how one is opened, what is booked in it, what stands in its tables."""

import contextlib
import hashlib
import json
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from urllib.parse import quote

import numpy as np
import sqlalchemy as sa

import hexveil as hv

PICO = 10**12
"""Parts of which a loss is a whole number: so many make epsilon 1."""
GENESIS = "0" * 64
"""The hash before the first event."""


@dataclass
class Place:
    """Where the ledgers of one test are: an address, and the file of the key."""

    url: str
    key: str | None = None

    def open(self, dataset="buses", budget=1, **options):
        """Open the ledger of a data set."""
        return hv.Ledger(self.url, dataset=dataset, budget=budget, key=self.key, **options)


def unit_hash(key, name, period=""):
    """Return the hash of a unit under the holder's key, spelled out."""
    text = name.encode() + b"\x1f" + period.encode()
    return hashlib.blake2b(text, key=key.secret, digest_size=16, person=b"unit").digest()


def losses(book, parts, periods=None, limit=None):
    """Return losses of units by name: {"a": "0.5"} in epsilon, rounded up as losses are.

    They are as a ledger takes them, made from the description of its hashes alone.
    """
    labels = [""] * len(parts) if periods is None else periods
    names = tuple(sorted(set(labels))) or ("",)
    made = sorted(
        (unit_hash(book.key, name, label), -(-Fraction(loss) * PICO // 1), names.index(label))
        for (name, loss), label in zip(parts.items(), labels, strict=True)
    )
    hashes, whole, period = ([row[k] for row in made] for k in range(3))
    blob = np.array(whole, dtype="<i8").tobytes() + np.array(period, dtype="<i4").tobytes()
    return SimpleNamespace(
        hashes=hashes, pico_epsilons=np.array(whole, dtype=np.int64), period=np.array(period),
        periods=names, limit=limit, largest=max(whole, default=0),
        to_bytes=lambda: b"".join(hashes) + blob,
    )  # fmt: skip


def spend(book, request, parts, *, privacy_unit="user", periods=None, **options):
    """Reserve a request whose units lose so much."""
    return book.reserve(
        request,
        losses(book, parts, periods, options.pop("limit", None)),
        privacy_unit=privacy_unit,
        facts={"name": request},
        plan=f"plan of {request}".encode(),
        **options,
    )


def draw(book, request, numbers=(1,), stage="cells"):
    """Begin a stage of a booked request, and store its result."""
    entry = book.begin_draw(request, stage, len(numbers))
    book.store(request, entry, np.array(numbers, dtype=np.int64))


def publish(book, request, parts, numbers=(1,), **options):
    """Ask for a release as `hv.release` does, and return the numbers that are shown."""
    known = book.find(request)
    if known is None or not known.complete:
        with book.drawing():
            booking = spend(book, request, parts, **options)
            if not booking.complete:
                if not booking.stages:
                    draw(book, request, numbers)
                book.complete(request)
    book.commit(request)
    return book.find(request).published


def database(book):
    """Return an engine of the tests' own for the database of a ledger."""
    if "://" not in book.address:
        return sa.create_engine(sa.URL.create("sqlite", database=book.address))
    return sa.create_engine(sa.make_url(book.address).set(drivername="postgresql+psycopg"))


def execute(book, sql, **values):
    """Run a statement behind the ledger's back, and return its rows if it has some."""
    engine = database(book)
    with engine.begin() as connection:
        found = connection.execute(sa.text(sql), values)
        rows = found.mappings().all() if found.returns_rows else []
    engine.dispose()
    return rows


def tables(book, names=("hexveil_balances",)):
    """Return all rows of tables, in an order of their own."""
    return {
        name: sorted(tuple(row.values()) for row in execute(book, f"SELECT * FROM {name}"))
        for name in names
    }


def link(previous, row):
    """Return the hash of an event after the hash of the event before, spelled out."""
    said = {name: text for name, text in row.items() if name != "chain"}
    if row["units"] is not None:  # of the losses of units its digest
        said["units"] = hashlib.sha256(row["units"]).hexdigest()
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()


def rewrite(book, entry, **columns):
    """Change an event and write the chain again over what stands there, as who knows its rule."""
    stated = ", ".join(f"{name} = :{name}" for name in columns)
    if columns:
        execute(
            book, f"UPDATE hexveil_events SET {stated} WHERE entry = :row", row=entry, **columns
        )
    last = GENESIS
    for row in execute(book, "SELECT * FROM hexveil_events ORDER BY entry"):
        last = link(last, row)
        if last != row["chain"]:
            change = "UPDATE hexveil_events SET chain = :chain WHERE entry = :row"
            execute(book, change, chain=last, row=row["entry"])


def change_body(book, entry, changes, **columns):
    """Change the body of an event, and other columns of it."""
    (row,) = execute(book, "SELECT body FROM hexveil_events WHERE entry = :row", row=entry)
    body = json.dumps(json.loads(row["body"]) | changes, sort_keys=True, separators=(",", ":"))
    rewrite(book, entry, body=body, **columns)


def set_clock(book, moment):
    """Let the ledger's time go on: it is never before that of the last event."""
    book.set_budget(book.budget)
    (row,) = execute(book, "SELECT max(entry) AS last FROM hexveil_events")
    rewrite(book, row["last"], at=moment)


@contextlib.contextmanager
def listening(name, hear, **options):
    """Have a function called at an event of any database."""
    sa.event.listen(sa.Engine, name, hear, **options)
    try:
        yield
    finally:
        sa.event.remove(sa.Engine, name, hear)


@contextlib.contextmanager
def at_commit(look):
    """Return what a look at each transaction's connection finds just before its commit."""
    seen = []
    with listening("commit", lambda connection: seen.append(look(connection))):
        yield seen


class Server:
    """A PostgreSQL server of one's own, in a folder that is removed at the end."""

    def __init__(self, programs):
        self._programs, self.folder = programs, tempfile.mkdtemp(prefix="hexveil-pg-")
        # PostgreSQL refuses to run as root.
        self._other = {"user": "nobody"} if os.geteuid() == 0 else {}
        if self._other:
            os.chown(self.folder, pwd.getpwnam("nobody").pw_uid, -1)
        self.address = f"postgresql://me@/postgres?host={quote(self.folder, safe='')}"

    def __enter__(self):
        self._run("initdb", "-U", "me", "-A", "trust", "--no-sync", "-E", "UTF8")
        self.start()
        return self

    def __exit__(self, *_):
        # A test may have ended it.
        self._run("pg_ctl", "-w", "-m", "immediate", "stop", check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        """Start it, and wait until it answers."""
        options = f"-c listen_addresses= -c fsync=off -k {self.folder}"
        self._run("pg_ctl", "-w", "-l", f"{self.folder}/log", "-o", options, "start")

    def stop(self):
        """Stop it at once, as if the machine had gone."""
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def _run(self, name, *arguments, check=True):
        subprocess.run(
            [self._programs / name, "-D", f"{self.folder}/data", *arguments],
            capture_output=True, check=check, cwd=self.folder,
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


def place_of(kind, folder, address=None):
    """Return a place of a kind: file or server."""
    if kind == "file":
        return Place(f"{folder}/ledger.sqlite")
    key = folder / "holder.key"
    key.write_text(secrets.token_hex(32))
    key.chmod(0o600)
    return Place(schema(address), key=str(key))
