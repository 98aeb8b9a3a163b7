"""Decisions of a plan as bytes: kept in a ledger beside the booking that pays for them.

Kept is what a solver decided (`PlanAllocation`, bounds), not the occupancy, of which the goal has
the fingerprint. Arrays are little-endian, with a JSON header before them; all of it is compressed.
Reading never runs code, and every number comes back as the double or the whole number it was.
"""

from __future__ import annotations

import importlib.metadata
import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.base.errors import InputError, StorageError
from hexveil.planning.allocation import PlanAllocation
from hexveil.planning.clipping_range.private_range import PrivateClippingRange
from hexveil.planning.clipping_range.two_stage_plan import TwoStagePlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.planning.plan import Plan

    Arrays = dict[str, NDArray[Any]]

FORMAT = 1
"""Number of this layout; it changes whenever the meaning of a field changes."""
_MAGIC = b"hexveil plan\n"
_SIZE = 8
_KINDS = {"f": "<f8", "i": "<i8", "b": "|b1"}


def encode(plan: Plan) -> bytes:
    """Return a plan's decisions as bytes: equal decisions have equal bytes but for the version."""
    rows, arrays = plan.allocation, _arrays(plan)
    chunks, fields = [], []
    for name, array in arrays.items():
        kind = _KINDS[array.dtype.kind]
        fields.append([name, kind, array.size])
        chunks.append(np.ascontiguousarray(array, dtype=kind).tobytes())
    header = {
        "format": FORMAT,
        "hexveil": importlib.metadata.version("hexveil"),
        "mechanism": rows.mechanism,
        "cell_epsilon": _text(rows.cell_epsilon),
        "lower_bound": None if rows.lower_bound is None else float(rows.lower_bound),
        "certifies": rows.bound_kind,
        "interval": None if rows.clipping_range is None else _interval_words(rows.clipping_range),
        "steps": None if rows.two_stage is None else _steps_words(rows.two_stage),
        "arrays": fields,
    }
    words = json.dumps(header, sort_keys=True).encode()
    scalars = len(words).to_bytes(_SIZE, "little") + words + b"".join(chunks)
    packed: bytes = pa.compress(scalars, codec="zstd", asbytes=True)
    return _MAGIC + len(scalars).to_bytes(_SIZE, "little") + packed


def made_by(kept: bytes) -> str:
    """Return the version of hexveil that made a kept plan."""
    return str(_opened(kept)[0]["hexveil"])


def decode(kept: bytes, like: Plan) -> Plan:
    """Return the plan that was kept, for a plan of the same goal.

    Parameters
    ----------
    kept : bytes
        As `encode` made them.
    like : Plan
        Of the same goal: its occupancy, request and public facts are those of the kept plan.

    Raises
    ------
    InputError
        If a later version of hexveil kept it in a format unknown here.
    StorageError
        If it is damaged, or is not a plan of these counts.
    """
    fields, arrays = _opened(kept)
    try:
        rows = PlanAllocation(
            mechanism=str(fields["mechanism"]),
            contribution_cap=arrays["kept"],
            noise_scale_records=arrays["noise_records"],
            variance_cap=arrays["variance_kept"],
            variance_noise=arrays["variance_noise"],
            contribution_factor=arrays["factor"],
            suppressed_pairs=arrays.get("dropped"),
            cell_epsilon=_exact(fields["cell_epsilon"]),
            lower_bound=fields["lower_bound"],
            bound_kind=fields["certifies"],
            clipping_range=_interval(fields["interval"], arrays),
            two_stage=_steps(fields["steps"], arrays),
        )
        _check_sizes(arrays, like)
        return replace(like, lower=arrays["lower"], upper=arrays["upper"], allocation=rows)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise _damaged() from None


