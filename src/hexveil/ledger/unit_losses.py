"""Privacy units in the ledger: keyed hashes of their ids, and the loss of each.

An id never enters the ledger. What enters is BLAKE2b of the id (its canonical text, which
`records.units` defines; for a user-day or user-week, its period after a separator) under the
holder's key, cut to 16 bytes. Without the key nobody can tell whether an id is in the ledger; under
another key every unit would look new, so the ledger pins the key's fingerprint. Of a million units
two share a hash with probability below 10^-26; they would then be charged together, which is safe.
"""

import hashlib
import operator
import os
import secrets
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError

PICO_EPSILON = 10**12
"""Losses are kept as whole multiples of 10^-12 epsilon: this many make epsilon 1."""

MAX_PICO_EPSILON = 2**62
"""Largest loss of a unit, in pico-epsilon: the sum of two such losses fits 64 bits."""

HASH_BYTES = 16
"""Bytes of a hash."""

NORMALISATION = "canonical text 2, then 0x1f and the period; blake2b, 16 bytes"
"""Scheme that turns an id into a hash; pinned by the ledger. Its number is `CANONICAL_IDS`."""

KEY_BYTES = 32
MIN_KEY_BYTES = 16


@dataclass(frozen=True)
class Key:
    """The holder's secret, under which ids are hashed; its repr shows the fingerprint alone."""

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not MIN_KEY_BYTES <= len(self.secret) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise InputError(
                f"a ledger's key has {MIN_KEY_BYTES} to {hashlib.blake2b.MAX_KEY_SIZE} bytes."
            )

    def __reduce__(self) -> tuple[object, ...]:
        raise InputError("a key is not pickled; read its file where it is used.")

    @property
    def fingerprint(self) -> str:
        """Short digest that identifies the key and reveals nothing else about it."""
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
        status = path.stat()
    except OSError:
        return  # reading it tells why
    if not hasattr(os, "geteuid"):
        return
    owned_by_root = status.st_uid == 0 != os.geteuid()
    if status.st_mode & (0o037 if owned_by_root else 0o077):
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
        # Durable when this returns: a ledger that pins the key must not outlive it.
        atomic_files.write(path, key.secret.hex().encode() + b"\n", mode=0o600)
    except OSError as error:
        raise StorageError(
            f"the key {path} cannot be written ({atomic_files.reason(error)})."
        ) from None
    return key


def holder_key(file: Path | None, *, new: bool) -> Key:
    """Return the holder's key; created if the ledger is new and has none."""
    if file is None:
        return Key(b"forgotten with its ledger")
    return make_key(file) if new and not file.exists() else read_key(file)


@dataclass(frozen=True, eq=False, repr=False)
class Losses:
    """Losses of the units of one release, sorted by hash; only the units' identities are private.

    Attributes
    ----------
    hashes : list of bytes, length n_units
        Distinct.
    pico_epsilons : ndarray of int64, shape (n_units,)
        Losses in units of 10^-12 epsilon, above 0.
    period : ndarray of int64, shape (n_units,)
        Which of `periods` a unit is of.
    periods : tuple of str
        Days or weeks; one empty text where the unit is a user.
    limit : Fraction or None
        Exact bound on the loss of a unit, of which its whole number of pico-epsilon was rounded up.
    """

    hashes: list[bytes]
    pico_epsilons: NDArray[np.int64]
    period: NDArray[np.int64]
    periods: tuple[str, ...] = ("",)
    limit: Fraction | None = None

    def __post_init__(self) -> None:
        sizes = {len(self.hashes), self.pico_epsilons.size, self.period.size}
        if len(sizes) != 1 or not all(map(operator.lt, self.hashes, self.hashes[1:])):
            raise InputError("losses need a loss and a period for each of some sorted hashes.")
        if (
            self.pico_epsilons.size
            and not 0 < self.pico_epsilons.min() <= self.pico_epsilons.max() <= MAX_PICO_EPSILON
        ):
            raise InputError(
                f"losses must be above 0 and at most epsilon {MAX_PICO_EPSILON // PICO_EPSILON}."
            )

    def __repr__(self) -> str:
        return f"Losses(n_units={len(self.hashes)})"

    @property
    def largest(self) -> int:
        """Largest loss of a unit, in pico-epsilon."""
        return int(self.pico_epsilons.max(initial=0))

    def to_bytes(self) -> bytes:
        """Serialize hashes, losses and periods, as the ledger stores and hashes them."""
        numbers = self.pico_epsilons.astype("<i8").tobytes() + self.period.astype("<i4").tobytes()
        return b"".join(self.hashes) + numbers


