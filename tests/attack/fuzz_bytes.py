"""Damaged files: a good one with bytes changed, taken away, added or moved, by seeded chance."""

import contextlib
import random
import signal

from examples import LONG

MANY = 10_000 if LONG else 500
"""Damaged files of a format that is cheap to read."""
ODD = [b'"', b"'", b"\n", b"\r\n", b"\r", b",", b";", b"{", b"}", b"[", b"]", b":", b"\\", b"\0"]
ODD += [b"-", b".", b"e", b"9" * 30, b"\xff", b"\xc3\xa9", b"\xef\xbb\xbf", b"null", b"NaN", b" "]
GUARD_SECONDS = 900
"""A reader that has not ended all damaged files of a test by then hangs."""


def few(share):
    """Return a share of the number, where reading takes longer; all of it in the long form."""
    return MANY if LONG else int(MANY * share)


def mutants(data, number, seed=0):
    """Yield seeds and damaged copies of some bytes."""
    for at in range(number):
        yield at, mutant(data, f"{seed} {at}")


def mutant(data, seed):
    """Return bytes with one to three kinds of damage."""
    chance = random.Random(seed)  # noqa: S311  a repeatable attack
    for _ in range(chance.choice((1, 1, 2, 3))):
        data = chance.choice(KINDS)(data, chance)
    return data


def flip(data, chance):
    at = chance.randrange(len(data) + 1)
    return (
        data[:at]
        + bytes([b ^ (1 << chance.randrange(8)) for b in data[at : at + 1]])
        + data[at + 1 :]
    )


def replace(data, chance):
    at = chance.randrange(len(data) + 1)
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


def delete(data, chance):
    start, end = _range(data, chance)
    return data[:start] + data[end:]


def insert(data, chance):
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(ODD) + data[at:]


def scatter(data, chance):
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.randbytes(chance.randrange(1, 9)) + data[at:]


def truncate(data, chance):
    return data[: chance.randrange(len(data) + 1)]


def duplicate(data, chance):
    start, end = _range(data, chance)
    return data[:end] + data[start:end] + data[end:]


def swap(data, chance):
    a, b, c, d = sorted(chance.randrange(len(data) + 1) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


KINDS = (flip, flip, replace, delete, insert, insert, scatter, truncate, duplicate, swap)


def _range(data, chance):
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.choice((1, 2, 5, 20, 200)))


@contextlib.contextmanager
def guard():
    """Fail if what is inside has not ended after a long time."""

    def hangs(_signal, _frame):
        raise AssertionError("a reader hangs")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(GUARD_SECONDS * (20 if LONG else 1))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
