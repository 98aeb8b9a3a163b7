"""Plans as bytes in a ledger, and as folders for review: decisions, without facts of the records.

Here is the registry of the classes in plans: a kind of components is registered by its class, and
states what a goal and its records give (`fixed`). The ledger keeps decisions alone beside the
booking that pays for them: what the request and the records decide is given by a plan of the same
goal.

A folder also has the request, figures and tables for reviewers, and a digest of all files. It is
read with the records of the plan: others are refused by their identity. The digest finds edits; it
is no signature. A release trusts a plan, so that `load` checks it as if a stranger had written it,
and computes the losses anew: no edit can make a release cheaper than it is. Noise too small for the
lattice of the records is refused by the release itself.
"""

import contextlib
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn, get_args

import numpy as np
import pyarrow.parquet
from numpy.typing import NDArray

from hexveil.base import atomic_files
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError, StorageError
from hexveil.base.optional_packages import installed_version
from hexveil.base.rational import decimal_text, to_fraction
from hexveil.mechanisms import Baseline, CellMechanism, OptimalClipping, ThresholdMechanism, parse
from hexveil.mechanisms.looks.bounds import CellMechanisms, WithinBounds
from hexveil.mechanisms.looks.cell_ranges import PerCellRange
from hexveil.mechanisms.looks.cell_stages import CellRangeOutputs
from hexveil.mechanisms.looks.one_range import PrivateRange
from hexveil.mechanisms.looks.remembered_ranges import RememberedRanges
from hexveil.model import statistic_terms
from hexveil.model.declared_grid import ColumnFacts
from hexveil.model.pair_columns import FactoredWeights, SuppressedPairs
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning import allocation, distribution_measures, request
from hexveil.planning.codec import (
    CODERS,
    FORMAT,
    NAMES,
    STAND_INS,
    Arrays,
    Codec,
    Words,
    damaged,
    pack_bytes,
    unpack_bytes,
)
from hexveil.planning.codec import Path as Place
from hexveil.planning.distribution_component import DistributionComponent
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.optimizers.cell_mechanisms import OtherStagesError, SavedStages
from hexveil.planning.plan import Plan

KINDS: dict[str, type[Any]] = {
    kind.saved_as: kind for kind in (MomentComponent, DistributionComponent, Plan)
}
"""What is saved as a whole, by name: the component of one value column, or the plan of several.
Under private presence plans follow from declarations, and are not saved."""
_CLASSES = (
    request.Request, allocation.PlanAllocation,
    WithinBounds, PrivateRange, PerCellRange, RememberedRanges, SavedStages,
    CellRangeOutputs, FactoredWeights, SuppressedPairs, *KINDS.values(),
    allocation.PublishedShape, distribution_measures.ScorePlan, distribution_measures.BinPlan,
    distribution_measures.PricedCells,
    CellMechanism, ThresholdMechanism, Fraction, Mapping,
    statistic_terms.Quantile, statistic_terms.Share, statistic_terms.Histogram,
)  # fmt: skip
_ALIASES = {
    "Floats": Floats, "Ints": Ints, "Bools": Bools, "NDArray": NDArray,
    "Weights": FactoredWeights,
    "Term": statistic_terms.Term,
    "ClippingKind": WithinBounds | PrivateRange | PerCellRange | RememberedRanges | SavedStages,
    "PlanComponent": MomentComponent | DistributionComponent,
    "DistributionMeasure": distribution_measures.DistributionMeasure,
    # Given by the records.
    "Occupancy": Any, "PublicMetadata": Any, "ErrorModel": Any,
}  # fmt: skip
STAND_INS[CellMechanisms] = SavedStages.of
NAMES.update({kind.__name__: kind for kind in _CLASSES} | _ALIASES | KINDS)


