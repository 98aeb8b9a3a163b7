"""Folder of a saved plan: all that is public about it, for review before it is released.

plan.json has the request, the cost, the public metadata of the records, and the digest of all
contents. cells.parquet and users.parquet have the rows that `Plan.table` and `Plan.users` show and
beside them the exact arrays of the plan's decisions (plan_codec.py); pairs.parquet has the counts
of each (cell, user) pair, unless these do not fit in memory: then the folder goes with the data set
that was planned, by the fingerprint of its counts, and pairs.parquet has the suppressed pairs alone
(`n` is 0 there: nothing of them counts). Numbers are doubles or integers as they are,
exact numbers are text.

Users are numbers, ids are not known here. Counts by pair are public by the promise, but they show
where the user of each number was: the folder is for reviewers, not for publication.

The digest finds edits; it is no signature. A release trusts a plan's arrays, so `load` checks them
as if a stranger had written them, and computes the losses anew from them: no edit can make a
release cheaper than it is. Noise too small for the lattice of the records is refused by the
release itself.
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
import pyarrow as pa
import pyarrow.parquet

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.base.rational import decimal_text
from hexveil.model.occupancy import LocalOccupancy
from hexveil.model.suppressed_pairs import SuppressedPairs
from hexveil.planning.guarantees.planning_problem import PlanningProblem
from hexveil.planning.lower_bounds import with_lower_bound
from hexveil.planning.serialization import (
    metadata_codec,
    plan_checks,
    plan_codec,
    request_codec,
)
from hexveil.planning.serialization.metadata_codec import numbers
from hexveil.planning.serialization.row_faults import TARGET, cell_faults, user_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.plan_data import PlanData
    from hexveil.planning.serialization.plan_codec import PlanT

    Words = dict[str, Any]
    Tables = dict[str, pa.Table]

FORMAT = 1
"""Number of this layout; it changes whenever a file or the meaning of a row changes."""
LOSS_DIGITS = 1e-4
"""Part of a loss by which another version's accountant may differ."""
WORDS = "plan.json"
TABLES = ("cells.parquet", "users.parquet", "pairs.parquet")
CELLS, USERS, PAIRS = TABLES
DISTRIBUTED = "distributed"
"""Word of plans with pairs that do not fit in memory: pairs.parquet has suppressed ones alone."""
DISTRIBUTION = "distribution"
"""Kind of plans of quantiles, shares and histograms: folders of another content."""
COLUMNS_KIND = "columns"
"""Kind of plans of several value columns: a folder for each column in it."""
COLUMNS = {
    "lower": (CELLS, "lower", pa.float64()),
    "upper": (CELLS, "upper", pa.float64()),
    "kept": (CELLS, "mean_kept", pa.int64()),
    "noise_records": (CELLS, "noise_records", pa.float64()),
    "variance_kept": (CELLS, "variance_kept", pa.int64()),
    "variance_noise": (CELLS, "variance_noise", pa.float64()),
    "own_noise": (CELLS, "own_noise", pa.float64()),
    "predicted_error": (CELLS, "predicted_error", pa.float64()),
    "factor": (USERS, "factor", pa.float64()),
    "weight_factor": (USERS, "weight_factor", pa.float64()),
    "weight_total": (CELLS, "weight_total", pa.float64()),
    "own_weight_factor": (USERS, "own_weight_factor", pa.float64()),
    "own_weight_total": (CELLS, "own_weight_total", pa.float64()),
    "class": (USERS, "class", pa.int64()),
    "class_weight": (USERS, "class_weight", pa.int64()),
    "dropped": (PAIRS, "dropped", pa.bool_()),
    "weight": (PAIRS, "weight", pa.int64()),
    "own_weight": (PAIRS, "own_weight", pa.int64()),
}
"""File, column and type of each array of the codec."""
NEEDED = {
    CELLS: ("cell", "lower", "upper", "mean_kept", "noise_records", "variance_kept",
            "variance_noise"),
    USERS: ("user", "factor", "loss"),
    PAIRS: ("cell", "user", "n"),
}  # fmt: skip
TYPES = {(file, column): kind for file, column, kind in COLUMNS.values()} | {
    (CELLS, "cell"): pa.string(),
    (CELLS, "hexagon"): pa.uint64(),
    (CELLS, "slot"): pa.int64(),
    (USERS, "user"): pa.int64(),
    (USERS, "loss"): pa.float64(),
    (PAIRS, "cell"): pa.int64(),
    (PAIRS, "user"): pa.int64(),
    (PAIRS, "n"): pa.int64(),
}
GOES_WITH = (
    "This plan is for the records of this occupancy alone. For other records, such as tomorrow's, "
    "keep the goal in a run file (TOML) and plan those records."
)


