"""Units of privacy as the book knows them: keyed hashes of ids, and what each loses.

An id never enters the book. What enters is BLAKE2b of the id (its canonical text, which
`records.units` defines; for a user-day or user-week, its period after a separator) under the
holder's key, cut to 16 bytes. Without the key nobody can tell whether an id is in the book; under
another key every unit would look new, so the book pins the key's fingerprint. Of a million units
two share a hash with probability below 10^-26; they would then be charged together, which is safe.
"""

from __future__ import annotations

import hashlib
import operator
import os
import secrets
import shlex
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction
    from pathlib import Path

    from numpy.typing import NDArray

PARTS = 10**12
"""A loss is kept as a whole number of parts of one epsilon."""

MOST = 2**62
"""Parts that a unit may have lost at most, so that no sum of two leaves 64 bits."""

SIZE = 16
"""Bytes of a hash."""

NORMALISATION = "canonical text 1, then 0x1f and the period; blake2b, 16 bytes"
"""How an id becomes a hash; pinned by the book. The number is that of `CANONICAL_IDS`."""

KEY_BYTES = 32
SHORTEST_KEY = 16


@dataclass(frozen=True)
class Key:
    """The holder's secret, under which ids are hashed; its repr shows the fingerprint alone."""

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not SHORTEST_KEY <= len(self.secret) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise InputError(
                f"a ledger's key has {SHORTEST_KEY} to {hashlib.blake2b.MAX_KEY_SIZE} bytes."
            )

    def __reduce__(self) -> tuple[object, ...]:
        raise InputError("a key is not pickled; read its file where it is used.")

    @property
    def fingerprint(self) -> str:
        """What tells one key from another, and says nothing else about it."""
        return hashlib.blake2b(
            b"hexveil", key=self.secret, digest_size=8, person=b"key"
        ).hexdigest()


def read_key(path: Path) -> Key:
    """Return the key that a file holds, as hex text.

    Raises
    ------
    InputError
        If there is no such file, others can read it, or it holds no key.
    """
    _check_rights(path)
    try:
        return Key(bytes.fromhex(path.read_text("ascii").strip()))
    except FileNotFoundError:
        raise InputError(
            f"the ledger's key {path} is not there. Bring it back from where it is kept: under "
            "another key all units would look new. If it is lost, what was spent is not known any "
            "more; begin a new ledger, and count what the old one allowed as spent."
        ) from None
    except (OSError, ValueError):  # an error about letters holds the file, so it is not kept
        pass
    raise InputError(f"{path} holds no key of a ledger; name the file that does.")


def _check_rights(path: Path) -> None:
    """Refuse a key that others can read; a group may read one that root put there for it."""
    try:
        found = path.stat()
    except OSError:
        return  # reading it tells why
    if not hasattr(os, "geteuid"):
        return
    given_by_root = found.st_uid == 0 != os.geteuid()
    if found.st_mode & (0o037 if given_by_root else 0o077):
        raise InputError(
            f"{path} can be read or changed by others: whoever has the key can tell which ids are "
            f"in the ledger. Take the rights of others away: chmod 600 {shlex.quote(str(path))}"
        )


def make_key(path: Path) -> Key:
    """Write a new random key to a new file that its owner alone may read, and return it."""
    key = Key(secrets.token_bytes(KEY_BYTES))
    try:
        if path.exists():
            raise InputError(f"{path} exists; a key is never overwritten.")
        # On the disk when this returns: a book that pins the key must not outlive it.
        atomic_files.write(path, key.secret.hex().encode() + b"\n", mode=0o600)
    except OSError as error:
        raise StorageError(
            f"the key {path} cannot be written ({atomic_files.reason(error)})."
        ) from None
    return key