def mechanism_word(mechanism: CellMechanism | ThresholdMechanism, _: Place) -> str:
    """Return a mechanism's text; InputError for one that its text does not bring back."""
    with contextlib.suppress(InputError):
        # A name may be borrowed: equality makes sure that what is read back plans the same.
        if mechanism_of(mechanism.name) == mechanism:
            return mechanism.name
    raise InputError(
        f"a saved plan's mechanism must be one of hexveil's, got {mechanism.name}; "
        "release such a plan without saving it."
    )


def mechanism_of(name: object, _: Place = ()) -> ThresholdMechanism | CellMechanism:
    """Return the mechanism of a text; InputError for one that there is not."""
    known = {one.name: one for one in (Baseline(), OptimalClipping())}
    return known[name] if name in known else parse(str(name))


_MECHANISM = (mechanism_word, mechanism_of)
_TERM = (lambda term, _: term.text, lambda text, _: statistic_terms.parse_statistics((text,))[1][0])
CODERS |= dict.fromkeys((CellMechanism, ThresholdMechanism), _MECHANISM)
CODERS |= dict.fromkeys(get_args(statistic_terms.Term), _TERM)


def saved_of(plan: Plan) -> Any:  # noqa: ANN401  one of KINDS
    """Return the saved part of a plan: the component of its one value column, or itself."""
    return plan.single if plan.is_single else plan


def plan_of(saved: Any) -> Plan:  # noqa: ANN401  one of KINDS
    """Return the plan that was saved as a component, or as itself."""
    return saved if type(saved) is Plan else Plan.of(saved)


# ---- bytes of decisions ----


def pack_decisions(plan: Plan) -> tuple[Words, Arrays]:
    """Return the decisions of a plan as words and arrays, without the request and the records."""
    arrays: Arrays = {}
    saved = saved_of(plan)
    return Codec(arrays, saved.fixed()).pack(saved), arrays


def encode(plan: Plan) -> bytes:
    """Return a plan's decisions as bytes: equal decisions have equal bytes but for the version."""
    return pack_bytes(*pack_decisions(plan))


def made_by(encoded: bytes) -> str:
    """Return the version of hexveil that encoded a plan."""
    return str(unpack_bytes(encoded)[0]["hexveil"])


def decode(encoded: bytes, like: Plan) -> Plan:
    """Return the encoded plan, for a plan of the same goal.

    Parameters
    ----------
    encoded : bytes
        As `encode` made them.
    like : Plan
        Of the same goal: its records, request and public facts are those of the encoded plan.

    Raises
    ------
    InputError
        If a later version of hexveil encoded it in a format unknown here.
    StorageError
        If it is damaged, or is not a plan of these counts.
    """
    saved = saved_of(like)
    header, arrays = unpack_bytes(encoded)
    try:
        with np.errstate(all="ignore"):  # of damaged numbers
            return plan_of(Codec(arrays, saved.fixed()).unpack(type(saved), header["plan"]))
    except OtherStagesError:  # what differs here from the machine of the plan is no damage
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise damaged() from None


# ---- folders ----

WORDS, ARRAYS, BOOKED = "plan.json", "arrays.bin", "booked"
TABLES = {"cells.parquet": "table", "users.parquet": "users"}
"""Figures for reviewers, by file name: attributes of a plan that may have them."""
LOSS_DIGITS = 1e-4
"""Part of a loss by which another version's accountant may differ."""
GOES_WITH = (
    "This plan is for the records of this occupancy alone, read as they were read for it. For "
    "other records, such as tomorrow's, keep the goal in a run file (TOML) and plan those records."
)
_DIFFERENCES = {
    "fingerprint": "who reported how often where (or in whether all pairs are in memory)",
    "bounds": "the bounds that they were read with",
    "quantum": "the quantum that they were read with",
    "privacy_unit": "the privacy unit",
    "cells": "the names of the cells",
    "bins": "the bins that they were counted by; read them with the plan's statistics",
}
"""What can differ, the most general first: a message names the cause, not its consequences."""


