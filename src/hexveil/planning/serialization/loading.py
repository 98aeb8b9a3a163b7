"""Reading a saved plan: the same plan, or one sentence about the fault in the folder.

A release trusts a plan's rows, so they are checked here as if a stranger had written them: files,
format, digest, columns, ranges, and the loss, which is worked out again from the rows. What could
make noise too small for the lattice of the records is checked by the release itself.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from hexveil.accounting.error_model import has_single_record
from hexveil.base.errors import InputError, StorageError
from hexveil.base.rational import decimal_text
from hexveil.model.occupancy import LocalOccupancy
from hexveil.planning.allocation import PlanAllocation
from hexveil.planning.serialization.saved_words import (
    LABEL,
    TARGET,
    exact_of,
    facts_of,
    interval_of,
    numbers,
    one_of,
    request_of,
    steps_of,
)
from hexveil.planning.serialization.saving import EXACT, FORMAT, TABLES, WORDS, SavablePlan, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hexveil.planning.clipping_range.private_range import PrivateClippingRange

    Words = dict[str, Any]
    Tables = dict[str, pa.Table]

PlanT = TypeVar("PlanT", bound=SavablePlan)
CELLS, USERS, PAIRS = TABLES
NEEDED = {
    CELLS: {"cell": pa.string(), "lower": pa.float64(), "upper": pa.float64(), **EXACT},
    USERS: {"user": pa.int64(), "factor": pa.float64(), "loss": pa.float64()},
    PAIRS: {"cell": pa.int64(), "user": pa.int64(), "n": pa.int64()},
}
OPTIONAL = {
    CELLS: {"hexagon": pa.uint64(), "slot": pa.int64(), "own_noise": pa.float64()},
    USERS: {"class": pa.int64(), "class_weight": pa.int64()},
    PAIRS: {"dropped": pa.bool_(), "weight": pa.int64(), "own_weight": pa.int64()},
}
BEGINNINGS = {TARGET: pa.float64(), LABEL: pa.string()}
CERTIFIED = (None, "loss", "max error", "mean error")


def load(folder: str | Path, plan_type: Callable[..., PlanT]) -> PlanT:
    """Return the plan that a folder holds, built by `plan_type`: see `Plan.load`."""
    path = Path(folder)
    words = _words(path)
    tables = {name: _table(path / name) for name in TABLES}
    if words.pop("digest", None) != digest(words, tables):
        raise InputError(
            f"the plan in {path} was edited after it was saved: its contents do not have the "
            f"digest that {WORDS} states; plan and save again."
        )
    _refuse(path / CELLS, _cell_faults(tables[CELLS]))
    _refuse(path / USERS, _user_faults(tables[USERS]))
    plan = plan_type(**_fields(path, words, tables))
    with _understood(path):
        _check_interval(plan)
    _check_stated(path, words, plan, tables)
    return plan


def _words(path: Path) -> Words:
    """Return the contents of plan.json in the known format."""
    if not path.is_dir():
        raise InputError(f"{path} is not a folder; name the folder of a saved plan.")
    file = path / WORDS
    text = _read(file)
    try:
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


def _table(file: Path) -> pa.Table:
    """Return the table of a file that has the columns of a saved plan, without gaps."""
    data = _read(file)
    try:
        table = pa.parquet.ParquetFile(pa.BufferReader(data)).read()
    except (pa.ArrowException, OSError, ValueError):
        _damaged(file, "is not a Parquet file that can be read")
    names = table.column_names
    if len(set(names)) < len(names):
        _damaged(file, "has two columns of one name")
    for name in NEEDED[file.name]:
        if name not in names:
            _damaged(file, f"has no column {name}")
    for name in names:
        kind = _kind(file.name, name)
        if kind is not None and table.schema.field(name).type != kind:
            _damaged(file, f"has a column {name} of {table.schema.field(name).type}, not {kind}")
        if table[name].null_count:
            _damaged(file, f"has empty places in the column {name}")
    return table


def _kind(file: str, column: str) -> pa.DataType | None:
    """Return the type a column must have; None where nothing is read from it."""
    exact = NEEDED[file] | OPTIONAL[file]
    begun = [kind for beginning, kind in BEGINNINGS.items() if column.startswith(beginning)]
    return exact.get(column, begun[0] if begun and file == CELLS else None)


def _refuse(file: Path, faults: Iterator[tuple[str, NDArray[np.bool_]]]) -> None:
    """Refuse numbers that no plan has, naming the first row that has one."""
    for names, wrong in faults:
        if wrong.any():
            _damaged(file, f"{names} in row {int(np.argmax(wrong))}")


def _cell_faults(table: pa.Table) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield each possible fault of a cell, and its place."""
    lower, upper = numbers(table, "lower"), numbers(table, "upper")
    rise = np.isfinite(lower) & np.isfinite(upper) & (lower < upper)
    yield "has bounds that do not rise", ~rise
    for cap, noise in (("mean_kept", "noise_records"), ("variance_kept", "variance_noise")):
        maximum, scale = numbers(table, cap), numbers(table, noise)
        yield f"has a {cap} below 0", maximum < 0
        yield f"has a {noise} that is not a finite number", ~np.isfinite(scale)
        yield f"keeps records without noise ({noise})", (scale < 0) | ((scale == 0) & (maximum > 0))
    for name in table.column_names:
        if name.startswith(TARGET):
            yield f"has a {name} that is not above 0", ~(numbers(table, name) > 0)


