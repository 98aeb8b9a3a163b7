"""Folder of a saved plan of any kind: all that is public about it, for review before a release.

plan.json has the figures, the plan in words (plan_kinds.py), and the digest of all contents. A plan
of means and variances has the public metadata of the records there; cells.parquet and users.parquet
have the rows that `Plan.table` and `Plan.users` show and beside them the exact arrays of the
decisions; pairs.parquet has the counts of each (cell, user) pair, unless these do not fit in
memory: then the folder goes with the data set that was planned, by the fingerprint of its counts,
and pairs.parquet has the suppressed pairs alone (`n` is 0 there: nothing of them counts). The parts
of a plan of distributions or of several value columns are folders of their own in it; it is loaded
with the records. Numbers are doubles or integers as they are, exact numbers are text.

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
import re
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.base.rational import decimal_text
from hexveil.model.declared_grid import ColumnFacts
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.distribution.distribution_plan import DistributionPart
from hexveil.planning.moment_part import MomentPart
from hexveil.planning.plan import Plan
from hexveil.planning.serialization import plan_tables
from hexveil.planning.serialization.codec import (
    CODERS,
    FORMAT,
    Arrays,
    Codec,
    Coder,
    Words,
)
from hexveil.planning.serialization.codec import Path as Place
from hexveil.planning.serialization.plan_codec import KINDS, plan_of, saved_of
from hexveil.planning.serialization.plan_tables import CELLS, PAIRS, TABLES, USERS, WORDS, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction

    Tables = dict[str, pa.Table]
    Source = PublicMetadata | ColumnFacts | Occupancy | None

_PART = re.compile(r"moments|scores|column_[1-9]\d{0,5}")
_PARTS = {"moment_plan": "moments", "plan": "scores"}
LOSS_DIGITS = 1e-4
"""Part of a loss by which another version's accountant may differ."""
GOES_WITH = (
    "This plan is for the records of this occupancy alone, read as they were read for it. For "
    "other records, such as tomorrow's, keep the goal in a run file (TOML) and plan those records."
)


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


