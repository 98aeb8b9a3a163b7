"""Booking a release of many units beside a bulk insert of the same rows; and a long book.

``python benchmarks/ledger.py [--units N] [--releases N] [--only sqlite|postgres]``. Per database
(an SQLite file; a PostgreSQL server of its own where its programs are found) the floor is one
bulk insert, durable when it returns, of the rows that a booking adds to the balances, into a
table of the same columns and key: executemany in SQLite, COPY in PostgreSQL. The long book is
filled through the ledger itself. Exits 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pwd
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hexveil.ledger import Ledger, hash_losses
from hexveil.ledger.storage.databases import connect, transaction
from hexveil.ledger.storage.tables import balances
from hexveil.ledger.unit_losses import Key, Losses, make_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hexveil.ledger.bookings import Booking

BULK_LIMIT, LONG_LIMIT = 10.0, 2.0
EACH = 1_000
"""Units of a release on the long book."""
TRIES = 15
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))


def main() -> int:
    """Run the benchmark; 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=1_000_000)
    parser.add_argument("--releases", type=int, default=10_000)
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    given = parser.parse_args()
    missed = 0
    for name, server in (("sqlite", files), ("postgres", servers)):
        if given.only in (None, name):
            with server() as fresh:
                if fresh is None:
                    print(f"{name}: not on this machine")
                    continue
                missed |= bulk(name, fresh, given.units) | long(name, fresh, given.releases)
    return missed


@contextlib.contextmanager
def files() -> Iterator[Callable[[str], str] | None]:
    """Yield a function that returns the address of a new SQLite file."""
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as folder:
        yield lambda name: f"{folder}/{name}.sqlite"


@contextlib.contextmanager
def servers() -> Iterator[Callable[[str], str] | None]:
    """Yield a function that returns the address of a new database; None without a server."""
    if not PROGRAMS:
        yield None
        return
    folder, programs = tempfile.mkdtemp(prefix="hexveil-bench-pg-"), PROGRAMS[-1].parent
    # PostgreSQL refuses to run as root.
    owner = "nobody" if os.geteuid() == 0 else None
    if owner:
        os.chown(folder, pwd.getpwnam(owner).pw_uid, -1)

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [str(programs / program), *arguments], check=True, cwd=folder, user=owner,
            stdout=subprocess.DEVNULL, env={"LC_ALL": "C.UTF-8", "PATH": os.defpath},
        )  # fmt: skip

    def fresh(name: str) -> str:
        run("createdb", "-h", folder, "-U", "me", name)
        return f"postgresql://me@/{name}?host={folder}"

    data = f"{folder}/data"
    try:
        run("initdb", "-D", data, "-U", "me", "-A", "trust", "-E", "UTF8")
        server = f"-c listen_addresses= -k {folder}"
        run("pg_ctl", "-D", data, "-w", "-l", f"{folder}/log", "-o", server, "start")
        try:
            yield fresh
        finally:
            run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def seconds(work: Callable[[], object]) -> float:
    """Return how long work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def some_losses(n_units: int, key: Key, first: int = 0) -> Losses:
    """Return losses of vehicles, hashed as a release does it."""
    ids = [b"vehicle %d" % k for k in range(first, first + n_units)]
    return hash_losses(ids, np.linspace(1e-6, 1e-3, n_units), key, max_loss=Fraction(1, 1000))


def open_book(address: str, folder: Path) -> Ledger:
    """Return a new ledger whose key is a file."""
    key = folder / "key"
    if not key.exists():
        make_key(key)
    return Ledger(address, dataset="buses", budget=1000, key=key)


def reserve(book: Ledger, request: str, losses: Losses) -> Booking:
    """Book a release of no plan: the ledger stores its bytes as they are."""
    return book.reserve(request, losses, privacy_unit="user", facts={}, plan=b"")


def bulk(name: str, fresh: Callable[[str], str], n_units: int) -> int:
    """Print a booking of many units beside the floor; 1 if the limit is missed."""
    with tempfile.TemporaryDirectory() as place:
        book = open_book(fresh("many"), Path(place))
        made: list[Losses] = []
        hashing = seconds(lambda: made.append(some_losses(n_units, book.key)))
        booking = seconds(lambda: reserve(book, "first", made[0]))
        again = seconds(lambda: reserve(book, "again", made[0]))
        floor = seconds(lambda: insert(fresh("floor"), made[0]))
    ratio, second = (hashing + booking) / floor, (hashing + again) / floor
    print(
        f"{name}: {n_units:,} units, bulk insert {floor:.1f} s; hashing {hashing:.1f} s and "
        f"booking {booking:.1f} s, {ratio:.1f} times the floor; of units that are in the book "
        f"{again:.1f} s, {second:.1f} times (at most {BULK_LIMIT:g})",
        flush=True,
    )
    return int(max(ratio, second) > BULK_LIMIT)


def insert(address: str, losses: Losses) -> None:
    """Insert rows like those of a booking at once into a new table like the balances."""
    engine = connect(address)
    rows = zip(losses.hashes, losses.pico_epsilons.tolist(), strict=True)
    with transaction(engine) as connection:
        raw = connection.connection.cursor()
        if engine.dialect.name == "sqlite":
            values = (("buses", "", unit, parts) for unit, parts in rows)
            statement = f"INSERT INTO {balances.name} VALUES (?, ?, ?, ?)"
            raw.executemany(statement, values)  # type: ignore[arg-type]  # sqlite3 takes any iterable
            return
        with raw.copy(f"COPY {balances.name} FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["text", "text", "bytea", "int8"])
            for unit, parts in rows:
                copy.write_row(("buses", "", unit, parts))


def long(name: str, fresh: Callable[[str], str], releases: int) -> int:
    """Print booking and looking on an empty and on a long book; 1 if the limit is missed."""
    with tempfile.TemporaryDirectory() as place:
        empty = open_book(fresh("empty"), Path(place))
        full = open_book(fresh("full"), Path(place))
        losses = [some_losses(EACH, empty.key, EACH * k) for k in range(10)]
        fill = seconds(lambda: book_many(full, losses, releases))
        print(f"{name}: {releases:,} releases of {EACH:,} units, booked in {fill:.0f} s")
        missed = 0
        for what, work in (("booking", one_more(losses)), ("spend()", Ledger.spend)):
            pairs = by_turns(work, empty, full)
            short, grown = (statistics.median(column) for column in zip(*pairs, strict=True))
            missed |= grown > LONG_LIMIT * short
            print(
                f"{name}: {what} {1000 * short:.1f} ms on an empty book, {1000 * grown:.1f} ms on "
                f"the long one: {grown / short:.2f} times (at most {LONG_LIMIT:g})",
                flush=True,
            )
    return int(missed)


def by_turns(work: Callable[[Ledger], object], *books: Ledger) -> list[tuple[float, ...]]:
    """Return how long a work takes, tried on books by turns: what else runs meets all of them."""
    return [tuple(seconds(partial(work, book)) for book in books) for _ in range(TRIES)]


def book_many(book: Ledger, losses: list[Losses], releases: int) -> None:
    """Book releases of ten fleets in turn, each to its end."""
    for number in range(releases):
        request = f"release {number}"
        reserve(book, request, losses[number % len(losses)])


def one_more(losses: list[Losses]) -> Callable[[Ledger], object]:
    """Return a work that books a release more."""
    count = iter(range(10**9))

    def booked(book: Ledger) -> object:
        return reserve(book, f"one more {next(count)}", losses[0])

    return booked


if __name__ == "__main__":
    sys.exit(main())