def _arrays(plan: Plan) -> Arrays:
    """Return all arrays that decide a release, by name."""
    rows = plan.allocation
    arrays: Arrays = {
        "lower": plan.lower,
        "upper": plan.upper,
        "kept": rows.contribution_cap,
        "noise_records": rows.noise_scale_records,
        "variance_kept": rows.variance_cap,
        "variance_noise": rows.variance_noise,
        "factor": rows.contribution_factor,
    }
    if rows.suppressed_pairs is not None:
        arrays["dropped"] = rows.suppressed_pairs
    if rows.clipping_range is not None:
        arrays["weight"] = rows.clipping_range.weight
    if rows.two_stage is not None:
        names = ("class", "class_weight", "class_noise", "own_weight", "own_noise")
        arrays |= dict(zip(names, rows.two_stage.arrays(), strict=True))
    return arrays


def _check_sizes(arrays: Arrays, like: Plan) -> None:
    """Raise ValueError unless every array has an entry per cell, user or pair."""
    cells, users = like.occupancy.n_cells, like.occupancy.n_users
    per = {
        "factor": users,
        "class": users,
        "class_weight": users,
        "dropped": like.occupancy.n_pairs,
        "weight": like.occupancy.n_pairs,
        "own_weight": like.occupancy.n_pairs,
        "class_noise": int(arrays["class"].max()) + 1 if "class" in arrays else 0,
    }
    if any(array.size != per.get(name, cells) for name, array in arrays.items()):
        raise ValueError("of other counts")


def _opened(kept: bytes) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a kept plan."""
    start = len(_MAGIC) + _SIZE
    if not kept.startswith(_MAGIC) or len(kept) < start:
        raise _damaged()
    size = int.from_bytes(kept[len(_MAGIC) : start], "little")
    try:
        scalars = pa.decompress(kept[start:], size, codec="zstd", asbytes=True)
        end = _SIZE + int.from_bytes(scalars[:_SIZE], "little")
        decisions = dict(json.loads(scalars[_SIZE:end]))
        version = decisions["format"], decisions["hexveil"]
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
        return decisions, _read_arrays(decisions, scalars, end)
    except (LookupError, TypeError, ValueError, OverflowError):
        raise _damaged() from None


def _read_arrays(said: dict[str, Any], plain: bytes, end: int) -> Arrays:
    """Return the arrays that stand after the header; ValueError if they do not fill the rest."""
    arrays: Arrays = {}
    for name, kind, number in said["arrays"]:
        if kind not in _KINDS.values():
            raise ValueError("of another kind")
        arrays[name] = np.frombuffer(plain, kind, number, end).astype(np.dtype(kind[1:]))
        end += int(number) * np.dtype(kind).itemsize
    if end != len(plain):
        raise ValueError("of another size")
    return arrays


def _damaged() -> StorageError:
    return StorageError(
        "the plan that the ledger keeps for this request is damaged, so nothing was drawn; restore "
        "the ledger from a copy."
    )


def _interval_words(interval: PrivateClippingRange) -> dict[str, Any]:
    return {
        "epsilon": _text(interval.epsilon),
        "quantiles": [_text(one) for one in interval.quantiles],
        "stretch": _text(interval.widening),
        "width": float(interval.width),
        "clipped": float(interval.clipping_error),
        "radius": _text(interval.radius),
    }


def _interval(said: dict[str, Any] | None, arrays: Arrays) -> PrivateClippingRange | None:
    if said is None:
        return None
    low, high = (Fraction(one) for one in said["quantiles"])
    return PrivateClippingRange(
        Fraction(said["epsilon"]),
        (low, high),
        Fraction(said["stretch"]),
        float(said["width"]),
        float(said["clipped"]),
        arrays["weight"],
        radius=_exact(said["radius"]),
    )


def _steps_words(steps: TwoStagePlan) -> dict[str, Any]:
    return {"epsilon": _text(steps.epsilon), "stretch": _text(steps.widening)}


def _steps(said: dict[str, Any] | None, arrays: Arrays) -> TwoStagePlan | None:
    if said is None:
        return None
    return TwoStagePlan(
        Fraction(said["epsilon"]),
        Fraction(said["stretch"]),
        arrays["class"],
        arrays["class_weight"],
        arrays["class_noise"],
        arrays["own_weight"],
        arrays["own_noise"],
    )


def _text(number: Fraction | None) -> str | None:
    return None if number is None else str(number)


def _exact(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)