def save(plan: Plan, folder: str | Path) -> Path:
    """Write a plan into a new folder and return its path: see `Plan.save`."""
    path = Path(folder)
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists; a saved plan is never changed: name a new folder.")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path} cannot be made; name one in a folder that exists.")
    if plan.facts is None:
        raise InputError("a plan of a bare occupancy is not saved; plan the records as read.")
    try:
        with atomic_files.folder(path) as temporary:
            _write(saved_of(plan), temporary)
    except OSError as error:
        raise StorageError(
            f"the plan could not be saved to {path} ({atomic_files.reason(error)}); nothing was "
            "left there."
        ) from None
    return path


def _write(saved: Any, folder: Path) -> None:  # noqa: ANN401  one of KINDS
    """Write a component, or a plan of several columns, into an empty folder."""
    arrays: Arrays = {}
    saved = saved.with_lower_bound() if type(saved) is MomentComponent else saved
    words: Words = {
        "format": FORMAT,
        "hexveil": installed_version(),
        "goes_with": GOES_WITH,
        "figures": saved.to_json() | {"epsilon": decimal_text(saved.epsilon)},
        "records": _identities(saved.facts),
        "plan": Codec(arrays, _given(saved.facts)).pack(saved),
    }
    for name, figure in TABLES.items():
        if (table := getattr(saved, figure, None)) is not None:
            pyarrow.parquet.write_table(table, folder / name, compression="zstd")
    arrays[BOOKED] = saved.booked_losses
    (folder / ARRAYS).write_bytes(pack_bytes({}, arrays))
    words["digest"] = digest(words, folder)
    text = json.dumps(words, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    (folder / WORDS).write_text(text, "utf-8")


def _given(facts: PublicMetadata | ColumnFacts) -> dict[Place, Any]:
    """Return by path the fields that records give."""
    facts_by_path: dict[Place, Any] = {("facts",): facts}
    if isinstance(facts, ColumnFacts):
        for column, own in facts.columns.items():
            facts_by_path |= {
                ("plans", column, *path): value for path, value in _given(own).items()
            }
        return facts_by_path
    scored = ("component", "plan", "facts")
    of_scores = distribution_measures.score_metadata(facts)
    return facts_by_path | {("occupancy",): facts.occupancy, scored: of_scores}


def _identities(facts: PublicMetadata | ColumnFacts) -> Words:
    """Return the identity of the records, of several value columns of each."""
    columns = facts.columns if isinstance(facts, ColumnFacts) else {"": facts}
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


def load(folder: str | Path, source: PublicMetadata | ColumnFacts) -> Plan:
    """Return the plan that a folder holds, for its records: see `Plan.load`."""
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
        _refuse_other_records(words["records"], source)
        kind = KINDS[words["plan"]["is"]]
        saved = Codec(arrays, _given(source)).unpack(kind, words["plan"])
        stated = to_fraction(words["figures"]["epsilon"], "epsilon")
        is_booked = np.allclose(saved.booked_losses, arrays[BOOKED], LOSS_DIGITS, 0.0)
        if not is_booked or not math.isclose(stated, saved.epsilon, rel_tol=LOSS_DIGITS):
            raise InputError("it states a loss that its decisions do not have.")
        return plan_of(saved)


def _refuse_other_records(stated: Words, source: PublicMetadata | ColumnFacts) -> None:
    """Refuse records that are not those of the plan."""
    if not isinstance(source, (PublicMetadata, ColumnFacts)):
        raise InputError("load it with the records, read as for it: hv.Plan.load(folder, dataset).")
    expected = _identities(source)
    if set(stated) != set(expected):
        raise InputError("it was made for other value columns than were read.")
    for column, identity in expected.items():
        for name, fact in _DIFFERENCES.items():
            if stated[column][name] != identity[name]:
                raise InputError(f"it was made for other records, which differ in {fact}.")


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
