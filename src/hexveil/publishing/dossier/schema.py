"""Schema of the manifest fields that a dossier uses.

The schema of a manifest says more; a dossier needs these fields, and checks their kind before it
puts them into sentences.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.model.public_metadata import UNITS
from hexveil.publishing.catalogue.holder_statements import Catalogue
from hexveil.report.accuracy_text import GRADES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Check = Callable[[Any], bool]

# Bounded, because int() of a very long text takes quadratic time.
_EXACT = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400}|/[0-9]{1,400})?")
_STATISTICS = {"mean", "variance", "sd"}
_BASES = {"posterior", "prediction", "worst case"}


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_optional_text(value: object) -> bool:
    return value is None or _is_text(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_count(value: object) -> bool:
    # A bool is an int in Python, and no count in JSON.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_number(value: object) -> bool:
    return _is_count(value) or (isinstance(value, float) and math.isfinite(value) and value >= 0)


def _is_exact(value: object) -> bool:
    if not isinstance(value, str) or not _EXACT.fullmatch(value):
        return False
    return "/" not in value or int(value.split("/")[1]) > 0


def _is_end(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _is_positive(value: object) -> bool:
    return _is_number(value) and isinstance(value, (int, float)) and value > 0


def _is_loss(value: object) -> bool:
    return _is_exact(value) and not str(value).startswith("-")


def _is_proper_fraction(value: object) -> bool:
    return _is_loss(value) and 0 < Fraction(str(value)) <= 1


def is_delta(value: object) -> bool:
    """Return whether a manifest's δ is a probability above 0 that a double holds."""
    return _is_proper_fraction(value) and float(Fraction(str(value))) > 0


def _is_share(value: object) -> bool:
    return _is_number(value) and isinstance(value, (int, float)) and value <= 1


def _is_factor(value: object) -> bool:
    return value is None or (_is_number(value) and isinstance(value, (int, float)) and value >= 1)


def _is_privacy_unit(value: object) -> bool:
    return isinstance(value, str) and value in UNITS


def _is_error(value: object) -> bool:
    if not isinstance(value, dict):
        return _is_number(value)
    return set(value) == {"mean", "variance"} and all(map(_is_number, value.values()))


def _is_mapping_of(is_valid: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(is_valid, value.values()))


def _is_hex_digest(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _is_grid(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    if value.get("kind") == "labels":
        return _are_texts(value.get("columns"))
    slots = _is_optional_text(value.get("timeslot")) and _is_optional_text(value.get("timezone"))
    pooled = value.get("slot") in ("calendar", "pooled")
    return (
        value.get("kind") == "hexagons" and _is_count(value.get("resolution")) and slots and pooled
    )


def _is_ledger_position(value: object) -> bool:
    if not isinstance(value, dict):
        return value is None
    return _is_count(value.get("entry")) and _is_hex_digest(value.get("chain"))


def _is_noised(value: object) -> bool:
    return (
        isinstance(value, dict)
        and _is_text(value.get("statistic"))
        and _is_number(value.get("bias"))
    )


def _are_steps(value: object) -> bool:
    """Return whether a value is a list of privacy steps with their results."""
    if not isinstance(value, list) or not all(map(_is_step, value)):
        return False
    names = tuple(step["step"] for step in value)
    # Constants have no step, public bounds one, a single private range two.
    one_range = "clipping_range", "cells"
    return names in ((), ("cells",), ("cell_stages",), one_range, *_CELL_RANGE_STEPS)


def _is_step(value: object) -> bool:
    """Return whether a value is a step of a known name, with its epsilon and its other fields."""
    if not isinstance(value, dict) or not isinstance(value.get("step"), str):
        return False
    needed = _STEPS.get(value["step"])
    if needed is None or not _is_loss(value.get("epsilon")) or not _is_share(value.get("share")):
        return False
    return all(is_valid(value.get(key)) for key, is_valid in needed.items())


def _are_ends(value: object) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(map(_is_end, value))


def _is_cell_stage(value: object) -> bool:
    """Return whether a value is a kind of stage of cells, with its cost."""
    return (
        isinstance(value, dict)
        and _is_text(value.get("stage"))
        and _is_count(value.get("cells"))
        and _is_loss(value.get("epsilon"))
    )


def _is_cell(value: object) -> bool:
    statistics = value.get("noised") if isinstance(value, dict) else None
    return isinstance(statistics, list) and bool(statistics) and all(map(_is_noised, statistics))


def _are_cells(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_cell, value))


def _is_catalogue(value: object) -> bool:
    try:
        return isinstance(value, dict) and bool(Catalogue(**value).stated())
    except (InputError, TypeError):
        return False


def _are_statistics(value: object) -> bool:
    return isinstance(value, list) and bool(value) and set(map(str, value)) <= _STATISTICS


def _are_counts(value: object) -> bool:
    """Return whether a value is a list of counts of cells, each of a known statistic."""
    return isinstance(value, list) and all(
        isinstance(count, dict)
        and count.get("statistic") in _STATISTICS
        and _is_count(count.get("cells"))
        for count in value
    )


def _are_accuracies(value: object) -> bool:
    """Return whether a value is a list of statements on accuracy, each of a known statistic."""
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and one.get("statistic") in _STATISTICS
        and one.get("basis") in _BASES
        and one.get("graded_by") in ("map", "bounds")
        and _is_text(one.get("assumption"))
        and all(_is_optional_number(one.get(key)) for key in ("typical_error", "between_cells"))
        and _are_grades(one.get("grades"))
        for one in value
    )