# ---- writing ----


def save(plan: PlanData, folder: str | Path) -> Path:
    """Write a plan into a new folder and return its path: see `Plan.save`."""
    path = Path(folder)
    plan = with_lower_bound(plan)
    words, tables = _words(plan), _tables(plan)
    words["digest"] = digest(words, tables)
    # Before the folder is touched: a mechanism that cannot be saved leaves nothing behind.
    text = json.dumps(words, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    check_new(path)
    try:
        with atomic_files.folder(path) as temporary:
            for name, table in tables.items():
                pa.parquet.write_table(table, temporary / name, compression="zstd")
            (temporary / WORDS).write_text(text, "utf-8")
    except OSError as error:
        raise StorageError(
            f"the plan could not be saved to {path} ({atomic_files.reason(error)}); nothing was "
            "left there."
        ) from None
    return path


def digest(words: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> str:
    """Return the SHA-256 of the contents of a plan's files, whatever their bytes.

    Parameters
    ----------
    words : mapping
        Contents of plan.json, without "digest".
    tables : mapping of file name to Table
    """
    total = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for name in TABLES:
        for column in tables[name].column_names:
            values = tables[name][column].combine_chunks()
            # Lengths and types first, so that no two folders share the hashed bytes.
            head = [name, column, str(values.type), len(values), values.null_count]
            total.update(json.dumps(head).encode())
            total.update(_canonical(values))
    return total.hexdigest()


def _canonical(values: pa.Array) -> bytes:
    """Return bytes that equal columns share: little-endian numbers, or JSON of anything else."""
    # Arrow's own buffers keep offsets, padding and whatever stands under a null.
    is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if values.null_count or not (is_number or pa.types.is_boolean(values.type)):
        return json.dumps(values.to_pylist(), default=str).encode()
    array = values.to_numpy(zero_copy_only=False)
    return bytes(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())


def _words(plan: PlanData) -> Words:
    """Return the contents of plan.json, without the digest."""
    occupancy = plan.occupancy
    figures = {
        "epsilon": decimal_text(plan.epsilon),
        "epsilon_shown": float(plan.epsilon),
        "mean_error": plan.expected_error,
        "max_error": plan.worst_case_error,
        "gap": plan.gap,
        "baseline_error": plan.baseline_error,
    }
    decisions = plan_codec.decision_words(plan.allocation, decimal_text)
    # A reviewer reads no kind of a bound that was not computed.
    decisions["certifies"] = plan.bound_kind
    return {
        "format": FORMAT,
        "hexveil": importlib.metadata.version("hexveil"),
        "goes_with": GOES_WITH,
        "request": request_codec.request_words(plan.request),
        "plan": figures | decisions,
        "occupancy": {
            "cells": occupancy.n_cells,
            "users": occupancy.n_users,
            "pairs": occupancy.n_pairs,
            "fingerprint": occupancy.fingerprint,
        }
        | ({} if occupancy.is_local else {DISTRIBUTED: True}),
        "records": None if plan.facts is None else metadata_codec.metadata_words(plan.facts),
    }


def _tables(plan: PlanData) -> Tables:
    """Return the tables of the folder by file name: figures first, then the exact arrays."""
    tables = {CELLS: plan.table, USERS: plan.users, PAIRS: _pairs_table(plan)}
    arrays = plan_codec.arrays_of(plan)
    for name, (file, column, kind) in COLUMNS.items():
        if name in arrays and column not in tables[file].column_names:
            values = pa.array(arrays[name], type=kind)
            tables[file] = tables[file].append_column(column, values)
    columns = {
        TARGET + name: pa.array(goal, type=pa.float64())
        for name, goal in (plan.request.target or {}).items()
    }
    if plan.facts is not None:
        columns |= metadata_codec.place_columns(plan.facts)
    for column, values in columns.items():
        tables[CELLS] = tables[CELLS].append_column(column, values)
    return tables


def _pairs_table(plan: PlanData) -> pa.Table:
    """Return the counts of all pairs; where they stay elsewhere, the suppressed ones alone."""
    if plan.occupancy.is_local:
        local = plan.occupancy.local()
        return pa.table({"cell": local.cell, "user": local.user, "n": local.n})
    suppressed = plan.allocation.suppressed_pairs
    if isinstance(suppressed, SuppressedPairs):
        are_dropped = np.ones(suppressed.cell.size, dtype=bool)
        columns = {"cell": suppressed.cell, "user": suppressed.user}
        return pa.table(columns | {"n": 0 * suppressed.cell, "dropped": are_dropped})
    nothing = pa.array([], type=pa.int64())
    return pa.table({"cell": nothing, "user": nothing, "n": nothing})


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
    if is_distribution(words) or has_several(words):
        return True
    counts = words.get("occupancy")
    return isinstance(counts, dict) and counts.get(DISTRIBUTED) is True


def is_distribution(words: Mapping[str, Any]) -> bool:
    """Return whether the words of a folder are those of a plan of distributions."""
    return words.get("kind") == DISTRIBUTION


def has_several(words: Mapping[str, Any]) -> bool:
    """Return whether the words of a folder are those of a plan of several value columns."""
    return words.get("kind") == COLUMNS_KIND


def stated_digest(folder: Path) -> str:
    """Return the digest that a folder states of its contents."""
    return str(read_words(folder).get("digest"))


def load(folder: str | Path, plan_type: type[PlanT], elsewhere: Occupancy | None = None) -> PlanT:
    """Return the plan that a folder holds, built by `plan_type`: see `Plan.load`.

    Parameters
    ----------
    folder : str or Path
    plan_type : type
    elsewhere : Occupancy, optional
        Where the plan's pairs are, if they do not fit in memory.
    """
    path = Path(folder)
    words = read_words(path)
    if has_several(words):
        raise InputError(
            f"the plan in {path} is of several value columns; load it with "
            "hv.ColumnPlans.load(folder, dataset), for records read with these columns."
        )
    if is_distribution(words):
        raise InputError(
            f"the plan in {path} has quantiles, shares or a histogram; load it with "
            "hv.DistributionPlan.load(folder, dataset)."
        )
    tables = {name: _read_table(path / name) for name in TABLES}
    if words.pop("digest", None) != digest(words, tables):
        raise InputError(
            f"the plan in {path} was edited after it was saved: its contents do not have the "
            f"digest that {WORDS} states; plan and save again."
        )
    # The digest is no secret: a stranger can make one that fits, so everything below is checked.
    _refuse(path / CELLS, cell_faults(tables[CELLS]))
    _refuse(path / USERS, user_faults(tables[USERS]))
    with _understood(path):
        plan = plan_type(**_fields(words, tables, elsewhere))
    _check_stated(path, words, plan, tables)
    return plan


def read_words(path: Path) -> Words:
    """Return the contents of a folder's plan.json, in the known format."""
    if not path.is_dir():
        raise InputError(f"{path} is not a folder; name the folder of a saved plan.")
    file = path / WORDS
    text = _read(file)
    try:
        # Python reads NaN and Infinity, which are no JSON, and which comparisons let through.
        words = json.loads(text, parse_constant=_no_constant)
    except ValueError:
        _damaged(file, "is not JSON text")
    if not isinstance(words, dict) or "format" not in words:
        _damaged(file, "does not say the format of a saved plan")
    if words["format"] != FORMAT:
        raise InputError(
            f"{file} has format {words['format']!r}, saved by hexveil {words.get('hexveil')}, and "
            f"this hexveil reads format {FORMAT}; use that version, or plan and save again."
        )
    return words


def _no_constant(word: str) -> NoReturn:
    raise ValueError(word)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{file} is missing; a saved plan has {WORDS}, {', '.join(TABLES)}: plan and save "
            "again."
        ) from None
    except OSError as error:
        raise StorageError(
            f"{file} cannot be read ({error.strerror or type(error).__name__})."
        ) from None


def _damaged(file: Path, what: str) -> NoReturn:
    raise InputError(f"{file} {what}; plan and save again.")


def _read_table(file: Path) -> pa.Table:
    """Return the table of a file that has the columns of a saved plan, without gaps."""
    data = _read(file)
    try:
        # From memory: the bytes that are checked are the bytes that are used.
        table = pa.parquet.ParquetFile(pa.BufferReader(data)).read()
    except (pa.ArrowException, OSError, ValueError):
        _damaged(file, "is not a Parquet file that can be read")
    names = table.column_names
    # A reader by name would see one of the two, a reader by position the other.
    if len(set(names)) < len(names):
        _damaged(file, "has two columns of one name")
    for name in NEEDED[file.name]:
        if name not in names:
            _damaged(file, f"has no column {name}")
    for name in names:
        kind = _type_of(file.name, name)
        if kind is not None and table.schema.field(name).type != kind:
            _damaged(file, f"has a column {name} of {table.schema.field(name).type}, not {kind}")
        if table[name].null_count:
            _damaged(file, f"has empty places in the column {name}")
    return table


def _type_of(file: str, column: str) -> pa.DataType | None:
    """Return the type a column must have; None where nothing is read from it."""
    if file == CELLS and column.startswith((TARGET, metadata_codec.LABEL)):
        return pa.float64() if column.startswith(TARGET) else pa.string()
    return TYPES.get((file, column))


def _refuse(file: Path, faults: Iterator[tuple[str, NDArray[np.bool_]]]) -> None:
    """Refuse numbers that no plan has, naming the first row that has one."""
    for names, wrong in faults:
        if wrong.any():
            _damaged(file, f"{names} in row {int(np.argmax(wrong))}")


@contextlib.contextmanager
def _understood(path: Path) -> Iterator[None]:
    """Turn errors that a stranger's text can cause into one sentence."""
    try:
        yield
    except InputError as error:
        raise InputError(f"the plan in {path} is not a valid one: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        _damaged(path / WORDS, "lacks a field of a saved plan, or has one of another kind")


def _occupancy(words: Words, tables: Tables, elsewhere: Occupancy | None) -> Occupancy:
    """Return the counts of the folder; where their pairs are elsewhere, those that were given."""
    cells, users, pairs = (tables[name] for name in TABLES)
    if not words["occupancy"].get(DISTRIBUTED, False):
        return LocalOccupancy(
            cell=numbers(pairs, "cell"),
            user=numbers(pairs, "user"),
            n=numbers(pairs, "n"),
            n_cells=cells.num_rows,
            n_users=users.num_rows,
        )
    if elsewhere is None:
        raise InputError(
            "its pairs of cells and users are not in the folder, because they did not fit in "
            "memory; read the records as they were read then and load hv.Plan.load(folder, "
            "dataset.occupancy)."
        )
    if elsewhere.fingerprint != words["occupancy"]["fingerprint"] or (
        (elsewhere.n_cells, elsewhere.n_users) != (cells.num_rows, users.num_rows)
    ):
        raise InputError(
            "it was made for other records, or for these with all pairs in memory; plan and save "
            "again, or read them as they were read then (memory, spark.hexveil.pairsOnDriver)."
        )
    return elsewhere


def _fields(words: Words, tables: Tables, elsewhere: Occupancy | None) -> dict[str, Any]:
    """Return the fields of the plan by name."""
    cells, decisions = tables[CELLS], words["plan"]
    occupancy = _occupancy(words, tables, elsewhere)
    arrays = {
        name: numbers(tables[file], column)
        for name, (file, column, _) in COLUMNS.items()
        if column in tables[file].column_names
    }
    if not occupancy.is_local and "dropped" in arrays:
        del arrays["dropped"]  # all of the rows
        arrays[plan_codec.DROPPED_CELL] = numbers(tables[PAIRS], "cell")
        arrays[plan_codec.DROPPED_USER] = numbers(tables[PAIRS], "user")
    if decisions["steps"] is not None:
        arrays["class_noise"] = np.array(decisions["steps"]["class_noise"], dtype=np.float64)
    targets = {
        name.removeprefix(TARGET): numbers(cells, name)
        for name in cells.column_names
        if name.startswith(TARGET)
    }
    facts, request = words["records"], request_codec.request_from(words["request"], targets)
    metadata = None if facts is None else metadata_codec.metadata_from(facts, occupancy, cells)
    span = arrays["upper"] - arrays["lower"]
    problem = PlanningProblem(occupancy, span, request, metadata)
    allocation = plan_codec.allocation_from(decisions, arrays, problem)
    plan_codec.check_stages(allocation, decisions)
    plan_checks.check_allocation(allocation, occupancy)
    plan_checks.check_kind(request, allocation, occupancy)
    return {
        "occupancy": occupancy,
        "lower": arrays["lower"],
        "upper": arrays["upper"],
        "allocation": allocation,
        "request": request,
        "baseline_error": _baseline_error(decisions["baseline_error"]),
        "facts": metadata,
    }


def _baseline_error(number: float) -> float:
    if not 0 < float(number) < float("inf"):
        raise InputError("its baseline error must be above 0 and finite.")
    return float(number)


def is_stated(epsilon: str, loss: Fraction) -> bool:
    """Return whether a folder states this loss, but for late digits."""
    numerator, _, denominator = epsilon.partition("/")
    stated = float(numerator) / float(denominator or 1)
    return math.isclose(stated, loss, rel_tol=LOSS_DIGITS)


def _check_stated(path: Path, words: Words, plan: PlanData, tables: Tables) -> None:
    """Refuse a folder with figures that differ from its rows."""
    with _understood(path):
        losses = np.allclose(plan.losses(), numbers(tables[USERS], "loss"), LOSS_DIGITS)
        stated = is_stated(words["plan"]["epsilon"], plan.epsilon)
        counted = words["occupancy"]["fingerprint"] == plan.occupancy.fingerprint
    if not counted:
        _damaged(path / WORDS, f"states the fingerprint of other counts than {PAIRS} has")
    if not losses or not stated:
        _damaged(path / WORDS, f"or {USERS} states a loss that the rows of the plan do not have")
