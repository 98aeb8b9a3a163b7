"""Codec of plans: decisions as JSON words and named arrays.

Two carriers use it: `encode` and `decode` make the bytes that a ledger keeps beside the booking
that pays for a plan; plan_folder.py writes a folder for reviewers, with request and public metadata
beside them (request_codec.py, metadata_codec.py). The ledger keeps the decisions alone
(`PlanAllocation`, bounds), since the goal has the fingerprint of the occupancy.

Reading never runs code, and every number comes back as the double or the integer that it was.
What comes back from a folder is checked there; here a missing or misshapen field is a KeyError,
TypeError or ValueError.
"""

from __future__ import annotations

import importlib.metadata
import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np
import pyarrow as pa

from hexveil.base.errors import InputError, StorageError
from hexveil.model.factored_weights import FactoredWeights
from hexveil.model.suppressed_pairs import SuppressedPairs
from hexveil.planning import cell_mechanisms
from hexveil.planning.allocation import (
    CellMechanisms,
    Clipping,
    Normaliser,
    PerCellRange,
    PlanAllocation,
    PrivateRange,
    WithinBounds,
)
from hexveil.planning.clipping_range.cell_range_plan import CellRangePlan
from hexveil.planning.clipping_range.private_range import PrivateClippingRange
from hexveil.planning.plan_data import PlanData
from hexveil.planning.serialization.words import Words, one_of, optional

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hexveil.model.factored_weights import Weights
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.suppressed_pairs import Suppressed
    from hexveil.planning.guarantees.planning_problem import PlanningProblem

    Arrays = dict[str, NDArray[Any]]

PlanT = TypeVar("PlanT", bound=PlanData)
FORMAT = 1
"""Number of the bytes' layout; it changes whenever the meaning of a field changes."""
MAGIC = b"hexveil plan\n"
_SIZE_BYTES = 8
# Little-endian on every machine: the bytes of equal decisions are compared and hashed.
_DTYPES = {"f": "<f8", "i": "<i8", "b": "|b1"}
USER_FACTOR, CELL_TOTAL = "weight_factor", "weight_total"
"""Arrays of which weights are made where pairs stay elsewhere."""
DROPPED_CELL, DROPPED_USER = "dropped_cell", "dropped_user"
"""Arrays of suppressed pairs where pairs stay elsewhere: as many as there are."""
CERTIFIED = (None, "loss", "max error", "mean error")


# ---- decisions ----


def arrays_of(plan: PlanData) -> Arrays:
    """Return all arrays that decide a release, by name."""
    allocation = plan.allocation
    arrays: Arrays = {
        "lower": plan.lower,
        "upper": plan.upper,
        "kept": allocation.contribution_cap,
        "noise_records": allocation.noise_scale_records,
        "variance_kept": allocation.variance_cap,
        "variance_noise": allocation.variance_noise,
        "factor": allocation.contribution_factor,
    }
    for suppressed in allocation.suppressed:
        if isinstance(suppressed, SuppressedPairs):
            arrays |= {DROPPED_CELL: suppressed.cell, DROPPED_USER: suppressed.user}
        else:
            arrays["dropped"] = np.asarray(suppressed, dtype=bool)
    match allocation.clipping:
        case PrivateRange(range=clipping_range):
            arrays |= _weight_arrays(clipping_range.weight)
        case PerCellRange(plan=cell_ranges):
            arrays |= _weight_arrays(cell_ranges.weight)
        case CellMechanisms(predicted_error=predicted):
            arrays["predicted_error"] = predicted
    return arrays


def _weight_arrays(weight: Weights) -> Arrays:
    """Return the weights of pairs, or the factors that they are made of where pairs are blocks."""
    if isinstance(weight, FactoredWeights):
        return {USER_FACTOR: weight.factor, CELL_TOTAL: weight.total}
    return {"weight": weight}


def _weights_from(arrays: Arrays, occupancy: Occupancy) -> Weights:
    if USER_FACTOR in arrays:
        return FactoredWeights(occupancy, arrays[USER_FACTOR], arrays[CELL_TOTAL])
    return arrays["weight"]