def _is_optional_number(value: object) -> bool:
    return value is None or _is_number(value)


def _are_grades(value: object) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == set(GRADES)
        and all(map(_is_count, value.values()))
    )


_STEPS: Mapping[str, Mapping[str, Check]] = {
    "clipping_range": {
        "lower": _is_end,
        "upper": _is_end,
        "votes": _are_ends,
        "total": _is_positive,
    },
    "cell_stages": {
        "mechanism": _is_text,
        "cell_epsilon": _is_loss,
        "stages": lambda value: isinstance(value, list) and all(map(_is_cell_stage, value)),
    },
    "pooled_histogram": {
        "votes": _are_ends,
        "total": _is_positive,
        "centre": _is_end,
        "below": _is_positive,
        "above": _is_positive,
    },
    "within_spread": {"quantile": _is_proper_fraction, "spread": _is_number},
    "first_look": {"lower": _is_end, "upper": _is_end},
    "cells": {
        "moved": lambda value: value is None or _is_count(value),
    },
}
_CELL_RANGE_STEPS = (
    ("pooled_histogram", "first_look", "cells"),
    ("pooled_histogram", "within_spread", "first_look", "cells"),
)
"""The steps of a release with a range per cell, in their order."""
FIELDS: Mapping[str, Mapping[str, Check] | Check] = {
    "software": _is_mapping_of(_is_text),
    "dataset": {
        **dict.fromkeys(("name", "columns", "repeats", "value", "value_unit"), _is_text),
        "version": _is_optional_text,
        "sources": _are_texts,
    },
    "guarantee": {
        "privacy_unit": _is_privacy_unit,
        **dict.fromkeys(("promise", "neighbours", "not_protected"), _is_text),
        **dict.fromkeys(("epsilon_requested", "epsilon_spent", "l0_epsilon"), _is_loss),
        "probability_factor": _is_factor,
        "assumptions": _are_texts,
    },
    "bounds": dict.fromkeys(("lower", "upper", "quantum"), _is_exact),
    "grid": _is_grid,
    "rules": _is_mapping_of(_is_count),
    "selection": _is_mapping_of(_is_text),
    "plan": {
        **dict.fromkeys(("method", "mechanism"), _is_text),
        "statistics": _are_statistics,
        **dict.fromkeys(("mean_error", "max_error"), _is_error),
        "cells_better_than_constant": _is_count,
        "privacy_steps": _are_steps,
    },
    "losses": {
        **dict.fromkeys(("units", "at_zero"), _is_count),
        **dict.fromkeys(("max", "p99", "p90", "median", "mean"), _is_number),
    },
    "cells": _are_cells,
    "accuracy": _are_accuracies,
    "cut_off": _are_counts,
    "request": _is_hex_digest,
    "ledger": _is_ledger_position,
}


def check_manifest(manifest: dict[str, Any], path: Path) -> None:
    """Raise InputError at the first field that is missing or invalid.

    Parameters
    ----------
    manifest : dict
        A manifest as read.
    path : Path
        Where it was read, for the message.
    """
    for key, checks in FIELDS.items():
        if callable(checks):
            _check_field(manifest, key, checks, key, path)
            continue
        _check_field(manifest, key, lambda value: isinstance(value, dict), key, path)
        for name, is_valid in checks.items():
            _check_field(manifest[key], name, is_valid, f"{key}/{name}", path)
    if "catalogue" in manifest:
        _check_field(manifest, "catalogue", _is_catalogue, "catalogue", path)


def _check_field(
    manifest: dict[str, Any], key: str, is_valid: Check, field: str, path: Path
) -> None:
    if key in manifest and is_valid(manifest[key]):
        return
    reason = "is not what a release writes there" if key in manifest else "is missing"
    raise InputError(f"{path}: {field} {reason}; get the folder again from its holder.")
