"""Folder of a saved plan of any kind: all that is public about it, for review before a release.

plan.json has the figures, the plan in words, and the digest of all contents; arrays.bin has the
plan's arrays, as the ledger keeps them. Of means and variances they include the counts of each
(cell, user) pair and the public metadata of the records, unless pairs do not fit in memory; other
plans are loaded with their records. cells.parquet and users.parquet show the rows of `Plan.table`
and `Plan.users`, where a plan has them. Numbers are doubles or integers as they are, exact numbers
are text.

Users are numbers, ids are not known here. Counts by pair are public by the promise, but they show
where the user of each number was: the folder is for reviewers, not for publication.

The digest finds edits; it is no signature. A release trusts a plan, so that `load` checks it as if
a stranger had written it, and computes the losses anew: no edit can make a release cheaper than it
is. Noise too small for the lattice of the records is refused by the release itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow.parquet

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.base.rational import decimal_text
from hexveil.model.declared_grid import ColumnFacts
from hexveil.model.occupancy import LocalOccupancy, Occupancy
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.distribution.distribution_components import score_metadata
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.plan import Plan
from hexveil.planning.serialization.codec import (
    FORMAT,
    Arrays,
    Codec,
    Words,
    pack_bytes,
    unpack_bytes,
)
from hexveil.planning.serialization.codec import Path as Place
from hexveil.planning.serialization.plan_codec import KINDS, plan_of, saved_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    Source = PublicMetadata | ColumnFacts | Occupancy | None

WORDS, ARRAYS, BOOKED = "plan.json", "arrays.bin", "booked"
TABLES = {"cells.parquet": "table", "users.parquet": "users"}
"""Figures for reviewers, by file name: attributes of a plan that may have them."""
LOSS_DIGITS = 1e-4
"""Part of a loss by which another version's accountant may differ."""
DISTRIBUTED = "distributed"
"""Word of plans with pairs that do not fit in memory."""
GOES_WITH = (
    "This plan is for the records of this occupancy alone, read as they were read for it. For "
    "other records, such as tomorrow's, keep the goal in a run file (TOML) and plan those records."
)
_OF_RECORDS = {
    ("facts", "recount"): None,
    ("facts", "bins"): None,
    ("facts", "id_space"): "",
    ("facts", "cells", "grid", "area"): None,
}
"""Public facts that no folder has."""
_DIFFERENCES = {
    "fingerprint": "who reported how often where",
    "bounds": "the bounds that they were read with",
    "quantum": "the quantum that they were read with",
    "privacy_unit": "the privacy unit",
    "cells": "the names of the cells",
    "bins": "the bins that they were counted by; read them with the plan's statistics",
}
"""What can differ, the most general first: a message names the cause, not its consequences."""


# ---- writing ----


def save(plan: Plan, folder: str | Path) -> Path:
    """Write a plan into a new folder and return its path: see `Plan.save`."""
    path = Path(folder)
    check_new(path)
    try:
        with atomic_files.folder(path) as temporary:
            _write(saved_of(plan), temporary)
    except OSError as error:
        raise StorageError(
            f"the plan could not be saved to {path} ({atomic_files.reason(error)}); nothing was "
            "left there."
        ) from None
    return path