def decision_words(allocation: PlanAllocation, text: Callable[[Fraction], str]) -> Words:
    """Return the decisions beside the arrays, with exact numbers as text."""
    bound = allocation.lower_bound
    # Words of these plans alone: those of all others, and their bytes, stay what they were.
    stages: Words = {}
    interval = None
    match allocation.clipping:
        case PrivateRange(range=clipping_range):
            interval = _range_words(clipping_range, text)
        case CellMechanisms(cells=cells):
            stages = {"stages": cell_mechanisms.digest(cells), "choices": list(cells.choices)}
        case PerCellRange(plan=cell_ranges):
            stages = {"cell_ranges": _cell_range_words(cell_ranges, text)}
    return stages | {
        "mechanism": allocation.mechanism,
        "cell_epsilon": optional(text, allocation.cell_epsilon),
        "lower_bound": None if bound is None else float(bound),
        "certifies": allocation.bound_kind,
        "interval": interval,
        "steps": None,
        # Absent otherwise: the digests of bookings made so far are of bytes without it.
        **({} if allocation.normaliser == "records" else {"normaliser": allocation.normaliser}),
    }


def _range_words(clipping_range: PrivateClippingRange, text: Callable[[Fraction], str]) -> Words:
    return {
        "epsilon": text(clipping_range.epsilon),
        "quantiles": [text(quantile) for quantile in clipping_range.quantiles],
        "stretch": text(clipping_range.widening),
        "width": float(clipping_range.width),
        "clipped": float(clipping_range.clipping_error),
        "radius": optional(text, clipping_range.radius),
    }


def _cell_range_words(plan: CellRangePlan, text: Callable[[Fraction], str]) -> Words:
    return {
        "histogram_loss": text(plan.histogram_loss),
        "spread_epsilon": text(plan.spread_epsilon),
        "first_share": text(plan.first_share),
    }


def allocation_from(words: Words, arrays: Arrays, problem: PlanningProblem) -> PlanAllocation:
    """Return the allocation of these words and arrays, for the problem that they answer."""
    if "stages" in words:
        choices = tuple(str(choice) for choice in words["choices"])
        return cell_mechanisms.rebuild(
            problem, Fraction(words["cell_epsilon"]), choices, arrays["predicted_error"]
        )
    bound = words["lower_bound"]
    return PlanAllocation(
        mechanism=str(words["mechanism"]),
        contribution_cap=arrays["kept"],
        noise_scale_records=arrays["noise_records"],
        variance_cap=arrays["variance_kept"],
        variance_noise=arrays["variance_noise"],
        contribution_factor=arrays["factor"],
        suppressed_pairs=_suppressed_from(arrays, problem.occupancy),
        cell_epsilon=optional(Fraction, words["cell_epsilon"]),
        normaliser=one_of(words.get("normaliser", "records"), get_args(Normaliser)),
        lower_bound=None if bound is None else float(bound),
        bound_kind=one_of(words["certifies"], CERTIFIED),
        clipping=_clipping_from(words, arrays, problem.occupancy),
    )


def _suppressed_from(arrays: Arrays, occupancy: Occupancy) -> Suppressed | None:
    """Return the suppressed pairs; a list of them where pairs stay elsewhere."""
    if DROPPED_CELL not in arrays:
        return arrays.get("dropped")
    rows = arrays[DROPPED_CELL], arrays[DROPPED_USER]
    return SuppressedPairs(*rows, occupancy.n_cells, occupancy.n_users)


def _clipping_from(words: Words, arrays: Arrays, occupancy: Occupancy) -> Clipping:
    interval = words["interval"]
    if "cell_ranges" in words:
        weight = _weights_from(arrays, occupancy)
        return PerCellRange(_cell_range_plan(words["cell_ranges"], weight))
    if interval is None:
        return WithinBounds()
    low, high = (Fraction(quantile) for quantile in interval["quantiles"])
    clipping_range = PrivateClippingRange(
        epsilon=Fraction(interval["epsilon"]),
        quantiles=(low, high),
        widening=Fraction(interval["stretch"]),
        width=float(interval["width"]),
        clipping_error=float(interval["clipped"]),
        weight=_weights_from(arrays, occupancy),
        radius=optional(Fraction, interval["radius"]),
    )
    return PrivateRange(clipping_range)


def _cell_range_plan(words: Words, weight: Weights) -> CellRangePlan:
    return CellRangePlan(
        histogram_loss=Fraction(words["histogram_loss"]),
        spread_epsilon=Fraction(words["spread_epsilon"]),
        first_share=Fraction(words["first_share"]),
        weight=weight,
    )


# ---- bytes for the ledger ----


def encode(plan: PlanData) -> bytes:
    """Return a plan's decisions as bytes: equal decisions have equal bytes but for the version."""
    # Arrays after the header, not in it: JSON of doubles is longer and slower, not more exact.
    chunks, fields = [], []
    for name, array in arrays_of(plan).items():
        dtype = _DTYPES[array.dtype.kind]
        fields.append([name, dtype, array.size])
        chunks.append(np.ascontiguousarray(array, dtype=dtype).tobytes())
    # str and not decimal_text: the digests of bookings made so far are of ratios.
    header = decision_words(plan.allocation, str) | {
        "format": FORMAT,
        "hexveil": importlib.metadata.version("hexveil"),
        "arrays": fields,
    }
    words = json.dumps(header, sort_keys=True).encode()
    content = len(words).to_bytes(_SIZE_BYTES, "little") + words + b"".join(chunks)
    # One codec, one level: other settings would change the bytes of equal plans.
    packed: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return MAGIC + len(content).to_bytes(_SIZE_BYTES, "little") + packed