def losses_from_bytes(content: bytes, periods: Sequence[str]) -> Losses:
    """Deserialize losses; ValueError if these bytes hold none."""
    entry_bytes = HASH_BYTES + 8 + 4
    size, remainder = divmod(len(content), entry_bytes)
    if remainder:
        raise ValueError("not a table of losses")
    hashes = [content[k : k + HASH_BYTES] for k in range(0, size * HASH_BYTES, HASH_BYTES)]
    pico_epsilons = np.frombuffer(content, "<i8", size, size * HASH_BYTES).astype(np.int64)
    period = np.frombuffer(content, "<i4", size, size * (HASH_BYTES + 8)).astype(np.int64)
    return Losses(hashes, pico_epsilons, period, tuple(periods))


def hash_losses(
    ids: Sequence[bytes],
    losses: NDArray[np.float64],
    key: Key,
    *,
    max_loss: Fraction,
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
    max_loss : Fraction
        Upper bound on every loss, proved from the plan; it caps the rounding.
    periods : sequence of str, length n_units, optional
        The day or week of each unit.
    """
    labels = [""] * len(ids) if periods is None else periods
    pico_epsilons = to_pico_epsilons(losses, max_loss)
    names = sorted(set(labels))
    number = {name: k for k, name in enumerate(names)}
    period = np.fromiter((number[label] for label in labels), np.int64, len(labels))
    # Units that lose nothing are not named: a row of the ledger would say that they were there.
    losing = [bool(loss) for loss in pico_epsilons]
    losing_units = compress(zip(ids, labels, strict=True), losing)
    blob = b"".join(_hash_units(losing_units, {name: name.encode() for name in names}, key))
    # As two big-endian numbers hashes are in the order of their bytes.
    halves = np.frombuffer(blob, ">u8").reshape(-1, 2)
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    starts = np.flatnonzero(_differs_from_previous(halves[order]))
    hashes = [blob[HASH_BYTES * k : HASH_BYTES * (k + 1)] for k in order[starts].tolist()]
    added = (
        # Equal hashes are added up, so that one unit under two spellings is charged for both.
        # reduceat fails on an empty list of starts.
        np.add.reduceat(pico_epsilons[losing][order], starts) if starts.size else pico_epsilons[:0]
    )
    periods_of_units = period[losing][order][starts]
    return Losses(hashes, added, periods_of_units, tuple(names) or ("",), max_loss)


def _hash_units(
    units: Iterable[tuple[bytes, str]], labels: Mapping[str, bytes], key: Key
) -> Iterator[bytes]:
    """Yield the hash of each unit."""
    # The keyed state is copied: to set it up anew takes longer than to hash an id.
    copy = hashlib.blake2b(key=key.secret, digest_size=HASH_BYTES, person=b"unit").copy
    for user, label in units:
        digest = copy()
        # A separator that ends the id: without one, id "7" and day "1..." could be id "71".
        digest.update(b"%b\x1f%b" % (user, labels[label]))
        yield digest.digest()


def _differs_from_previous(rows: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return whether each row differs from the one before."""
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return new


def to_pico_epsilons(losses: NDArray[np.float64], max_loss: Fraction) -> NDArray[np.int64]:
    """Round losses up to whole pico-epsilons, at most the largest possible loss.

    Examples
    --------
    >>> from fractions import Fraction
    >>> to_pico_epsilons(np.array([0.0, 0.5, 1.0]), Fraction(1)).tolist()
    [0, 500000000001, 1000000000000]
    """
    top = -(-max_loss.numerator * PICO_EPSILON // max_loss.denominator)
    if top > MAX_PICO_EPSILON:
        raise InputError(
            f"no ledger takes a loss above epsilon {MAX_PICO_EPSILON // PICO_EPSILON}; plan with "
            "less."
        )
    # The product is off by half an ulp: the next double is not below the true one.
    raised = np.ceil(np.nextafter(losses * float(PICO_EPSILON), np.inf))
    rounded = np.minimum(raised, float(MAX_PICO_EPSILON)).astype(np.int64)
    return np.where(losses > 0, np.minimum(rounded, top), 0)