def _write(saved: Any, folder: Path) -> None:  # noqa: ANN401  a part, or a plan of several columns
    """Write what is saved into an empty folder."""
    arrays: Arrays = {}
    is_whole = saved.saved_as == MomentComponent.saved_as
    if is_whole:
        saved = saved.with_lower_bound()
        fixed = {("occupancy",): saved.occupancy, **_OF_RECORDS}
        records = {"occupancy": _occupancy_words(saved.occupancy, arrays)}
    else:
        fixed, records = _given(saved.facts), {"records": _identities(saved.facts)}
    words: Words = {
        "format": FORMAT,
        "hexveil": importlib.metadata.version("hexveil"),
        "goes_with": GOES_WITH,
        "figures": saved.to_json() | {"epsilon": decimal_text(saved.epsilon)},
        **records,
        "plan": Codec(arrays, fixed).pack(saved),
    }
    tables = {name: getattr(saved, figure, None) for name, figure in TABLES.items()}
    for name, table in tables.items() if is_whole else ():
        pyarrow.parquet.write_table(table, folder / name, compression="zstd")
    arrays[BOOKED] = saved.booked_losses
    (folder / ARRAYS).write_bytes(pack_bytes({}, arrays))
    words["digest"] = digest(words, folder)
    text = json.dumps(words, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    (folder / WORDS).write_text(text, "utf-8")


def _occupancy_words(occupancy: Occupancy, arrays: Arrays) -> Words:
    """Return the counts of all pairs; of pairs elsewhere their identity alone."""
    if occupancy.is_local:
        words: Words = Codec(arrays).pack(occupancy.local(), ("occupancy",))
        return words | {"fingerprint": occupancy.fingerprint}
    return {DISTRIBUTED: True, "fingerprint": occupancy.fingerprint}


def _given(facts: PublicMetadata | ColumnFacts) -> dict[Place, Any]:
    """Return by path the fields that records give."""
    given: dict[Place, Any] = {("facts",): facts}
    if isinstance(facts, ColumnFacts):
        for column, own in facts.columns.items():
            given |= {("plans", column, *path): value for path, value in _given(own).items()}
        return given
    scored = ("component", "plan", "facts")
    return given | {("occupancy",): facts.occupancy, scored: score_metadata(facts)}


def _identities(facts: PublicMetadata | ColumnFacts) -> Words:
    """Return the identity of the records of each value column."""
    columns = facts.columns if isinstance(facts, ColumnFacts) else {facts.value: facts}
    return {column: _identity(own) for column, own in columns.items()}


def _identity(facts: PublicMetadata) -> Words:
    names = json.dumps(list(facts.cells.names())).encode()
    return {
        "fingerprint": facts.occupancy.fingerprint,
        "bounds": [decimal_text(facts.lattice.lower), decimal_text(facts.lattice.upper)],
        "quantum": decimal_text(facts.lattice.quantum),
        "privacy_unit": facts.privacy_unit,
        "cells": hashlib.sha256(names).hexdigest(),
        "bins": None if facts.bins is None else facts.bins.identity(),
    }


def digest(words: Words, folder: Path) -> str:
    """Return the SHA-256 of the contents of plan.json but "digest", and of all other files."""
    total = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for file in sorted(folder.iterdir()):
        if file.name != WORDS:
            content = _bytes_of(file)
            # Lengths first, so that no two folders share the hashed bytes.
            total.update(json.dumps([file.name, len(content)]).encode() + content)
    return total.hexdigest()


def check_new(path: Path) -> None:
    """Refuse a folder that exists, or that cannot be made."""
    try:
        if path.exists() or path.is_symlink():
            raise InputError(f"{path} exists; a saved plan is never changed: name a new folder.")
        atomic_files.check_writable(path)
    except OSError as error:
        raise InputError(
            f"the folder {path} cannot be made ({atomic_files.reason(error)}); name one in a "
            "folder that exists and that you may write."
        ) from None


# ---- reading ----


def needs_records(folder: str | Path) -> bool:
    """Return whether the plan in a folder is loaded with its records.

    So are plans of pairs that do not fit in memory (see `load`), plans of distributions, and of
    several value columns.
    """
    words = read_words(Path(folder))
    counts = words.get("occupancy")
    return not isinstance(counts, dict) or counts.get(DISTRIBUTED) is True


def load(folder: str | Path, source: Source = None) -> Plan:
    """Return the plan that a folder holds: see `Plan.load`.

    Parameters
    ----------
    folder : str or Path
    source : Occupancy, PublicMetadata or ColumnFacts, optional
        Of the records that were planned.

    Raises
    ------
    InputError
        If it was edited, or holds what no plan has, or lacks its records.
    StorageError
        If a file cannot be read.
    """
    path = Path(folder)
    words, file = read_words(path), path / ARRAYS
    try:
        arrays = unpack_bytes(_bytes_of(file))[1]
    except StorageError:
        if file.is_file():
            _damaged(file, "is not a file of arrays that can be read")
        raise
    # Numbers can be beyond all doubles: losses are infinite then, and refused.
    with _understood(path), np.errstate(all="ignore"):
        if words.pop("digest", None) != digest(words, path):
            raise InputError(
                "it was edited after it was saved: its contents do not have the digest that "
                f"{WORDS} states; plan and save again."
            )
        # The digest is no secret: a stranger can make one that fits, so all below is checked.
        if "records" in words:
            kind, fixed = KINDS[words["plan"]["is"]], _given(_same_records(words, source))
        else:
            counts: Any = source
            counts = getattr(counts, "occupancy", counts)
            occupancy = _occupancy(words["occupancy"], arrays, counts)
            kind, fixed = MomentComponent, {("occupancy",): occupancy, **_OF_RECORDS}
        saved = Codec(arrays, fixed).unpack(kind, words["plan"])
        is_booked = np.allclose(saved.booked_losses, arrays[BOOKED], LOSS_DIGITS, 0.0)
        if not is_booked or not _is_stated(words["figures"]["epsilon"], saved.epsilon):
            raise InputError("it states a loss that its decisions do not have.")
        return plan_of(saved)


def _same_records(words: Words, source: Source) -> PublicMetadata | ColumnFacts:
    """Return the records of the plan; refuse others."""
    stated = words["records"]
    if not isinstance(source, (PublicMetadata, ColumnFacts)):
        raise InputError("load it with the records, read as for it: hv.Plan.load(folder, dataset).")
    expected = _identities(source)
    is_plain = isinstance(source, PublicMetadata) and words["plan"]["is"] != Plan.saved_as
    if is_plain and len(stated) == 1:
        stated = dict.fromkeys(expected, *stated.values())
    if set(stated) != set(expected):
        raise InputError("it was made for other value columns than were read.")
    for column, identity in expected.items():
        for name, fact in _DIFFERENCES.items():
            if stated[column][name] != identity[name]:
                raise InputError(f"it was made for other records, which differ in {fact}.")
    return source


def _occupancy(words: Words, arrays: Arrays, elsewhere: Occupancy | None) -> Occupancy:
    """Return the counts of the folder; where their pairs are elsewhere, those that were given."""
    fingerprint = words.pop("fingerprint")
    if not words.get(DISTRIBUTED, False):
        counts: Occupancy = Codec(arrays).unpack(LocalOccupancy, words, ("occupancy",))
        if fingerprint != counts.fingerprint:
            raise InputError("it states the fingerprint of other counts than it has.")
        return counts
    if not isinstance(elsewhere, Occupancy):
        raise InputError(
            "its pairs of cells and users are not in the folder, because they did not fit in "
            "memory; read the records as they were read then and load hv.Plan.load(folder, "
            "dataset.occupancy)."
        )
    if elsewhere.fingerprint != fingerprint:
        raise InputError(
            "it was made for other records, or for these with all pairs in memory; plan and save "
            "again, or read them as they were read then (memory)."
        )
    return elsewhere


def _is_stated(epsilon: str, loss: Fraction) -> bool:
    """Return whether a folder states this loss, but for late digits."""
    numerator, _, denominator = epsilon.partition("/")
    return math.isclose(float(numerator) / float(denominator or 1), loss, rel_tol=LOSS_DIGITS)


def read_words(path: Path) -> Words:
    """Return the contents of a folder's plan.json, in the format of this version."""
    if not path.is_dir():
        raise InputError(f"{path} is not a folder; name the folder of a saved plan.")
    file = path / WORDS
    text = _bytes_of(file)
    try:
        # Python reads NaN and Infinity, which are no JSON, and which comparisons let through.
        words = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        _damaged(file, "is not JSON text")
    if not isinstance(words, dict) or "format" not in words:
        _damaged(file, "does not say the format of a saved plan")
    if words["format"] != FORMAT:
        raise InputError(
            f"{file} has format {words['format']!r}, saved by hexveil {words.get('hexveil')}, and "
            f"this version reads format {FORMAT}; plan and save again, or use that version."
        )
    return words


def _no_constant(word: str) -> NoReturn:
    raise ValueError(word)


def _bytes_of(file: Path) -> bytes:
    """Return the bytes of a file of a saved plan; InputError where it is missing."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{file} is missing; plan and save again.") from None
    except OSError as error:
        raise StorageError(
            f"{file} cannot be read ({error.strerror or type(error).__name__})."
        ) from None


def _damaged(file: Path, what: str) -> NoReturn:
    """Raise InputError for a file that is no part of a saved plan."""
    raise InputError(f"{file} {what}; plan and save again.") from None


@contextlib.contextmanager
def _understood(path: Path) -> Iterator[None]:
    """Turn errors that a stranger's text can cause into one sentence."""
    try:
        yield
    except InputError as error:
        raise InputError(f"the plan in {path} is not a valid one: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        _damaged(path / WORDS, "lacks a field of a saved plan, or has one of another kind")