def _user_faults(table: pa.Table) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield each possible fault of a user, and its place."""
    factor = numbers(table, "factor")
    yield "has a factor that is not from 0 to 1", ~((factor >= 0) & (factor <= 1))
    yield "does not number users in order", numbers(table, "user") != np.arange(table.num_rows)


@contextlib.contextmanager
def _understood(path: Path) -> Iterator[None]:
    """Turn errors that a stranger's text can cause into one sentence."""
    try:
        yield
    except InputError as error:
        raise InputError(f"the plan in {path} is not a valid one: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        _damaged(path / WORDS, "lacks a field of a saved plan, or has one of another kind")


def _fields(path: Path, words: Words, tables: Tables) -> dict[str, Any]:
    """Return the fields of the plan by name."""
    cells, users, pairs = (tables[name] for name in TABLES)
    with _understood(path):
        fields = words["plan"]
        occupancy = LocalOccupancy(
            cell=numbers(pairs, "cell"),
            user=numbers(pairs, "user"),
            n=numbers(pairs, "n"),
            n_cells=cells.num_rows,
            n_users=users.num_rows,
        )
        facts = words["records"]
        return {
            "occupancy": occupancy,
            "lower": numbers(cells, "lower"),
            "upper": numbers(cells, "upper"),
            "allocation": _rows(fields, tables),
            "request": request_of(words["request"], cells),
            "baseline_error": _positive(fields["baseline_error"]),
            "facts": None if facts is None else facts_of(facts, occupancy, cells),
        }


def _check_interval(made: SavablePlan) -> None:
    """Refuse an interval that was not asked for, or is for other statistics."""
    requested, interval = made.request.clipping_range, made.allocation.clipping_range
    there, squares = interval is not None, "variance" in made.request.noised
    known = has_single_record(made.occupancy)
    needless = made.request.noised == ("variance",) and bool(known.all())
    fits = requested == "auto" or (
        there == (requested in ("private", "two-stage") and not needless)
        and (made.allocation.two_stage is not None) == (requested == "two-stage")
    )
    if made.allocation.two_stage is not None:
        fits = fits and there and made.request.noised == ("mean",)
    if not fits or (interval is not None and (interval.radius is not None) != squares):
        raise InputError("its interval and its request do not fit together.")
    # The variance of one record is known, and has no noise.
    if there and squares and ((made.allocation.variance_noise > 0) == known).any():
        raise InputError("it has a cell without noise for its variance.")


def _rows(said: Words, tables: Tables) -> PlanAllocation:
    cells, users, pairs = (tables[name] for name in TABLES)
    bound = said["lower_bound"]
    return PlanAllocation(
        mechanism=str(said["mechanism"]),
        contribution_cap=numbers(cells, "mean_kept"),
        noise_scale_records=numbers(cells, "noise_records"),
        variance_cap=numbers(cells, "variance_kept"),
        variance_noise=numbers(cells, "variance_noise"),
        contribution_factor=numbers(users, "factor"),
        suppressed_pairs=numbers(pairs, "dropped") if "dropped" in pairs.column_names else None,
        cell_epsilon=exact_of(said["cell_epsilon"]),
        lower_bound=None if bound is None else float(bound),
        bound_kind=one_of(said["certifies"], CERTIFIED),
        clipping_range=None if said["interval"] is None else _interval(said["interval"], tables),
        two_stage=None if said["steps"] is None else steps_of(said["steps"], cells, users, pairs),
    )


def _interval(said: Words, tables: Tables) -> PrivateClippingRange:
    """Return the interval; every cell needs weights, and noise, to have a loss at all."""
    cells, _, pairs = (tables[name] for name in TABLES)
    decisions = interval_of(said, numbers(pairs, "weight"))
    weighed = np.bincount(
        numbers(pairs, "cell"), weights=decisions.weight, minlength=cells.num_rows
    )
    if not (weighed > 0).all() or not (numbers(cells, "noise_records") > 0).all():
        raise InputError("it has a cell without weights or without noise.")
    return decisions


def _check_stated(path: Path, words: Words, made: SavablePlan, tables: Tables) -> None:
    """Refuse a folder with figures that differ from its rows."""
    with _understood(path):
        losses = np.array_equal(made.losses(), numbers(tables[USERS], "loss"))
        stated = words["plan"]["epsilon"] == decimal_text(made.epsilon)
        counted = words["occupancy"]["fingerprint"] == made.occupancy.fingerprint
    if not counted:
        _damaged(path / WORDS, f"states the fingerprint of other counts than {PAIRS} has")
    if not losses or not stated:
        _damaged(path / WORDS, f"or {USERS} states a loss that the rows of the plan do not have")


def _positive(number: float) -> float:
    if not 0 < float(number) < float("inf"):
        raise InputError("its baseline error must be above 0 and finite.")
    return float(number)