def made_by(encoded: bytes) -> str:
    """Return the version of hexveil that encoded a plan."""
    return str(_unpacked(encoded)[0]["hexveil"])


def decode(encoded: bytes, like: PlanT) -> PlanT:
    """Return the encoded plan, for a plan of the same goal.

    Parameters
    ----------
    encoded : bytes
        As `encode` made them.
    like : Plan
        Of the same goal: its occupancy, request and public facts are those of the encoded plan.

    Raises
    ------
    InputError
        If a later version of hexveil encoded it in a format unknown here.
    StorageError
        If it is damaged, or is not a plan of these counts.
    """
    words, arrays = _unpacked(encoded)
    plan = _decoded(words, arrays, like)
    # Outside: what differs here from the machine of the plan is no damage.
    check_stages(plan.allocation, words)
    return plan


def check_stages(allocation: PlanAllocation, words: Words) -> None:
    """Refuse stages that were rebuilt otherwise than the plan's words say."""
    match allocation.clipping:
        case CellMechanisms(cells=cells):
            cell_mechanisms.check_digest(cells, str(words["stages"]))


def _decoded(words: Words, arrays: Arrays, like: PlanT) -> PlanT:
    try:
        allocation = allocation_from(words, arrays, like.problem)
        _check_sizes(arrays, like)
        return replace(like, lower=arrays["lower"], upper=arrays["upper"], allocation=allocation)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise _damaged() from None


def _check_sizes(arrays: Arrays, like: PlanData) -> None:
    """Raise ValueError unless every array has an entry per cell, user or pair."""
    cells, users = like.occupancy.n_cells, like.occupancy.n_users
    per = {
        "factor": users,
        USER_FACTOR: users,
        "dropped": like.occupancy.n_pairs,
        **{name: arrays[name].size for name in (DROPPED_CELL, DROPPED_USER) if name in arrays},
        "weight": like.occupancy.n_pairs,
    }
    # By name alone a plan of another occupancy with as many cells would pass.
    if any(array.size != per.get(name, cells) for name, array in arrays.items()):
        raise ValueError("of other counts")


def _unpacked(encoded: bytes) -> tuple[Words, Arrays]:
    """Return the header and the arrays of an encoded plan."""
    start = len(MAGIC) + _SIZE_BYTES
    if not encoded.startswith(MAGIC) or len(encoded) < start:
        raise _damaged()
    size = int.from_bytes(encoded[len(MAGIC) : start], "little")
    try:
        content = pa.decompress(encoded[start:], size, codec="zstd", asbytes=True)
        end = _SIZE_BYTES + int.from_bytes(content[:_SIZE_BYTES], "little")
        words = dict(json.loads(content[_SIZE_BYTES:end]))
        version = words["format"], words["hexveil"]
    # A damaged size can ask for more memory than there is.
    except (
        pa.ArrowException, OSError, LookupError, TypeError, ValueError, OverflowError, MemoryError,
    ):  # fmt: skip
        raise _damaged() from None
    if version[0] != FORMAT:
        raise InputError(
            f"the plan that the ledger keeps for this request was written by hexveil {version[1]} "
            f"(format {version[0]}), and this version reads format {FORMAT}; use that version or a "
            "later one."
        )
    try:
        return words, _arrays_from(words, content, end)
    except (LookupError, TypeError, ValueError, OverflowError):
        raise _damaged() from None


def _arrays_from(words: Words, content: bytes, end: int) -> Arrays:
    """Return the arrays that stand after the header; ValueError if they do not fill the rest."""
    arrays: Arrays = {}
    for name, dtype, number in words["arrays"]:
        if dtype not in _DTYPES.values():
            raise ValueError("of another kind")
        # astype copies: views would keep all of the content, and are not aligned.
        arrays[name] = np.frombuffer(content, dtype, number, end).astype(np.dtype(dtype[1:]))
        end += int(number) * np.dtype(dtype).itemsize
    if end != len(content):
        raise ValueError("of another size")
    return arrays


def _damaged() -> StorageError:
    return StorageError(
        "the plan that the ledger keeps for this request is damaged, so nothing was drawn; restore "
        "the ledger from a copy."
    )