@dataclass(frozen=True, eq=False, repr=False)
class Losses:
    """What each unit of one release loses, sorted by hash. Public but for who the units are.

    Attributes
    ----------
    hashes : list of bytes, length n_units
        Distinct.
    parts : ndarray of int64, shape (n_units,)
        In parts of 10^-12 epsilon, above 0.
    period : ndarray of int64, shape (n_units,)
        Which of `periods` a unit is of.
    periods : tuple of str
        Days or weeks; one empty text where the unit is a user.
    """

    hashes: list[bytes]
    parts: NDArray[np.int64]
    period: NDArray[np.int64]
    periods: tuple[str, ...] = ("",)

    def __post_init__(self) -> None:
        sizes = {len(self.hashes), self.parts.size, self.period.size}
        if len(sizes) != 1 or not all(map(operator.lt, self.hashes, self.hashes[1:])):
            raise InputError("losses need one part and period for each of some sorted hashes.")
        if self.parts.size and not 0 < self.parts.min() <= self.parts.max() <= MOST:
            raise InputError(f"losses must be above 0 and at most epsilon {MOST // PARTS}.")

    def __repr__(self) -> str:
        return f"Losses(n_units={len(self.hashes)})"

    @property
    def largest(self) -> int:
        """What the most exposed unit loses, in parts."""
        return int(self.parts.max(initial=0))

    def blob(self) -> bytes:
        """Return hashes, losses and periods as bytes: what the book keeps and chains."""
        numbers = self.parts.astype("<i8").tobytes() + self.period.astype("<i4").tobytes()
        return b"".join(self.hashes) + numbers


def of_blob(blob: bytes, periods: Sequence[str]) -> Losses:
    """Return the losses that a blob holds; ValueError if it is none."""
    each = SIZE + 8 + 4
    size, rest = divmod(len(blob), each)
    if rest:
        raise ValueError("not a table of losses")
    hashes = [blob[k : k + SIZE] for k in range(0, size * SIZE, SIZE)]
    parts = np.frombuffer(blob, "<i8", size, size * SIZE).astype(np.int64)
    period = np.frombuffer(blob, "<i4", size, size * (SIZE + 8)).astype(np.int64)
    return Losses(hashes, parts, period, tuple(periods))


def losses_of(
    ids: Sequence[bytes],
    losses: NDArray[np.float64],
    key: Key,
    *,
    most: Fraction,
    periods: Sequence[str] | None = None,
) -> Losses:
    """Return the losses of units, hashed; a unit that loses nothing is left out.

    Parameters
    ----------
    ids : sequence of bytes, length n_units
        PRIVATE. Id of each unit's user.
    losses : ndarray of float, shape (n_units,)
        In epsilon, each at least the true one.
    key : Key
    most : Fraction
        What no unit loses more than: a proof from the plan that caps the rounding.
    periods : sequence of str, length n_units, optional
        The day or week of each unit.
    """
    labels = [""] * len(ids) if periods is None else periods
    parts = parts_up(losses, most)
    names = sorted(set(labels))
    number = {name: k for k, name in enumerate(names)}
    period = np.fromiter((number[label] for label in labels), np.int64, len(labels))
    losing = [bool(part) for part in parts]
    kept = compress(zip(ids, labels, strict=True), losing)
    blob = b"".join(_hashed(kept, {name: name.encode() for name in names}, key))
    # As two big-endian numbers hashes are in the order of their bytes.
    halves = np.frombuffer(blob, ">u8").reshape(-1, 2)
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    first = np.flatnonzero(_changes(halves[order]))
    hashes = [blob[SIZE * k : SIZE * (k + 1)] for k in order[first].tolist()]
    added = np.add.reduceat(parts[losing][order], first) if first.size else parts[:0]
    return Losses(hashes, added, period[losing][order][first], tuple(names) or ("",))


def _hashed(
    units: Iterable[tuple[bytes, str]], labels: Mapping[str, bytes], key: Key
) -> Iterator[bytes]:
    """Yield the hash of each unit."""
    copy = hashlib.blake2b(key=key.secret, digest_size=SIZE, person=b"unit").copy
    for user, label in units:
        one = copy()
        one.update(b"%b\x1f%b" % (user, labels[label]))
        yield one.digest()


def _changes(rows: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return whether each row differs from the one before."""
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return new


def parts_up(losses: NDArray[np.float64], most: Fraction) -> NDArray[np.int64]:
    """Return losses in whole parts, rounded up, none above what none can lose.

    Examples
    --------
    >>> from fractions import Fraction
    >>> parts_up(np.array([0.0, 0.5, 1.0]), Fraction(1)).tolist()
    [0, 500000000001, 1000000000000]
    """
    top = -(-most.numerator * PARTS // most.denominator)
    if top > MOST:
        raise InputError(f"no ledger takes a loss above epsilon {MOST // PARTS}; plan with less.")
    # The product is off by half an ulp: the next double is not below the true one.
    raised = np.ceil(np.nextafter(losses * float(PARTS), np.inf))
    whole = np.minimum(raised, float(MOST)).astype(np.int64)
    return np.where(losses > 0, np.minimum(whole, top), 0)