def _write(saved: Any, folder: Path) -> str:  # noqa: ANN401  a part, or a plan of several columns
    """Write what is saved into an empty folder, its parts into folders; return the digest."""
    columns: list[str] = []

    def component(own: Any, place: Place) -> Words:  # noqa: ANN401  a part
        # A column may have any name, so that its folder has its number.
        columns.append(place[-1])
        name = f"column_{len(columns)}" if place[0] == "plans" else _PARTS[place[-1]]
        (folder / name).mkdir()
        return {"folder": name, "digest": _write(own, folder / name)}

    has_tables = saved.saved_as == TABLED
    saved = saved.with_lower_bound() if has_tables else saved
    arrays: Arrays | None = {} if has_tables else None
    fixed: dict[Place, Any] = {("facts",): saved.facts}
    fixed = _fixed_beside_tables(saved) if has_tables else fixed
    words: Words = {
        "format": FORMAT,
        "hexveil": importlib.metadata.version("hexveil"),
        "goes_with": GOES_WITH,
        "figures": {"epsilon": decimal_text(saved.epsilon)}
        | _FIGURES.get(saved.saved_as, _json)(saved),
        **_RECORDS.get(saved.saved_as, _no_records)(saved),
        "plan": Codec(arrays, fixed, _coders(component)).pack(saved),
    }
    tables = plan_tables.tables_of(saved, arrays or {}) if has_tables else {}
    words["digest"] = plan_tables.digest(words, tables)
    for name, table in tables.items():
        pa.parquet.write_table(table, folder / name, compression="zstd")
    text = json.dumps(words, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    (folder / WORDS).write_text(text, "utf-8")
    return str(words["digest"])


def _coders(pack: Any, unpack: Any = None) -> dict[type, Coder]:  # noqa: ANN401  functions
    """Return how classes are written that are no words: texts, and parts as folders."""
    return CODERS | dict.fromkeys((MomentPart, DistributionPart), Coder(pack, unpack))


def _fixed_beside_tables(component: MomentPart) -> dict[Place, Any]:
    """Return fields that plan.json lacks: the counts are in the tables."""
    labels = None if component.facts is None else component.facts.cells.labels
    return _fixed_records(component.occupancy, labels)


def _fixed_records(occupancy: Occupancy, labels: Any) -> dict[Place, Any]:  # noqa: ANN401
    """Return the counts and labels that tables have, and fields that no folder has."""
    fixed: dict[Place, Any] = {("occupancy",): occupancy, ("facts", "cells", "labels"): labels}
    fixed |= {("facts", name): None for name in ("recount", "bins")}
    return fixed | {("facts", "id_space"): "", ("facts", "cells", "grid", "area"): None}


def _moment_figures(component: MomentPart) -> Words:
    """Return the figures that a reviewer reads."""
    return {
        "epsilon_shown": float(component.epsilon),
        "mean_error": component.expected_error,
        "max_error": component.worst_case_error,
        "gap": component.gap,
        # A reviewer reads no kind of a bound that was not computed.
        "certifies": component.bound_kind,
    }


def _json(saved: DistributionPart | Plan) -> Words:
    return saved.to_json() | {"epsilon": decimal_text(saved.epsilon)}


def _moment_records(component: MomentPart) -> Words:
    """Return the identity of the records."""
    counts = component.occupancy
    sizes = {"cells": counts.n_cells, "users": counts.n_users, "pairs": counts.n_pairs}
    spread = {} if counts.is_local else {plan_tables.DISTRIBUTED: True}
    return {"occupancy": sizes | {"fingerprint": counts.fingerprint} | spread}


def _no_records(_: Plan) -> Words:
    return {}


def _record_words(facts: PublicMetadata) -> Words:
    """Return the identity of the records of a plan of distributions."""
    names = json.dumps(list(facts.cells.names())).encode()
    return {
        "fingerprint": facts.occupancy.fingerprint,
        "bounds": [decimal_text(facts.lattice.lower), decimal_text(facts.lattice.upper)],
        "quantum": decimal_text(facts.lattice.quantum),
        "privacy_unit": facts.privacy_unit,
        "cells": hashlib.sha256(names).hexdigest(),
        "bins": None if facts.bins is None else facts.bins.identity(),
    }


TABLED = MomentPart.saved_as
"""What has tables in its folder."""
_FIGURES: dict[str, Callable[[Any], Words]] = {TABLED: _moment_figures}
_RECORDS: dict[str, Callable[[Any], Words]] = {
    TABLED: _moment_records,
    DistributionPart.saved_as: lambda component: {"records": _record_words(component.facts)},
}
_DIFFERENCES = {
    "fingerprint": "who reported how often where",
    "bounds": "the bounds that they were read with",
    "quantum": "the quantum that they were read with",
    "privacy_unit": "the privacy unit",
    "cells": "the names of the cells",
    "bins": "the bins that they were counted by; read them with the plan's statistics",
}
"""What can differ, the most general first: a message names the cause, not its consequences."""


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


def kind_of(words: Words) -> str:
    """Return the class of the plan that a folder holds, by the contents of its plan.json."""
    plan = words.get("plan")
    return str(plan.get("is")) if isinstance(plan, dict) else ""


def needs_records(folder: str | Path) -> bool:
    """Return whether the plan in a folder is loaded with its records.

    So are plans of pairs that do not fit in memory (see `load`), plans of distributions, and of
    several value columns.
    """
    words = read_words(Path(folder))
    counts = words.get("occupancy")
    is_spread = isinstance(counts, dict) and counts.get(plan_tables.DISTRIBUTED) is True
    return is_spread or kind_of(words) != "Plan"


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
    return plan_of(_load(Path(folder), source))


def _load(path: Path, source: Source) -> Any:  # noqa: ANN401  a part, or a plan of several columns
    """Return what was saved as a whole."""
    words = read_words(path)
    # Of any other kind the codec says what is wrong.
    stated = kind_of(words) if kind_of(words) in KINDS else TABLED
    needed, words_of_needed = _SOURCES.get(stated, _COUNTED)
    if not isinstance(source, needed):
        raise InputError(f"the plan in {path} {words_of_needed}: hv.Plan.load(folder, dataset).")
    has_tables = stated == TABLED
    tables = {name: plan_tables.read_table(path / name) for name in TABLES} if has_tables else {}
    # Numbers can be beyond all doubles: losses are infinite then, and refused.
    with _understood(path), np.errstate(all="ignore"):
        if words.pop("digest", None) != plan_tables.digest(words, tables):
            raise InputError(
                "it was edited after it was saved: its contents do not have the digest that "
                f"{WORDS} states; plan and save again."
            )
        # The digest is no secret: a stranger can make one that fits, so all below is checked.
        if has_tables:
            return _moment_part(words, tables, getattr(source, "occupancy", source))
        if "records" in words:
            _check_records(words["records"], cast("PublicMetadata", source))
        facts: Any = source
        coders = _coders(None, lambda word, place: _part(path, word, facts, place))
        saved = Codec(None, {("facts",): facts}, coders).unpack(KINDS[stated], words["plan"])
        if not _is_stated(words["figures"]["epsilon"], saved.epsilon):
            raise InputError("it states a loss that its decisions do not have.")
        return saved


_COUNTED = (
    PublicMetadata,
    "has quantiles, shares or histograms; load it with the records, read as for it",
)
_SOURCES: dict[str, tuple[Any, str]] = {
    TABLED: ((Occupancy, PublicMetadata, NoneType), "is loaded with its records or alone"),
    Plan.saved_as: (
        ColumnFacts,
        "is of several value columns; load it with the records, read as for it",
    ),
}
"""What each kind is loaded with; others with `_COUNTED`."""


def _part(path: Path, word: Words, facts: PublicMetadata | ColumnFacts, place: Place) -> Any:  # noqa: ANN401
    """Return a part, of the records at hand."""
    name = word["folder"]
    # By its pattern: another name could lead out of the folder.
    if not _PART.fullmatch(name) or read_words(path / name).get("digest") != word["digest"]:
        raise InputError(f"its part {place[-1]} is another one than was saved.")
    if isinstance(facts, ColumnFacts):
        if place[-1] not in facts.columns:
            raise InputError("it was made for other value columns than were read.")
        facts = facts.columns[place[-1]]
    return _load(path / name, facts)


def _check_records(words: Words, facts: PublicMetadata) -> None:
    """Refuse records that differ from those of the plan."""
    expected = _record_words(facts)
    for name, fact in _DIFFERENCES.items():
        if words[name] != expected[name]:
            raise InputError(f"it was made for other records, which differ in {fact}.")


def _moment_part(words: Words, tables: Tables, elsewhere: Occupancy | None) -> MomentPart:
    """Return the plan of means and variances that words and tables hold."""
    occupancy = plan_tables.occupancy_of(words, tables, elsewhere)
    fixed = _fixed_records(occupancy, plan_tables.labels_of(tables[CELLS]))
    plan = cast(
        "MomentPart",
        Codec(plan_tables.TableArrays(tables), fixed, CODERS).unpack(MomentPart, words["plan"]),
    )
    # Names are what a recipient reads; the release is about places.
    if plan.facts is not None and list(plan.names) != tables[CELLS]["cell"].to_pylist():
        raise InputError("the names of cells do not fit its places or labels.")
    if numbers(tables[USERS], "user").tolist() != list(range(occupancy.n_users)):
        raise InputError(f"{USERS} does not number users in order.")
    if words["occupancy"]["fingerprint"] != occupancy.fingerprint:
        raise InputError(f"it states the fingerprint of other counts than {PAIRS} has.")
    losses = np.allclose(plan.losses(), numbers(tables[USERS], "loss"), LOSS_DIGITS)
    if not losses or not _is_stated(words["figures"]["epsilon"], plan.epsilon):
        raise InputError(f"it or {USERS} states a loss that the rows of the plan do not have.")
    return plan


def _is_stated(epsilon: str, loss: Fraction) -> bool:
    """Return whether a folder states this loss, but for late digits."""
    numerator, _, denominator = epsilon.partition("/")
    return math.isclose(float(numerator) / float(denominator or 1), loss, rel_tol=LOSS_DIGITS)


def read_words(path: Path) -> Words:
    """Return the contents of a folder's plan.json, in a known format."""
    if not path.is_dir():
        raise InputError(f"{path} is not a folder; name the folder of a saved plan.")
    file = path / WORDS
    text = plan_tables.read_bytes(file)
    try:
        # Python reads NaN and Infinity, which are no JSON, and which comparisons let through.
        words = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        plan_tables.damaged_file(file, "is not JSON text")
    if not isinstance(words, dict) or "format" not in words:
        plan_tables.damaged_file(file, "does not say the format of a saved plan")
    if words["format"] != FORMAT:
        raise InputError(
            f"{file} has format {words['format']!r}, saved by hexveil {words.get('hexveil')}, and "
            f"this version reads format {FORMAT}; plan and save again, or use that version."
        )
    return words


def _no_constant(word: str) -> NoReturn:
    raise ValueError(word)


@contextlib.contextmanager
def _understood(path: Path) -> Iterator[None]:
    """Turn errors that a stranger's text can cause into one sentence."""
    try:
        yield
    except InputError as error:
        raise InputError(f"the plan in {path} is not a valid one: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        plan_tables.damaged_file(
            path / WORDS, "lacks a field of a saved plan, or has one of another kind"
        )
